"""`glassformer train` as a user meets it: a recipe, some changes, and what is msg."""

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoint import find, read, sole_writer
from glassformer.cli.train import read_recipe
from glassformer.config import RunSettings
from glassformer.errors import SettingsError
from glassformer.pipeline import Classifier, load
from glassformer.progress import Bar, fetching
from train.runs import (
    ON_FILES,
    RECIPE,
    TINY,
    Command,
    assert_same_bits,
    debris,
    records,
    steps,
    text,
)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    return tmp_path / "tiny.toml"


def written(folder: Path, settings: RunSettings) -> Path:
    path = folder / "text.toml"
    path.write_text(settings.to_toml())
    return path


# From a recipe to a run


def test_a_recipe_is_carried_out_and_told(glassformer: Command, recipe: Path) -> None:
    code, out, msg = glassformer("train", recipe)
    assert (code, out) == (0, "")
    assert "60 examples to train on, 12 to validate on" in msg
    assert msg.count("tokens/s") == 8 and msg.count("valid  loss") == 2
    assert "stopped after 8 updates, 0.0 minutes in all: 8 updates" in msg
    assert "runs/tiny/best (update " in msg and "runs/tiny/latest (update 8); kept: 4, 8" in msg
    assert "continue: glassformer train runs/tiny --resume train.max_steps=16\n" in msg
    assert steps(Path("runs/tiny")) == [4, 8]


def test_a_translator_learns_from_text_files_end_to_end(
    glassformer: Command, tmp_path: Path
) -> None:
    settings = text(tmp_path, train={"max_steps": 2, "metric": "bleu"})
    code, _, msg = glassformer("train", written(tmp_path, settings), "--run", "run")
    assert code == 0
    assert "48 examples to train on, 12 to validate on" in msg
    (record,) = records(Path("run"), "valid_loss")
    assert 0 <= record["valid_bleu"] <= 100 and "bleu" in msg
    saved = read(Path("run/best"))
    assert saved.settings.model.vocab_size == len(saved.tokenizers["joint"]) <= 60
    assert isinstance(load("run").translate("the red fox runs"), str)


def test_a_run_ends_with_another_text_and_says_so(glassformer: Command, tmp_path: Path) -> None:
    settings = text(tmp_path, train={"max_steps": 4})
    again = {"final": [*settings.data.valid], "final_share": 0.5}
    code, _, msg = glassformer(
        "train", written(tmp_path, settings.replace(data=again)), "--run", "r"
    )
    assert code == 0, msg
    assert "48 examples to train on, 12 to validate on, 12 to end on" in msg
    logged = records(Path("r"), "train_loss")
    assert [(record["epoch"], record.get("final")) for record in logged] == [
        (0, None), (0, None), (1, True), (1, True)
    ]  # fmt: skip
    told = [line for line in msg.splitlines() if "tokens/s" in line]
    assert ["final text" in line for line in told] == [False, False, True, True]


def test_changes_on_the_command_line_reach_the_run(glassformer: Command, recipe: Path) -> None:
    changes = ("train.max_steps=1", "model.d_ff=24", "model.norm=rms-norm", "train.patience=3")
    code, _, msg = glassformer("train", recipe, *changes, "data.labels=['a', 'b']", "--run", "r")
    assert code == 0, msg
    saved = read(Path("r/latest")).settings
    assert (saved.train.max_steps, saved.model.d_ff, saved.train.patience) == (1, 24, 3)
    assert saved.model.norm == "rms-norm" and saved.data.labels == ("a", "b")
    assert saved.data.examples == 60  # what was not changed


def test_files_are_named_on_the_command_line_as_a_list(
    glassformer: Command, tmp_path: Path
) -> None:
    files = text(tmp_path / "text").data
    named = [f"data.{split}={json.dumps(getattr(files, split))}" for split in ("train", "valid")]
    changes = ("data.name=files", *named, "model.vocab_size=60", "train.max_steps=1")
    bare = ON_FILES.replace(data={"name": "grammar"})
    code, _, msg = glassformer("train", written(tmp_path, bare), *changes, "--run", "run")
    assert code == 0, msg
    assert read(Path("run/latest")).settings.data.train == files.train


