"""`glassformer ablate` as a user types it, with runs of a few updates."""

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.api import run as api_run
from glassformer.api.run import Job, TrainedRun
from glassformer.bench.trials import claim
from glassformer.checkpoint import RunFolder
from glassformer.data.prepare import prepare
from train.runs import RECIPE, TINY, Command, assert_same_bits, text, trained

VARY = ("--vary", "model.dropout=0.1,0.3", "--vary", "train.optimizer=adamw,muon")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    return tmp_path / "tiny.toml"


def result(path: str = "results/ablate_tiny.json") -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(path).read_text())
    return content


def folders(place: str = "runs/ablate-tiny") -> list[str]:
    logs = Path(place).glob("*/*/log.jsonl")
    return sorted(str(path.parent.relative_to(place)) for path in logs)


def test_every_variant_is_trained_with_every_seed(glassformer: Command, recipe: Path) -> None:
    code, out, err = glassformer("ablate", recipe, *VARY, "--seeds", "2", "train.max_steps=4")
    assert code == 0, err
    names = ["baseline", "model.dropout=0.3", "train.optimizer=muon"]
    assert folders() == [f"{name}/seed-{seed}" for name in names for seed in (1, 2)]
    assert "run 6 of 6: train.optimizer=muon, seed 2" in err
    assert "baseline:" in out and "best loss" in out and "±" in out
    content = result()
    assert [row["variant"] for row in content["rows"]] == names
    assert [run["seed"] for run in content["rows"][1]["runs"]] == [1, 2]
    assert all(run["updates"] == 4 for row in content["rows"] for run in row["runs"])
    assert content["command"].startswith("glassformer ablate") and content["machine"]["cores"]
    written = Path("results/ablate_tiny.md").read_text()
    assert "| model.dropout=0.3 | 2 |" in written and "| threads | 1 |" in written
    assert "| baseline: model.dropout=0.1, train.optimizer=adamw | 2 |" in written


def test_a_variant_is_the_run_that_train_makes_of_it(glassformer: Command, recipe: Path) -> None:
    glassformer("ablate", recipe, *VARY, "--seeds", "2", "--run", "a", "train.clip=0.5")
    changes = ("train.clip=0.5", "model.dropout=0.3", "train.seed=2")
    assert glassformer("train", recipe, *changes, "--run", "alone")[0] == 0
    assert_same_bits(Path("a/model.dropout=0.3/seed-2"), Path("alone"))


def test_what_is_over_is_not_run_again_and_more_can_be_added(
    glassformer: Command, recipe: Path
) -> None:
    glassformer("ablate", recipe, *VARY, "--output", "a.json")
    logs = {name: Path("runs/ablate-tiny", name, "log.jsonl").read_bytes() for name in folders()}
    code, _, err = glassformer(
        "ablate", recipe, *VARY, "--vary", "model.d_ff=8", "--seeds", "2", "--output", "b.json"
    )
    assert code == 0 and err.count("stopped after") == 5  # of eight
    assert len(folders()) == 8
    for name, log in logs.items():
        assert Path("runs/ablate-tiny", name, "log.jsonl").read_bytes() == log
    first, second = result("a.json")["rows"][1]["runs"], result("b.json")["rows"][1]["runs"]
    assert first[0] == second[0]


def test_a_half_done_run_is_resumed(glassformer: Command, recipe: Path) -> None:
    half = Path("runs/ablate-tiny/baseline/seed-1")
    claim(half, TINY)
    trained(prepare(TINY, threads=1), half, stop=5)
    code, _, err = glassformer("ablate", recipe, *VARY)
    assert code == 0, err
    assert [p.name for p in RunFolder(half).steps()] == [f"step-0000000{n}" for n in (4, 5, 8)]
    trained(prepare(TINY, threads=1), Path("whole"))
    assert_same_bits(half, Path("whole"))


