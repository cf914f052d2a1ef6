"""`glassformer train --translate` and `--classify`: a user's file, and no recipe."""

import json
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.checkpoint import read
from glassformer.config import RunSettings
from glassformer.errors import InputError
from glassformer.pipeline import Classifier, load
from train.runs import PAIRS, Command, assert_same_bits, records, steps

SMALL = (
    "model.d_model=8", "heads=2", "model.d_ff=16", "model.encoder_layers=1",
    "model.decoder_layers=1", "vocab=60", "steps=4", "train.max_minutes=60", "train.patience=9",
    "train.validate_every=2", "train.warmup_share=0.5", "train.log_every=1", "train.threads=1",
    "train.processes=1", "train.precision=fp32", "data.batch_tokens=64",
)  # fmt: skip


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    rows = "".join(f"{source}\t{target}\n" for source, target in PAIRS)
    (tmp_path / "pairs.tsv").write_text(f"english\tfrench\n{rows}")
    return tmp_path / "pairs.tsv"


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    rows = "".join(f"a {mood} fox {i},{mood}\n" for i in range(30) for mood in ("sad", "glad"))
    (tmp_path / "reviews.csv").write_text(f"review,verdict\n{rows}")
    return tmp_path / "reviews.csv"


def test_pairs_train_a_translator_without_a_recipe(glassformer: Command, pairs: Path) -> None:
    code, _, msg = glassformer("train", "--translate", pairs, "--minutes", "5", *SMALL)
    assert code == 0, msg
    assert f"{pairs}: from english (en) to french" in msg
    assert "set aside to validate on: 3 of 60, drawn at random" in msg
    assert "chosen: translator of width 128, 3+3 layers" in msg
    assert "written: runs/pairs/recipe.toml" in msg
    data = Path("runs/pairs/data")
    kept, held_out = (
        [tuple(json.loads(line).values()) for line in (data / name).read_text().splitlines()]
        for name in ("train.jsonl", "valid.jsonl")
    )
    assert len(held_out) == 3 and set(kept) | set(held_out) <= set(PAIRS)
    assert not {side for row in kept for side in row} & {side for row in held_out for side in row}
    saved = read(Path("runs/pairs/best")).settings
    assert saved.data.columns == ("english", "french") and saved.train.metric == "bleu"
    assert isinstance(load("runs/pairs").translate("the red fox runs"), str)


def test_the_recipe_that_is_written_repeats_the_run(glassformer: Command, pairs: Path) -> None:
    fixed = (*SMALL, "train.schedule=constant")  # no clock
    assert glassformer("train", "--translate", pairs, "--run", "one", *fixed)[0] == 0
    text = Path("one/recipe.toml").read_text()
    assert text.startswith("# translator of width 128")
    assert RunSettings.from_toml(text).train.max_steps == 4
    assert glassformer("train", "one/recipe.toml", "--run", "two")[0] == 0
    assert_same_bits(Path("one"), Path("two"))


def test_a_run_is_continued_by_its_folder(glassformer: Command, pairs: Path) -> None:
    assert glassformer("train", "--translate", pairs, *SMALL)[0] == 0
    code, _, msg = glassformer("train", "runs/pairs", "--resume", "train.max_steps=6")
    assert code == 0, msg
    assert max(steps(Path("runs/pairs"))) == 6
    again = ("train", "--translate", pairs, "--resume", "steps=8")
    assert glassformer(*again)[0] == 0 and max(steps(Path("runs/pairs"))) == 8


def test_reviews_train_a_classifier(glassformer: Command, reviews: Path) -> None:
    code, _, msg = glassformer("train", "--classify", reviews, *SMALL)
    assert code == 0, msg
    assert "text review, label verdict (glad, sad)" in msg
    assert "set aside to validate on: 6 of 60" in msg and "n-grams of up to 2 words" in msg
    classifier = load("runs/reviews")
    assert isinstance(classifier, Classifier) and classifier.labels == ("glad", "sad")
    assert "glassformer classify --model runs/reviews TEXT" in msg
    code, _, msg = glassformer("evaluate", "runs/reviews", "--data", reviews)
    assert code == 0 and f"columns of {reviews}: review,verdict" in msg


