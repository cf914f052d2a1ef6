"""`glassformer inspect`: a report of one text, and figures of heads over many."""

import csv
import json
from pathlib import Path

import pytest

import two_way
from cli.models import LONGEST, TEXTS, write_model
from glassformer import checkpoint
from glassformer.inspect.trace import Trace
from glassformer.pipeline import load_classifier, load_translator
from train.runs import Command

TEXT = "the old cat sees a dog"


@pytest.fixture
def command(glassformer: Command) -> Command:
    """The command, with a translator in `run`."""
    write_model()
    return glassformer


def test_a_report_is_written_and_its_place_told(command: Command) -> None:
    code, out, msg = command("inspect", "run", TEXT, "--threads", 1)
    assert code == 0, msg
    told = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert told["report"] == "inspect.html" and told["text"] == TEXT
    assert told["output"] == load_translator("run").translate(TEXT)
    page = Path("inspect.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>") and TEXT in page
    assert [path.name for path in Path().iterdir() if path.is_file()] == ["inspect.html"]


def test_json_and_csv_hold_the_same_decode(command: Command) -> None:
    files = ("--output", "new/r.html", "--json", "new/t.json", "--csv", "new/t.csv")
    code, out, _ = command("inspect", "run", TEXT, "--beam", 3, *files, "--threads", 1)
    assert code == 0
    trace = Trace.from_json(Path("new/t.json").read_text("utf-8"))
    assert trace.search is not None and trace.search["beam_size"] == 3 and trace.model == "run"
    assert trace.target.text == load_translator("run").translate(TEXT, beam_size=3)
    rows = list(csv.DictReader(Path("new/t.csv").read_text("utf-8").splitlines()))
    assert len(rows) == sum(weights.numel() for weights in trace.attention.values())
    for path in files[1::2]:
        assert path in out and Path(path).exists()
    assert not Path("inspect.html").exists()


def test_pictures_go_to_folders(command: Command) -> None:
    pytest.importorskip("matplotlib")
    code, out, _ = command(
        "inspect", "run", "a dog", "--target", "un", "--svg", "s", "--threads", 1
    )
    assert code == 0
    names = sorted(path.name for path in Path("s").iterdir())
    assert names == sorted(f"{name}.svg" for name in (
        "encoder", "decoder", "cross", "cross-words", "links", "heads", "saliency",
    ))  # fmt: skip
    assert "s: encoder.svg" in out


def test_it_can_be_made_to_say_something(command: Command) -> None:
    code, out, _ = command(
        "inspect", "run", TEXT, "--target", "un chat", "--json", "t", "--threads", 1
    )
    trace = Trace.from_json(Path("t").read_text("utf-8"))
    assert code == 0 and trace.search is None and trace.target.text == "un chat"
    assert "forced output    un chat" in out


def test_a_classifier_and_a_language_model_can_be_looked_into(command: Command) -> None:
    write_model("labels", "classifier", seed=1)
    code, out, _ = command("inspect", "labels", TEXT, "--threads", 1)
    found = load_classifier("labels").classify(TEXT)
    assert code == 0 and f"{found.label:<16} {found.probability:.2%}" in out
    write_model("speaker", "language-model")
    code, out, _ = command("inspect", "speaker", "a dog", "--beam", 2, "--threads", 1)
    assert code == 0 and "output " in out


def test_a_text_of_several_lines_is_one_text(command: Command) -> None:
    code, out, _ = command("inspect", "run", "a dog\nthe old cat", "--threads", 1)
    assert code == 0 and "a dog the old cat" in out


def test_heads_over_a_corpus(command: Command) -> None:
    Path("texts").write_text("".join(f"{text}\n" for text in TEXTS))
    files = ("--json", "h.json", "--csv", "h.csv")
    code, out, msg = command("inspect", "run", "--corpus", "texts", *files, "--threads", 1)
    assert code == 0, msg
    assert f"over {len(TEXTS)} texts" in out and "ΔBLEU" not in out
    for title in ("encoder attention", "decoder attention", "cross attention", "bits"):
        assert title in out
    content = json.loads(Path("h.json").read_text("utf-8"))
    assert content["texts"] == len(TEXTS) and len(content["heads"]) == 6
    assert "texts" in content["checksums"] and content["machine"]["cores"] >= 1
    assert content["command"].startswith("glassformer inspect run --corpus texts")
    rows = list(csv.DictReader(Path("h.csv").read_text("utf-8").splitlines()))
    assert len(rows) == 6 and "reading: 100%" in msg


