"""The figure of BLEU and time against beam width."""

import sys
from xml.etree import ElementTree

import pytest

from glassformer.errors import InputError, MissingPackageError
from glassformer.evaluate.beam_figure import beam_figure
from glassformer.evaluate.beams import BeamComparison, BeamResult


@pytest.fixture(scope="module")
def comparison() -> BeamComparison:
    results = [
        BeamResult(width, 30 + width / 10, p, 50, p, 1, 40, 1 / width, None, 1, width)
        for width, p in ((1, None), (2, 0.5), (4, 0.01), (16, 0.001))
    ]
    return BeamComparison(40, results, [], [], {})


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_figure_is_written_to_its_path(comparison, tmp_path, suffix, start):
    path = tmp_path / "new" / f"beams.{suffix}"
    beam_figure(comparison, path)
    assert path.read_bytes().startswith(start)


def test_the_figure_labels_every_width_and_both_axes(comparison, tmp_path):
    beam_figure(comparison, str(tmp_path / "beams.svg"))
    drawing = (tmp_path / "beams.svg").read_text()
    assert ElementTree.fromstring(drawing).tag.endswith("svg")
    for text in ["1", "2", "4", "16", "time ÷ time of greedy", "beam width (1 is greedy)"]:
        assert f">{text}</text>" in drawing
    assert ">BLEU (filled: p &lt; 0.05 against greedy)</text>" in drawing


def test_another_suffix_is_refused(comparison, tmp_path):
    with pytest.raises(InputError, match=r"End the name with \.svg or \.png"):
        beam_figure(comparison, tmp_path / "beams.txt")
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_error_names_the_extra(comparison, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError, match=r"glassformer\[plots\]"):
        beam_figure(comparison, tmp_path / "beams.png")
