"""Figures of links: words, shades and lines."""

from xml.etree import ElementTree

import pytest
import torch

from glassformer.inspect.figures import MISSED, RIGHT, WRONG, links_figure
from glassformer.picture import save

DRAWN = {(0, 0), (1, 1), (1, 2)}


def draw(paths, gold=None) -> None:
    words = (["the", "red", "car"], ["la", "voiture", "rouge", "."])
    figure = links_figure(torch.rand(4, 3).softmax(-1), DRAWN, *words, "One head", gold)
    for path in paths:
        save(figure, path)


def test_a_links_figure_has_the_words_twice_and_is_reproducible(tmp_path):
    pytest.importorskip("matplotlib")
    first, again, dots = tmp_path / "new" / "1.svg", tmp_path / "2.svg", tmp_path / "new" / "1.png"
    torch.manual_seed(1)
    draw([first, dots])
    torch.manual_seed(1)
    draw([again])
    drawing = first.read_text()
    assert drawing == again.read_text() and dots.read_bytes().startswith(b"\x89PNG")
    assert ElementTree.fromstring(drawing).tag.endswith("svg")
    for text in ("the", "red", "car", "la", "voiture", "rouge"):
        assert drawing.count(f">{text}</text>") == 2
    assert drawing.count(">One head</text>") == 1


@pytest.mark.parametrize(
    ("gold", "right", "wrong", "missed"),
    [(None, 3, 0, 0), (DRAWN, 3, 0, 0), ({(0, 0), (1, 2), (2, 1)}, 2, 1, 1), (set(), 0, 3, 0)],
)
def test_links_are_coloured_as_correct_wrong_or_missed(tmp_path, gold, right, wrong, missed):
    """A found link is a line and a frame; a missed link is a line."""
    pytest.importorskip("matplotlib")
    draw([tmp_path / "1.svg"], gold)
    drawing = (tmp_path / "1.svg").read_text()
    counts = [drawing.count(f"stroke: {colour}") for colour in (RIGHT, WRONG, MISSED)]
    assert counts == [2 * right, 2 * wrong, missed]


def test_characters_that_svg_forbids_are_replaced(tmp_path):
    pytest.importorskip("matplotlib")
    figure = links_figure(torch.ones(1, 1), {(0, 0)}, ["a\x1bb"], ["\x07"], "One head")
    save(figure, tmp_path / "1.svg")
    assert ElementTree.fromstring((tmp_path / "1.svg").read_text()).tag.endswith("svg")