@pytest.mark.parametrize(
    ("change", "what", "remedy"),
    [
        ("trian.max_steps=1", "Unknown setting 'trian'", "did you mean 'train'?"),
        ("train.max_step=1", "Unknown setting 'train.max_step'", "mean 'train.max_steps'?"),
        ("model.n_haeds=1", "Unknown setting 'model.n_haeds'", "did you mean 'model.n_heads'?"),
        ("batch_size=8", "Unknown setting 'batch_size'", "'data.batch_tokens' (in tokens, not"),
        ("train.xyzzy=8", "Unknown setting 'train.xyzzy'", "glassformer settings"),
        ("train.max_steps=soon", "train.max_steps = 'soon'", "set train.max_steps"),
        ("train.max_steps", "'train.max_steps' is not a change", "train.max_steps=1000"),
        ("train.max_steps.more=1", "train.max_steps = {'more': 1}", "set train.max_steps"),
        ("model=small", "model = 'small'", "set model"),
        ("model.n_heads=3", "n_heads = 3", "n_heads"),
        ("train.metric=bleu", "does not go with a translator on 'copy'", "'accuracy' or 'loss'"),
    ],
)
def test_a_wrong_setting_is_named_with_the_nearest(
    glassformer: Command, recipe: Path, change: str, what: str, remedy: str
) -> None:
    code, out, msg = glassformer("train", recipe, change)
    assert (code, out) == (2, "")
    assert f"error: {what}" in msg or what in msg
    assert remedy in msg.partition("next:")[2]
    assert not Path("runs").exists()


def test_a_section_and_its_settings_cannot_both_be_changed(
    glassformer: Command, recipe: Path
) -> None:
    code, _, msg = glassformer("train", recipe, "train=fast", "train.max_steps=1")
    assert code == 2 and "train" in msg


def test_a_recipe_that_is_not_there_or_not_toml_is_named(
    glassformer: Command, tmp_path: Path
) -> None:
    code, _, msg = glassformer("train", "recipes/none.toml")
    assert code == 2 and "There is no recipe recipes/none.toml" in msg
    assert "[model], [data], [train] and [search]" in msg and "next: glassformer recipes" in msg
    (tmp_path / "broken.toml").write_text("[model\n")
    code, _, msg = glassformer("train", "broken.toml")
    assert code == 2 and "not TOML" in msg and "line 1" in msg


def test_changes_nest_by_section_and_leave_the_rest_alone(recipe: Path) -> None:
    changed = read_recipe(recipe, ["train.clip=2", "data.columns=['a', 'b']"], skip_bad=True)
    expected = {"data": {"columns": ("a", "b"), "skip_bad": True}, "train": {"clip": 2.0}}
    assert changed == TINY.replace(**expected)
    with pytest.raises(SettingsError, match=r"Unknown setting 'train\.clips'"):
        read_recipe(recipe, ["train.clips=2"])


# Over and over


def test_a_run_that_is_there_is_neither_lost_nor_begun_anew(
    glassformer: Command, recipe: Path
) -> None:
    glassformer("train", recipe, "train.max_steps=4")
    before = Path("runs/tiny/log.jsonl").read_bytes()
    code, _, msg = glassformer("train", recipe)
    assert code == 2 and "runs/tiny already holds a run" in msg
    assert "--resume" in msg and "--run runs/tiny-2" in msg
    assert Path("runs/tiny/log.jsonl").read_bytes() == before
    code, _, msg = glassformer("train", recipe, "--resume")
    assert code == 0 and "stopped after 8 updates" in msg
    assert steps(Path("runs/tiny")) == [4, 8]


@pytest.mark.parametrize("more", [(), ("--resume",)])
def test_a_second_training_in_one_folder_is_one_error_and_readers_are_not_blocked(
    glassformer: Command, recipe: Path, more: tuple[str, ...]
) -> None:
    glassformer("train", recipe, "train.max_steps=4")
    before = Path("runs/tiny/log.jsonl").read_bytes()
    with sole_writer(Path("runs/tiny"), print):
        code, out, msg = glassformer("train", recipe, *more)
        assert read(find(Path("runs/tiny"))).settings.train.max_steps == 4
    assert (code, out) == (4, "") and msg.count("error:") == 1
    assert "Another training writes to runs/tiny: process" in msg
    assert Path("runs/tiny/log.jsonl").read_bytes() == before
    assert glassformer("train", recipe, "--resume")[0] == 0
    assert debris(Path("runs/tiny")) == []


def test_a_run_killed_before_it_made_its_links_is_not_begun_anew(
    glassformer: Command, recipe: Path
) -> None:
    glassformer("train", recipe, "train.max_steps=4")
    for name in ("latest", "best"):
        Path("runs/tiny", name).unlink()
    code, _, msg = glassformer("train", recipe)
    assert code == 2 and "already holds a run" in msg
    assert glassformer("train", recipe, "--resume")[0] == 0


def test_there_is_nothing_to_resume_before_a_first_checkpoint(
    glassformer: Command, recipe: Path
) -> None:
    code, _, msg = glassformer("train", recipe, "--resume")
    assert code == 4 and "holds no checkpoint" in msg and "without --resume" in msg


