"""`glassformer bench time-to-bleu` and `bench course` as a user types them."""

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoint import read
from train.runs import Command, records, steps, text

TIME = ("bench", "time-to-bleu")


def write_log(folder: str, *scores: float) -> None:
    """A validation a minute."""
    Path(folder).mkdir()
    lines = [
        {"step": 10 * i, "valid_bleu": score, "best": True, "labels": 1_000 * i, "seconds": 60 * i}
        for i, score in enumerate(scores, start=1)
    ]
    Path(folder, "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A translator is judged by its loss unless an option names another metric."""
    path = tmp_path / "tiny.toml"
    path.write_text(text(tmp_path / "text").to_toml())
    return path


def saved(path: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(path).read_text())
    return content


def test_runs_are_compared_from_their_logs(glassformer: Command) -> None:
    write_log("a", 30, 50, 60)
    write_log("b", 20, 40)
    code, out, err = glassformer(*TIME, "a", "b", "--output", "new/t.json", "--figure", "f.svg")
    assert code == 0, err
    assert "Time to BLEU 55" in out and "not reached" in out and "interpolated" in out
    assert "command: glassformer bench time-to-bleu a b --output new/t.json" in out
    assert "<svg" in Path("f.svg").read_text()
    a, b = saved("new/t.json")["runs"]
    assert (a["run"], b["run"]) == ("a", "b")
    assert a["first_at_or_above"]["minutes"] == 3 and a["interpolated"]["minutes"] == 2.5
    assert saved("new/t.json")["machine"]["cores"] >= 1


def test_the_target_can_be_chosen_and_files_need_not_be_written(glassformer: Command) -> None:
    write_log("a", 30, 50, 60)
    code, out, _ = glassformer(*TIME, "a/log.jsonl", "--target", "20")
    assert code == 0 and "Time to BLEU 20" in out and "30.00" in out
    assert not Path("results").exists()


def test_a_recipe_is_trained_until_the_target_is_reached(
    glassformer: Command, recipe: Path
) -> None:
    code, out, err = glassformer(*TIME, recipe, "--target", "0", "--output", "t.json")
    assert code == 0, err
    folder = Path("runs/time-to-bleu/tiny")
    assert "stopped after 4 updates, " in err and ": bleu 0 reached" in err and steps(folder) == [4]
    assert [r["step"] for r in records(folder, "train_loss")] == [1, 2, 3, 4]
    (found,) = saved("t.json")["runs"]
    assert found["first_at_or_above"]["updates"] == 4
    assert found["target_tokens_are"] == "counted" and found["curve"][0]["target_tokens"] > 0
    assert found["settings"]["train"]["metric"] == "bleu"
    assert str(folder) in out


def test_a_recipe_goes_on_to_a_higher_target_until_its_own_limit(
    glassformer: Command, recipe: Path
) -> None:
    glassformer(*TIME, recipe, "--target", "0")
    code, out, err = glassformer(*TIME, recipe, "--target", "100")
    folder = Path("runs/time-to-bleu/tiny")
    assert code == 0 and "stopped after 8 updates, " in err and "not reached" in out
    assert steps(folder) == [4, 8] and len(records(folder, "valid_bleu")) == 2
    before = (folder / "log.jsonl").read_bytes()
    assert glassformer(*TIME, recipe, "--target", "100")[0] == 0
    assert (folder / "log.jsonl").read_bytes() == before  # over is over


def test_a_recipe_that_has_changed_does_not_go_on_with_the_run_of_before(
    glassformer: Command, recipe: Path
) -> None:
    glassformer(*TIME, recipe, "--target", "0")
    recipe.write_text(recipe.read_text().replace("learning_rate = 0.01", "learning_rate = 0.02"))
    code, _, err = glassformer(*TIME, recipe, "--target", "100")
    assert code == 2 and "train.learning_rate = 0.01, now 0.02" in err
    assert read(Path("runs/time-to-bleu/tiny/latest")).settings.train.learning_rate == 0.01


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (("none",), 3, "There is no log none/log.jsonl"),
        (("none.toml",), 2, "There is no recipe none.toml"),
        (("a", "--figure", "f.gif"), 2, "f.gif is not the name of a figure"),
    ],
)
def test_errors_are_reported_before_anything_is_trained(
    glassformer: Command, recipe: Path, arguments: tuple[str, ...], code: int, what: str
) -> None:
    write_log("a", 30)
    assert glassformer(*TIME, recipe, *arguments)[0] == code
    assert what in glassformer(*TIME, recipe, *arguments)[2]
    assert not Path("runs").exists()


def test_the_course_of_runs_is_drawn(glassformer: Command) -> None:
    write_log("a", 30, 50)
    write_log("b", 20)
    code, out, _ = glassformer("bench", "course", "a", "b/log.jsonl", "--output", "new/c.svg")
    assert (code, out) == (0, "written to new/c.svg\n")
    assert "a: BLEU" in Path("new/c.svg").read_text()
    code, _, err = glassformer("bench", "course", "c")
    assert code == 3 and "There is no log" in err and not Path("course.svg").exists()
