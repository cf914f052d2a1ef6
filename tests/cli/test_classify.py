"""`glassformer classify`: lines in, labels with their probabilities out."""

import json
import sys
from pathlib import Path

import pytest

from cli.models import LONGEST, TEXTS, type_in, write_model
from glassformer.pipeline import load_classifier
from pretrained.stand_ins import bundle
from train.runs import Command

RUN = ("--model", "run", "--threads", 1)


@pytest.fixture
def command(glassformer: Command) -> Command:
    """The command, with a classifier in `run`."""
    write_model(kind="classifier", seed=1)
    return glassformer


def test_every_line_gets_its_label_and_probability(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = load_classifier("run").classify(TEXTS)
    assert {one.label for one in found} == {"sad", "glad"}
    expected = "".join(f"{one.label}\t{one.probability:.4f}\n" for one in found)
    assert command("classify", *TEXTS, *RUN) == (0, expected, "")
    content = "".join(f"{text}\r\n" for text in TEXTS)
    Path("texts").write_text(content)
    assert command("classify", "--file", "texts", *RUN) == (0, expected, "")
    type_in(monkeypatch, content)
    assert command("classify", "--batch-tokens", 1, *RUN) == (0, expected, "")


def test_probabilities_are_those_of_all_labels_as_json(command: Command) -> None:
    code, out, _ = command("classify", "--probabilities", TEXTS[0], "", TEXTS[1], *RUN)
    first, empty, second = out.split("\n")[:-1]
    assert (code, empty) == (0, "")
    for line, text in ((first, TEXTS[0]), (second, TEXTS[1])):
        shown = json.loads(line)
        assert shown == pytest.approx(load_classifier("run").classify(text).probabilities, abs=1e-6)
        assert list(shown) == ["sad", "glad"] and sum(shown.values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("nothing", ["", "  ", "\x01\x02", "\u200b"], ids=repr)
def test_a_line_without_a_word_gives_an_empty_line(command: Command, nothing: str) -> None:
    code, out, _ = command("classify", nothing, "a dog", nothing, *RUN)
    first, label, last = out.split("\n")[:-1]
    assert code == 0 and first == last == "" and label


def test_odd_characters_are_characters(command: Command) -> None:
    texts = ["a\0dog", "☃", "\x1b[2J tea"]
    code, out, _ = command("classify", *texts, *RUN)
    found = load_classifier("run").classify(texts)
    assert code == 0 and [line.split("\t")[0] for line in out.splitlines()] == [
        one.label for one in found
    ]


def test_int8_is_the_model_quantised(command: Command) -> None:
    found = load_classifier("run", int8=True).classify(TEXTS)
    expected = "".join(f"{one.label}\t{one.probability:.4f}\n" for one in found)
    assert command("classify", "--int8", *TEXTS, *RUN) == (0, expected, "")
    assert command("classify", *TEXTS, *RUN)[1] != expected


def test_a_text_too_long_is_named_and_the_lines_before_it_are_answered(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(monkeypatch, "\n".join([*TEXTS, "tea " * 10_000, *TEXTS]))
    code, out, err = command("classify", "--no-truncate", *RUN)
    assert code == 3 and out.count("\n") == len(TEXTS)
    assert "Line 5 of standard input: the text has" in err and f"up to {LONGEST}" in err
    assert "--no-truncate" in err.partition("next:")[2] and "--split" not in err
    sys.stdin.seek(0)
    code, out, err = command("classify", *RUN)
    assert code == 0 and out.count("\n") == 2 * len(TEXTS) + 1
    assert f"note: cut to {LONGEST:,} subwords: 1 texts (--no-truncate)" in err


def test_what_is_not_utf_8_is_named(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, b"a dog\nun th\xe9\n")
    code, out, err = command("classify", "--no-truncate", *RUN)
    assert code == 3 and out.count("\n") == 1
    assert "Line 2 of standard input is not UTF-8" in err


def test_a_model_that_is_none_or_of_another_kind_is_named(glassformer: Command) -> None:
    for name, what in (("absent", "no model 'absent'"), (".", ". is not a checkpoint")):
        code, _, err = glassformer("classify", "a dog", "--model", name)
        assert code == 4 and what in err
    write_model("run")
    code, _, err = glassformer("classify", "a dog", "--model", "run")
    assert code == 4 and "run holds a translator, not a classifier" in err
    assert "translate" in err.partition("why:")[2]


def test_without_a_model_it_is_the_bundled_one_and_its_labels_are_words(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = bundle(monkeypatch, tmp_path / "package", "en-fr", "sentiment")
    found = load_classifier(root / "sentiment").classify(TEXTS)
    assert {one.label for one in found} == {"negative", "positive"}
    expected = "".join(f"{one.label}\t{one.probability:.4f}\n" for one in found)
    Path("sentiment").mkdir()
    asked = ("classify", "--threads", 1, *TEXTS)
    assert glassformer(*asked) == (0, expected, "")
    Path("sentiment").rmdir()
    assert glassformer(*asked, "--model", "sentiment") == (0, expected, "")
    code, out, _ = glassformer("classify", "--probabilities", TEXTS[0])
    assert code == 0 and list(json.loads(out)) == ["negative", "positive"]


def test_without_any_model_it_says_how_to_get_one(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle(monkeypatch, tmp_path / "package", "en-fr")
    code, out, err = glassformer("classify", "a dog")
    assert (code, out) == (4, "") and "sentiment does not come with this copy" in err
    assert "--model runs/imdb" in err and "imdb" in err.partition("next:")[2]