def test_a_damaged_checkpoint_is_told_and_the_one_before_is_used(
    glassformer: Command, recipe: Path
) -> None:
    glassformer("train", recipe)
    Path("runs/tiny/step-00000008/model.safetensors").write_bytes(b"")
    code, _, msg = glassformer("train", recipe, "--resume")
    assert code == 0 and "step-00000008 is damaged: model.safetensors" in msg
    assert "Going back" in msg and msg.count("tokens/s") == 4


def test_a_resumed_run_keeps_its_subwords_when_its_text_changes(
    glassformer: Command, tmp_path: Path
) -> None:
    recipe = written(tmp_path, settings := text(tmp_path))
    glassformer("train", recipe, "train.max_steps=4")
    for path in settings.data.train:
        with Path(path).open("a") as file:
            file.write("zebra zebra\n" * 30)
    code, _, msg = glassformer("train", recipe, "--resume")
    assert code == 0, msg
    first, last = (read(Path("runs/text", f"step-{n:08d}")) for n in (4, 8))
    assert first.tokenizers["joint"].model == last.tokenizers["joint"].model


def test_a_mixture_in_both_directions_is_scored_set_by_set(
    glassformer: Command, tmp_path: Path
) -> None:
    settings = text(tmp_path, train={"metric": "bleu"}, data={"directions": "both"})
    files = {"name": "pairs", "files": settings.data.train}
    mixture = {
        "name": "mixture", "train": (), "valid": (), "sources": [files | {"weight": 1}],
        "valid_sets": [{"name": "held-out", "files": settings.data.valid}], "epoch_tokens": 300,
    }  # fmt: skip
    code, _, msg = glassformer("train", written(tmp_path, settings.replace(data=mixture)))
    assert code == 0, msg
    record = records(Path("runs/text"), "valid_loss")[-1]
    by_set = [record[f"valid_bleu/held-out.{way}"] for way in ("en-fr", "fr-en")]
    assert record["valid_bleu"] == pytest.approx(sum(by_set) / 2)
    assert {"valid_loss/held-out.en-fr", "valid_loss/held-out.fr-en"} <= record.keys()
    assert "held-out.en-fr" in msg and "held-out.fr-en" in msg


def test_verify_resume_proves_it_with_real_processes_and_leaves_no_run(
    glassformer: Command, tmp_path: Path
) -> None:
    """Four of them, a dozen seconds: nothing less shows what differs from process to process."""
    settings = text(
        tmp_path,
        model={"dropout": 0.2},
        data={"subword_sampling": 0.3, "batch_tokens": 96},
        train={"metric": "bleu", "ema": 0.8},
    )
    code, _, msg = glassformer("train", written(tmp_path, settings), "--verify-resume")
    assert code == 0 and "48 examples to train on" in msg
    assert "stopped by SIGTERM after 3" in msg and "killed by SIGKILL after 6" in msg
    assert "the same bits after 8" in msg
    assert not Path("runs").exists()