def test_ctrl_c_ends_it_and_the_same_command_goes_on(glassformer: Command, recipe: Path) -> None:
    carry_out, trained_so_far = api_run.carry_out, list[Path]()

    def interrupted(job: Job) -> TrainedRun:
        if trained_so_far:
            return TrainedRun(job.folder, job.settings, 1, "loss", None, "signal 2", signal=2)
        trained_so_far.append(job.folder)
        return carry_out(job)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api_run, "carry_out", interrupted)
        code, out, err = glassformer("ablate", recipe, *VARY)
    assert (code, out) == (130, "") and "the same command continues from here" in err
    assert not Path("results").exists()
    code, _, err = glassformer("ablate", recipe, *VARY)
    assert code == 0 and err.count("stopped after") == 2


def test_what_goes_wrong_is_a_row(glassformer: Command, recipe: Path) -> None:
    vary = ("--vary", "train.learning_rate=1e30", "--vary", "train.accumulate=1000")
    code, out, err = glassformer("ablate", recipe, *vary)
    assert code == 0, err
    baseline, diverged, starved = result()["rows"]
    assert baseline["best"]["mean"] > 0 and diverged["best"] is None and starved["best"] is None
    assert "An epoch has" in starved["runs"][0]["error"]
    assert "Errors" in out and err.count("went wrong:") == 2
    assert "0 of 1" in out and diverged["runs"][0]["error"] in " ".join(out.split())
    code, _, err = glassformer("ablate", recipe, *vary)
    assert code == 0 and "stopped after" not in err


def test_where_nothing_came_of_it_the_command_fails(glassformer: Command, recipe: Path) -> None:
    vary = ("--vary", "model.dropout=0.2")
    code, out, _ = glassformer("ablate", recipe, *vary, "train.accumulate=1000")
    assert code == 1 and out.count("0 of 1") == 2


def test_a_grid_tries_every_combination(glassformer: Command, recipe: Path) -> None:
    code, out, _ = glassformer("ablate", recipe, *VARY, "--grid", "train.max_steps=1")
    assert code == 0 and "every combination" in out
    assert folders() == [
        "baseline/seed-1",
        "model.dropout=0.1,train.optimizer=muon/seed-1",
        "model.dropout=0.3,train.optimizer=adamw/seed-1",
        "model.dropout=0.3,train.optimizer=muon/seed-1",
    ]


def test_a_translator_is_compared_by_bleu_on_text(glassformer: Command, tmp_path: Path) -> None:
    settings = text(tmp_path / "text", train={"max_steps": 2, "metric": "bleu"})
    (tmp_path / "text.toml").write_text(settings.to_toml())
    vary = ("--vary", "model.vocab_size=50", "--vary", "data.subword_sampling=0.1")
    code, out, err = glassformer("ablate", "text.toml", *vary)
    assert code == 0, err
    assert "best bleu" in out and "target tokens" in out
    assert all(row["best"] is not None for row in result("results/ablate_text.json")["rows"])


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--vary", "model.d_ff=8", "--vary", "model.n_heads=3"), "n_heads = 3 does not go with"),
        (("--vary", "model.d_ff=8", "--vary", "train.optimiser=muon"), "mean 'train.optimizer'?"),
        (("--vary", "train.max_steps=4"), "train.max_steps cannot be varied"),
        (("--vary", "model.d_ff=8", "train.max_step=4"), "Unknown setting 'train.max_step'"),
        (("--vary", "model.d_ff=8", "--output", "a.md"), "Say --output a.json"),
        ((), "--vary"),
        (("--vary", "model.d_ff=8", "--seeds", "0"), "--seeds"),
    ],
)
def test_errors_are_reported_before_anything_is_trained(
    glassformer: Command, recipe: Path, arguments: tuple[str, ...], what: str
) -> None:
    code, out, err = glassformer("ablate", recipe, *arguments)
    assert (code, out) == (2, "") and what in err
    assert not Path("runs").exists()


def test_a_budget_is_not_changed_half_way(glassformer: Command, recipe: Path) -> None:
    glassformer("ablate", recipe, *VARY)
    code, _, err = glassformer("ablate", recipe, *VARY, "train.max_steps=16")
    assert code == 2 and "train.max_steps = 8, now 16" in err
