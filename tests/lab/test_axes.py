"""Doublings: marks where something was measured."""

from matplotlib.figure import Figure

from glassformer.lab.axes import doublings


def test_marks_stand_where_something_was_measured() -> None:
    axes = Figure().subplots()
    axes.plot([8, 16, 64], [1, 2, 3])
    doublings(axes, [8, 16, 64])
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["8", "16", "64"]
    assert list(axes.get_xticks()) == [8, 16, 64]