# Bad data


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A recipe whose training text has an empty line on one side."""
    settings = text(tmp_path, train={"max_steps": 1})
    with Path(settings.data.train[0]).open("a") as source:
        source.write("\n")
    with Path(settings.data.train[1]).open("a") as target:
        target.write("un mot sans source\n")
    return written(tmp_path, settings)


def test_a_bad_row_stops_the_run_and_is_named(glassformer: Command, bad: Path) -> None:
    code, _, msg = glassformer("train", bad)
    assert code == 3 and "train.en:49" in msg and "--skip-bad" in msg
    assert not Path("runs").exists()


def test_skip_bad_goes_on_without_it_and_says_how_many(glassformer: Command, bad: Path) -> None:
    code, _, msg = glassformer("train", bad, "--skip-bad")
    assert code == 0 and "48 examples to train on" in msg
    assert "1 bad" in msg
    code, _, msg = glassformer("train", bad, "--skip-bad", "--run", "again")
    assert code == 0 and "1 bad" in msg  # also when all is in the cache


def test_examples_that_are_too_long_are_left_out_and_counted(
    glassformer: Command, tmp_path: Path
) -> None:
    settings = text(tmp_path, train={"max_steps": 1}, data={"max_length": 12})
    with Path(settings.data.train[0]).open("a") as source:
        source.write("fox " * 30 + "\n")
    with Path(settings.data.train[1]).open("a") as target:
        target.write("ici\n")
    code, _, msg = glassformer("train", written(tmp_path, settings))
    assert code == 0 and "left out: 1 longer than 12 subwords" in msg


def test_a_pair_too_long_to_validate_on_does_not_stop_a_run_judged_by_bleu(
    glassformer: Command, tmp_path: Path
) -> None:
    settings = text(tmp_path, train={"max_steps": 1, "metric": "bleu"}, data={"max_length": 30})
    for path, line in zip(settings.data.valid, ("fox " * 40, "ici"), strict=True):
        Path(path).write_text(f"{line}\n{Path(path).read_text()}")
    code, _, msg = glassformer("train", written(tmp_path, settings), "--run", "run")
    assert code == 0, msg
    assert "left out: 1 longer than 30 subwords, to validate on" in msg
    assert steps(Path("run")) == [1]


def test_texts_that_are_cut_are_counted(
    glassformer: Command, tmp_path: Path, reviews: RunSettings
) -> None:
    code, _, msg = glassformer("train", written(tmp_path, reviews), "data.max_length=2")
    assert code == 0, msg
    assert "cut: 40 of 2 subwords or more\n" in msg
    assert "cut: 12 of 2 subwords or more, to validate on\n" in msg


@pytest.fixture
def reviews(tmp_path: Path) -> RunSettings:
    """A classifier's recipe on a TSV file with a header."""
    for name in ("train", "valid"):
        rows = "".join(f"a {mood} fox {i}\t{mood}\n" for i in range(20) for mood in ("sad", "glad"))
        (tmp_path / f"{name}.tsv").write_text(f"text\tlabel\n{rows}")
    files = {name: [str(tmp_path / f"{name}.tsv")] for name in ("train", "valid")}
    return ON_FILES.replace(
        model={"kind": "classifier", "vocab_size": 40},
        data={"columns": ["text", "label"], **files},
        train={"max_steps": 2, "metric": "accuracy"},
    )


def test_a_classifier_learns_from_a_table(
    glassformer: Command, tmp_path: Path, reviews: RunSettings
) -> None:
    code, _, msg = glassformer("train", written(tmp_path, reviews), "--run", "run")
    assert code == 0, msg
    saved = read(Path("run/best")).settings
    assert saved.data.labels == ("glad", "sad") and saved.model.n_classes == 2


def test_a_label_that_training_never_saw_is_named(
    glassformer: Command, tmp_path: Path, reviews: RunSettings
) -> None:
    with (tmp_path / "valid.tsv").open("a") as file:
        file.write("a fox\tangry\n")
    code, _, msg = glassformer("train", written(tmp_path, reviews), "data.valid_examples=100")
    assert code == 3 and "valid.tsv:42" in msg and "angry" in msg


def test_a_kind_of_model_that_has_no_use_for_text_is_refused(
    glassformer: Command, tmp_path: Path
) -> None:
    settings = text(tmp_path, model={"kind": "tagger"})
    code, _, msg = glassformer("train", written(tmp_path, settings))
    assert code in (2, 3) and "tagger" in msg


# One run from another


@pytest.fixture
def words(glassformer: Command, tmp_path: Path) -> Path:
    """The run of a masked language model, carried out as a user would."""
    settings = text(
        tmp_path,
        model={"kind": "masked-language-model"},
        data={"mask_rate": 0.2, "fold_case": True, "batch_tokens": 200},
        train={"max_steps": 2},
    )
    code, out, msg = glassformer("train", written(tmp_path, settings), "--run", "words")
    assert (code, out) == (0, ""), msg
    assert "48 examples to train on, 12 to validate on" in msg and "valid  loss" in msg
    return Path("words")


def test_a_classifier_starts_from_a_masked_language_model(
    glassformer: Command, tmp_path: Path, words: Path, reviews: RunSettings
) -> None:
    recipe = written(tmp_path, reviews.replace(data={"fold_case": True}))
    code, _, msg = glassformer("train", recipe, "train.start_from=words", "--run", "run")
    assert code == 0, msg
    before, after = read(words / "best"), read(Path("run/best"))
    fingerprints = [one.tokenizers["joint"].fingerprint for one in (before, after)]
    assert fingerprints[0] == fingerprints[1]
    assert after.settings.model.vocab_size == before.settings.model.vocab_size
    assert after.settings.train.start_from == "words"
    assert f"subwords: joint {len(before.tokenizers['joint'])}" in msg
    classifier = load("run")
    assert isinstance(classifier, Classifier)
    assert classifier.classify("A SAD FOX") == classifier.classify("a sad fox")