def test_heads_are_weighed_by_what_bleu_loses_without_them(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.inspect.importance.TRIALS", 30)
    translator = load_translator("run")
    Path("en").write_text("".join(f"{text}\n" for text in TEXTS))
    own = translator.translate(TEXTS, beam_size=1)
    Path("fr").write_text("".join(f"{text or 'x'}\n" for text in own))
    options = ("--corpus", "en", "--reference", "fr", "--truncate", "--json", "h.json")
    code, out, msg = command("inspect", "run", *options, "--threads", 1)
    assert code == 0, msg
    assert "ΔBLEU" in out and "masking heads: 100%" in msg
    content = json.loads(Path("h.json").read_text("utf-8"))
    assert content["bleu"] == pytest.approx(100, abs=1e-6)
    changes = [head["importance"] for head in content["heads"]]
    assert all(-100 <= change <= 1e-6 for change in changes) and min(changes) < 0
    assert all(0 < head["importance_p"] <= 1 for head in content["heads"])
    assert translator.translate(TEXTS, beam_size=1) == own

    code, out, _ = command("inspect", "run", "--corpus", "en", "--limit", 2, "--threads", 1)
    assert code == 0 and "over 2 texts" in out


def test_long_texts_are_named_or_cut(command: Command) -> None:
    code, _, msg = command("inspect", "run", "tea " * 100, "--threads", 1)
    assert code == 3 and f"up to {LONGEST}" in msg and "--truncate" in msg
    assert not Path("inspect.html").exists()
    assert command("inspect", "run", "tea " * 100, "--truncate", "--threads", 1)[0] == 0
    Path("texts").write_text("tea " * 100 + "\na dog\n")
    code, _, msg = command("inspect", "run", "--corpus", "texts", "--threads", 1)
    assert code == 3 and "1 of 2 texts" in msg
    options = ("--corpus", "texts", "--truncate", "--threads", 1)
    assert command("inspect", "run", *options)[0] == 0


def test_bad_lines_of_a_corpus_are_told_or_left_out(command: Command) -> None:
    Path("texts").write_text("a dog\n\na cat\n")
    code, _, msg = command("inspect", "run", "--corpus", "texts", "--threads", 1)
    assert code == 3 and "texts:2: empty" in msg and "--skip-bad" in msg
    code, out, _ = command("inspect", "run", "--corpus", "texts", "--skip-bad", "--threads", 1)
    assert code == 0 and "over 2 texts" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "Neither a text nor --corpus"),
        (["run", TEXT, "--corpus", "texts"], "A text and --corpus are both given"),
        (["run", TEXT, "--reference", "fr"], "--reference goes with --corpus only"),
        (["run", TEXT, "--limit", "2"], "--limit goes with --corpus only"),
        (["run", TEXT, "--target", "un", "--beam", "2"], "--beam does not go with --target"),
        (["run", "--corpus", "texts", "--svg", "s"], "--svg does not go with --corpus"),
        (["run", "--corpus", "texts", "--target", "un"], "--target does not go with --corpus"),
        (["labels", TEXT, "--target", "un"], "--target does not go with labels"),
        (["labels", TEXT, "--beam", "2"], "--beam does not go with labels"),
        (["labels", "--corpus", "texts", "--reference", "fr"], "goes with a translator only"),
        (["labels", "--corpus", "texts", "--beam", "2"], "--beam does not go with labels"),
        (["run", TEXT, "--skip-bad"], "--skip-bad goes with --corpus only"),
    ],
)
def test_what_does_not_go_together_is_refused(
    command: Command, arguments: list[str], message: str
) -> None:
    write_model("labels", "classifier")
    code, out, msg = command("inspect", *arguments)
    assert (code, out) == (2, "") and message in msg


def test_what_is_not_there_or_cannot_be_written_is_named(command: Command) -> None:
    code, _, msg = command("inspect", "absent", TEXT)
    assert code == 4 and "absent" in msg
    code, _, msg = command("inspect", "run", "--corpus", "absent", "--threads", 1)
    assert code == 3 and "absent" in msg
    code, _, msg = command("inspect", "run", " ", "--threads", 1)
    assert code == 3 and "has no tokens" in msg
    Path("file").write_text("")
    code, _, msg = command("inspect", "run", TEXT, "--output", "file/r.html", "--threads", 1)
    assert code == 3 and "file/r.html cannot be written" in msg


def test_a_model_of_both_directions_is_inspected_in_the_direction_that_is_named(
    glassformer: Command,
) -> None:
    checkpoint.write(two_way.two_way(), Path("both"))
    msg = []
    for options in ((), ("--to", "fr"), ("--to", "en")):
        asked = ("inspect", "both", "the dog sees a cat", "--threads", 1, "--json", "trace.json")
        code, _, err = glassformer(*asked, *options)
        assert code == 0, err
        msg.append(Path("trace.json").read_text())
    assert msg[0] == msg[1] != msg[2]
