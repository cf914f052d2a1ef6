"""Figures: a picture on the disk with the words, the shades and the frames that it should have."""

import sys
from xml.etree import ElementTree

import pytest
import torch

from glassformer.errors import MissingPackageError
from glassformer.inspect.figures import alignment_figure

SOURCE, TARGET = ["the", "red", "car"], ["la", "voiture", "rouge", "."]
GOLD = {(0, 0), (2, 1), (1, 2)}
FRAME = "#d1495b"


def draw(path, gold=GOLD) -> str:
    attention = torch.rand(len(TARGET), len(SOURCE)).softmax(-1)
    alignment_figure(attention, SOURCE, TARGET, gold, "One head", path)
    return path.read_text() if path.suffix == ".svg" else ""


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_picture_is_written_where_it_was_asked_for(tmp_path, suffix, start):
    path = tmp_path / "new" / f"picture.{suffix}"
    draw(path)
    assert path.read_bytes().startswith(start)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_it_shows_all_the_words_and_the_title(tmp_path):
    drawing = draw(tmp_path / "picture.svg")
    assert ElementTree.fromstring(drawing).tag.endswith("svg")
    for text in [*SOURCE, *TARGET, "One head"]:
        assert f"<!-- {text} -->" in drawing


@pytest.mark.parametrize("count", [0, 1, 3])
def test_every_true_link_has_a_frame(tmp_path, count):
    drawing = draw(tmp_path / "picture.svg", gold=sorted(GOLD)[:count])
    assert drawing.count(f"stroke: {FRAME}") == count


def test_figures_are_closed(tmp_path):
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    draw(tmp_path / "picture.png")
    assert pyplot.get_fignums() == before


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackageError) as caught:
        draw(tmp_path / "picture.png")
    assert "'matplotlib'" in caught.value.what
    assert "picture" in caught.value.why
    assert "glassformer[plots]" in caught.value.remedy
    assert not list(tmp_path.iterdir())