def test_such_a_run_is_resumed_like_any_other(
    glassformer: Command, tmp_path: Path, words: Path, reviews: RunSettings
) -> None:
    recipe = (written(tmp_path, reviews), "train.start_from=words", "data.fold_case=true")
    for folder, steps_ in [("whole", (4,)), ("parts", (2, 4))]:
        for i, n in enumerate(steps_):
            more = ("--resume",) * (i > 0)
            changes = (f"train.max_steps={n}", "train.validate_every=2")
            assert glassformer("train", *recipe, *changes, "--run", folder, *more)[0] == 0
    assert_same_bits(Path("whole"), Path("parts"))


@pytest.mark.parametrize("verb", [("train",), ("data", "show")], ids=" ".join)
def test_a_run_to_start_from_that_is_not_there_is_one_block(
    glassformer: Command, tmp_path: Path, reviews: RunSettings, verb: tuple[str, ...]
) -> None:
    recipe = written(tmp_path, reviews)
    code, out, msg = glassformer(*verb, recipe, "train.start_from=runs/words")
    assert (code, out) == (4, "") and "runs/words" in msg and "Traceback" not in msg
    assert "run" in msg.partition("next:")[2]
    assert not Path("runs").exists() and not Path("cache/glassformer/prepared").exists()


def test_a_run_of_another_shape_is_not_started_from(
    glassformer: Command, tmp_path: Path, words: Path, reviews: RunSettings
) -> None:
    recipe = written(tmp_path, reviews.replace(data={"fold_case": True}))
    code, _, msg = glassformer("train", recipe, "train.start_from=words", "model.d_ff=24")
    assert code == 4 and "feed_forward" in msg and "(16, 8) there" in msg and "(24, 8)" in msg
    assert "train.start_from" in msg.partition("next:")[2] and not Path("runs").exists()


@pytest.mark.parametrize(
    ("change", "what", "remedy"),
    [
        ("data.mask_rate=0", "data.mask_rate = 0.0 does not go with", "Set data.mask_rate = 0.15"),
        ("data.subword_sampling=0.1", "data.subword_sampling = 0.1", "data.subword_sampling out"),
        ("data.mask_rate=1", "data.mask_rate = 1", "set data.mask_rate"),
        ("train.metric=bleu", "does not go with a masked-language-model", "'accuracy' or 'loss'"),
    ],
)
def test_what_does_not_go_with_a_masked_language_model_is_named(
    glassformer: Command, tmp_path: Path, change: str, what: str, remedy: str
) -> None:
    model = {"kind": "masked-language-model"}
    recipe = written(tmp_path, text(tmp_path, model=model, data={"mask_rate": 0.2}))
    code, out, msg = glassformer("train", recipe, change)
    msg = " ".join(msg.split())
    assert (code, out) == (2, "") and what in msg and remedy in msg.partition("next:")[2]
    assert not Path("runs").exists()


# What is shown

TRAIN = {
    "step": 5,
    "train_loss": 1.25,
    "labels_per_second": 1234.0,
    "gradient_norm": 0.5,
    "learning_rate": 1e-3,
    "seconds": 30.0,
}
VALID = {"step": 5, "valid_loss": 1.0, "valid_accuracy": 50.0, "best": True, "seconds": 30.0}


def shown(capsys: pytest.CaptureFixture[str], *records: dict[str, Any], **bar: Any) -> str:
    with Bar("training", steps=10, done=0, minutes=bar.get("minutes"), seconds=0.0) as shown:
        for record in records:
            shown.record(record)
    return " ".join(capsys.readouterr().err.split())


def test_without_a_terminal_every_record_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    msg = shown(capsys, TRAIN, VALID)
    assert "5 loss 1.250 1,234 tokens/s norm 0.50 rate 1.0e-03 (0.5 min left)" in msg
    assert "5 valid loss 1.000 accuracy 50.00% best (0.5 min left)" in msg


def test_time_left_is_by_minutes_where_these_end_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "(0.1 min left)" in shown(capsys, TRAIN, minutes=0.6)


def test_on_a_terminal_a_bar_moves_and_validations_stay(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    msg = shown(capsys, TRAIN, VALID)
    assert "training" in msg and "valid loss 1.000" in msg
    assert msg.count("(0.5 min left)") == 1  # only the validation is a line of its own


def test_fetching_shows_how_much_of_each_file_there_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with fetching() as progress:
        for done in range(0, 11):
            progress("a/file.gz", done, 10)
        progress("another", 3, None)
    msg = capsys.readouterr().err
    assert "a/file.gz" in msg and "another" in msg and "100%" in msg


def test_a_recipe_that_is_not_utf8_is_told(glassformer: Command) -> None:
    Path("r.toml").write_bytes(b"\xff\xfe[model]")
    code, _, msg = glassformer("train", "r.toml")
    assert code == 2 and "are not TOML" in msg and "Traceback" not in msg