def test_python_does_the_same_and_guesses_the_task(glassformer: Command, reviews: Path) -> None:
    assert glassformer("train", "--classify", reviews, "--run", "typed", *SMALL)[0] == 0
    changes = RunSettings.from_toml(Path("typed/recipe.toml").read_text()).model_dump()
    changes["data"] = {"batch_tokens": 64}
    run = gf.train(data=reviews, run="called", changes=changes, progress=False)
    assert run.settings.model == read(Path("typed/best")).settings.model
    written = [Path(name, "data/train.jsonl").read_bytes() for name in ("typed", "called")]
    assert written[0] == written[1]


def test_a_list_needs_no_recipe_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="There are 2 examples"):
        gf.train(data=[("a", "b"), ("c", "d")], progress=False)
    with pytest.raises(InputError, match="There is no recipe and no data"):
        gf.train(progress=False)
    with pytest.raises(InputError, match="minutes was given with a recipe"):
        gf.train("tiny", minutes=5, progress=False)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((), "There is nothing to train on"),
        (("--translate", "a.tsv", "--classify", "b.csv"), "--translate and --classify are both"),
        (("copy", "--minutes", "5"), "--minutes goes with --translate or --classify only"),
        (("--translate", "a.tsv", "--verify-resume"), "does not go with --verify-resume"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    glassformer: Command, arguments: tuple[str, ...], what: str
) -> None:
    code, _, msg = glassformer("train", *arguments)
    assert code == 2 and what in msg


def test_two_processes_are_started_and_what_they_did_is_told(
    glassformer: Command, pairs: Path
) -> None:
    two = [change.replace("processes=1", "processes=2") for change in SMALL]
    code, _, _ = glassformer("train", "--translate", pairs, *two)
    assert code == 0 and steps(Path("runs/pairs")) == [2, 4]
    assert len(records(Path("runs/pairs"), "train_loss")) == 4


# The end of a run


def test_a_run_that_ends_inside_its_warm_up_says_so(glassformer: Command) -> None:
    fast = ("train.warmup=100", "steps=3", "model.d_model=8", "heads=2", "data.examples=20")
    fast += ("train.accumulate=1", "data.valid_examples=5", "train.threads=1")
    code, _, msg = glassformer("train", "copy", *fast, "train.log_every=1", "lr=1e-9")
    assert code == 0, msg
    assert "note: the run ended inside its warm-up, at 3% of the learning rate" in msg
    assert "train.warmup_share=0.04" in msg


def test_a_loss_that_never_fell_is_told(glassformer: Command) -> None:
    wild = ("lr=30", "train.muon_rate=30", "train.warmup=0", "steps=6", "train.log_every=1")
    tiny = ("model.d_model=8", "heads=2", "data.examples=20", "data.valid_examples=5")
    tiny += ("train.accumulate=1", "train.threads=1")
    code, _, msg = glassformer("train", "copy", *wild, *tiny)
    assert code == 0, msg
    assert "note: the loss never fell:" in msg


def test_the_number_of_epochs_ends_a_run(glassformer: Command) -> None:
    few = ("epochs=2", "data.examples=60", "data.valid_examples=5", "train.accumulate=1")
    tiny = ("model.d_model=8", "heads=2", "train.warmup=1", "train.log_every=1", "train.threads=1")
    code, _, msg = glassformer("train", "copy", *few, *tiny)
    assert code == 0 and "in all: 2 epochs" in msg
    logged = records(Path("runs/copy"), "train_loss")
    assert {record["epoch"] for record in logged} == {0, 1}
    assert logged[-1]["learning_rate"] == pytest.approx(0)  # the schedule ends with them
    assert "--resume train.epochs=4" in msg
