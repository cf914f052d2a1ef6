"""`glassformer profile` on a preset and on a run, as a user types it."""

import json
from pathlib import Path

import pytest

from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint, weights_of
from glassformer.config import RunSettings
from glassformer.data import grammar
from glassformer.data.tokenizer import Tokenizer
from glassformer.model.build import build
from train.runs import Command

QUICK = ("--quick", "--threads", "1")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A translator that was never trained, with subwords of the grammar."""
    texts = [pair.source for pair in grammar.pairs("train", 200)]
    tokenizer = Tokenizer.train(texts, 100)
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1}
    settings = RunSettings.of(model={"vocab_size": len(tokenizer), **sizes})
    content = Checkpoint(settings, weights_of(build(settings.model)), {"joint": tokenizer})
    checkpoint.write(content, tmp_path / "run")
    return tmp_path / "run"


def test_a_preset_is_profiled_without_a_model(glassformer: Command, tmp_path: Path) -> None:
    files = ("--json", "out/profile.json", "--trace", "out/trace.json")
    code, err, _ = glassformer("profile", "tiny", *QUICK, "--beam", "2", *files)
    assert code == 0
    for title in ("Where time goes: tiny (random weights)", "Speed", "Memory", "tokens out"):
        assert title in err
    assert "out/profile.json" in err and "out/trace.json" in err
    report = json.loads((tmp_path / "out/profile.json").read_text())
    assert report["command"].startswith("glassformer profile tiny --")
    assert len(report["tables"]) == 5
    assert report["machine"]["threads"] == 1
    assert str(tmp_path) not in json.dumps(report)
    assert json.loads((tmp_path / "out/trace.json").read_text())["traceEvents"]


@pytest.mark.parametrize("option", ["--json", "--trace"])
def test_a_place_that_cannot_be_written_is_named_after_the_tables(
    glassformer: Command, option: str
) -> None:
    Path("file").write_text("")
    code, err, errors = glassformer("profile", "tiny", *QUICK, option, "file/out.json")
    assert code == 3 and "file/out.json cannot be written" in errors
    assert "Traceback" not in errors and "Where time goes" in err


def test_a_run_is_profiled_on_built_in_sentences(
    glassformer: Command, run: Path, tmp_path: Path
) -> None:
    before = set(tmp_path.rglob("*"))
    code, err, _ = glassformer("profile", "run", *QUICK, "--sentences", "2")
    assert code == 0
    assert "run, 2 sentences, beam 5, 1 threads" in err
    assert set(tmp_path.rglob("*")) == before, "nothing is written unless asked for"


def test_a_run_is_profiled_on_given_sentences(
    glassformer: Command, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "text.en").write_text("The cat sees a dog.\n\nThe king sleeps.\n")
    code, err, _ = glassformer("profile", "run", *QUICK, "--source", "text.en", "--beam", "1")
    assert code == 0
    assert "run, 2 sentences, beam 1" in err, "empty lines are none"


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["tiny", "--source", "text.en"], 2, "A preset has random weights and no subwords."),
        (["classifier"], 2, "classifier is a classifier."),
        (["absent"], 4, "absent"),
        (["run", "--source", "absent.en"], 3, "absent.en"),
        (["tiny", "--beam", "0"], 2, "--beam"),
        (["tiny", "--sentences", "0"], 2, "--sentences"),
    ],
)
def test_bad_input_gets_one_block(
    glassformer: Command, run: Path, arguments: list[str], code: int, expected: str
) -> None:
    ended, err, errors = glassformer("profile", *arguments, *QUICK)
    assert ended == code
    assert expected in errors
    assert "Traceback" not in errors
    assert err == ""
