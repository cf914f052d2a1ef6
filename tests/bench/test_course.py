"""The course of runs on one picture."""

import json
from pathlib import Path

import pytest

from glassformer import picture
from glassformer.bench import course
from glassformer.errors import DataError, InputError

UPDATES = [
    {"step": 10, "seconds": 60, "train_loss": 5.0, "learning_rate": 0.1, "labels_per_second": 9},
    {"step": 20, "seconds": 120, "train_loss": 3.0, "learning_rate": 0.2, "labels_per_second": 8},
]
JUDGED = {"step": 20, "seconds": 120, "valid_loss": 4.0, "valid_bleu": 30.0, "valid_accuracy": 50.0}


def run(folder: Path, *records: dict[str, float]) -> Path:
    folder.mkdir()
    (folder / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def lines(figure) -> dict[str, dict[str, list[list[float]]]]:
    return {
        axes.get_title(): {
            line.get_label(): [list(line.get_xdata()), list(line.get_ydata())]
            for line in axes.lines
        }
        for axes in figure.axes
    }


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list:
    figures: list = []
    monkeypatch.setattr(picture, "save", lambda figure, path: figures.append(figure))
    return figures


def test_lines_have_the_values_of_the_log(tmp_path: Path, drawn: list) -> None:
    course.draw([run(tmp_path / "a", *UPDATES, JUDGED)], tmp_path / "x.svg")
    assert lines(drawn[0]) == {
        "loss per label, in nats": {
            "training": [[1, 2], [5.0, 3.0]],
            "validation": [[2], [4.0]],
        },
        "validation, in percent": {"BLEU": [[2], [30.0]], "accuracy": [[2], [50.0]]},
        "learning rate": {"learning rate": [[1, 2], [0.1, 0.2]]},
        "labels a second": {"labels per second": [[1, 2], [9, 8]]},
    }


def test_lines_of_several_runs_are_labelled_by_run(tmp_path: Path, drawn: list) -> None:
    """A run that was never validated has no such line."""
    places = [run(tmp_path / "a", *UPDATES, JUDGED), run(tmp_path / "b", UPDATES[0])]
    course.draw(places, tmp_path / "x.svg")
    panels = lines(drawn[0])
    a, b = places
    assert list(panels["learning rate"]) == [f"{a}: learning rate", f"{b}: learning rate"]
    assert list(panels["validation, in percent"]) == [f"{a}: BLEU", f"{a}: accuracy"]


@pytest.mark.parametrize("runs", [1, 2, 7])
def test_lines_of_a_panel_differ_in_colour_or_style(tmp_path: Path, drawn: list, runs: int) -> None:
    places = [run(tmp_path / str(i), *UPDATES, JUDGED) for i in range(runs)]
    course.draw(places, tmp_path / "x.svg")
    for axes in drawn[0].axes:
        looks = {(line.get_color(), line.get_linestyle()) for line in axes.lines}
        assert len(looks) == len(axes.lines) >= runs


def test_a_log_that_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not the name of a figure"):
        course.draw([run(tmp_path / "a", *UPDATES)], tmp_path / "x.pdf")
    with pytest.raises(DataError, match="There is no log"):
        course.draw([tmp_path / "none"], tmp_path / "x.svg")
    with pytest.raises(DataError, match=r"The log of .*b is empty"):
        course.draw([run(tmp_path / "b")], tmp_path / "x.svg")
