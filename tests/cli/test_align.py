"""`glassformer align` as a user meets it: error rates on the grammar, links of one's own text."""

import json
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import two_way
from cli.models import LONGEST, TEXTS, write_model
from glassformer import checkpoint
from glassformer.data import grammar
from glassformer.inspect import aligner
from glassformer.inspect.alignment import Head, align, readings, tallies
from glassformer.inspect.links import Tally, TextPair, diagonal, pharaoh
from glassformer.inspect.word_attention import split_words
from glassformer.pipeline import load_translator
from train.runs import Command

FEW = 12
GRAMMAR = ("align", "run", "--threads", 1, "--sentences", FEW)
TEXT = ("align", "other", "--threads", 1, "--source", "text.en")
SOURCES = ["the cat sees a dog.", "", "two children's tea", "a dog, a cat"]
TARGETS = ["un chat voit.", "", "un vieux chat", "vieux voit l'un"]


@pytest.fixture
def command(glassformer: Command) -> Command:
    """The command, a translator of the grammar in `run` and the same of other text in `other`."""
    write_model()
    with_data("other", name="files")
    Path("text.en").write_text("".join(f"{line}\n" for line in SOURCES))
    Path("text.fr").write_text("".join(f"{line}\n" for line in TARGETS))
    return glassformer


def with_data(folder: str, **data: str) -> None:
    saved = checkpoint.read(Path("run"))
    settings = saved.settings.replace(data=data)
    checkpoint.write(replace(saved, weights=dict(saved.weights), settings=settings), Path(folder))


def pairs(sources: list[str], targets: list[str], cut: Any = split_words) -> list[TextPair]:
    return [TextPair(a, b, cut(a), cut(b)) for a, b in zip(sources, targets, strict=True)]


def expected(head: str, of: list[TextPair]) -> list[str]:
    found = align(load_translator("other", engine="torch"), of, Head.parse(head))
    return [pharaoh(links) for _, links in found]


# The grammar


def test_error_rates_are_told_as_tables_as_json_and_as_markdown(command: Command) -> None:
    files = ("--json", "out/aer.json", "--markdown", "out/aer.md")
    code, out, err = command(*GRAMMAR, *files)
    assert code == 0, err
    content = json.loads(Path("out/aer.json").read_text())
    dev, test = (list(grammar.pairs(split, FEW)) for split in ("valid", "test"))
    translator = load_translator("run", engine="torch")
    rates = {head.name: t.error_rate for head, t in tallies(translator, dev).items()}
    assert content["dev_error_rates"] == pytest.approx(rates)
    assert content["dev_sentences"] == content["test_sentences"] == FEW
    measured = {head.name: tally for head, tally in tallies(translator, test).items()}
    gold = [pair.alignment for pair in test]
    measured["the diagonal"] = Tally.of(map(diagonal, test), gold)
    markdown = Path("out/aer.md").read_text()
    for row in content["test"]:
        if tally := measured.get(row["head"] or row["name"]):
            assert row["error_rate"] == pytest.approx(tally.error_rate)
            assert (row["low"], row["high"]) == tally.interval()
            assert (row["precision"], row["recall"]) == (tally.precision, tally.recall)
        assert row["low"] <= row["error_rate"] <= row["high"]
        for text in (out, markdown):
            assert row["name"] in text and f"{row['error_rate']:.1%}" in text
    names = [row["name"] for row in content["test"]]
    assert names[-3:] == ["the diagonal", "at random", "one true link a word"]
    assert "layer 1, head 2" in out and "layer 1, averaged" in out and "all heads averaged" in out
    around = content["circumstances"]
    assert around["command"] == f"glassformer align {' '.join(map(str, (*GRAMMAR[1:], *files)))}"
    assert around["machine"]["threads"] == 1 and around["settings"]["int8"] is False
    assert len(around["checksums"]) == 4 and around["checksums"]["grammar test fr"] in out
    assert "reading dev: 100%" in err and "written: out/aer.md" in err


def test_the_choice_is_made_on_dev_alone(command: Command) -> None:
    code, out, err = command(*GRAMMAR, "--json", "aer.json")
    assert code == 0, err
    content = json.loads(Path("aer.json").read_text())
    rates = content["dev_error_rates"]
    assert content["best"] == min(rates, key=rates.__getitem__)
    assert f"{content['best']} *" in out
    families: dict[str, list[str]] = {}
    for head in readings(1, 2):
        families.setdefault(head.family, []).append(head.name)
    for row in content["test"][:-3]:
        assert row["head"] == min(families.pop(row["name"]), key=rates.__getitem__)
        assert row["dev_error_rate"] == rates[row["head"]]
    assert not families


def test_a_named_head_is_measured_as_well(command: Command) -> None:
    code, out, err = command(*GRAMMAR, "--head", "1.2+1", "--json", "aer.json")
    assert code == 0, err
    row = json.loads(Path("aer.json").read_text())["test"][-4]
    assert (row["name"], row["head"]) == ("named", "1.2+1") and "named" in out


def test_pictures_of_the_grammar(command: Command) -> None:
    pytest.importorskip("matplotlib")
    more = ("--head", "1.1", "--figure", "new/pictures", "--limit", 2)
    code, _, err = command(*GRAMMAR, *more)
    assert code == 0, err
    drawn = sorted(path.name for path in Path("new/pictures").iterdir())
    assert drawn == ["1.png", "1.svg", "2.png", "2.svg"]
    pair = next(iter(grammar.pairs("test", 1)))
    drawing = Path("new/pictures/1.svg").read_text()
    title = f"layer 1, head 1, word as output: {right(pair)} of {len(pair.alignment)} true"
    assert title in drawing and f">{pair.target_words[1]}</text>" in drawing
    assert "2 pictures" in err


def right(pair: grammar.AlignedPair) -> int:
    ((_, links),) = align(load_translator("run", engine="torch"), [pair], Head.parse("1.1"))
    return len(links & pair.alignment)


def test_a_model_of_other_text_is_reported(command: Command) -> None:
    note = "The model was trained on files, not on these sentences."
    assert note not in command(*GRAMMAR)[1]
    code, out, _ = command("align", "other", *GRAMMAR[2:])
    assert code == 0 and note in out


def test_another_language_has_no_true_alignment(command: Command) -> None:
    with_data("german", target_language="de")
    code, out, err = command("align", "german", *GRAMMAR[2:])
    assert (code, out) == (2, "") and "german translates en to de" in err and "--source" in err


# One's own text


def test_each_line_gives_its_links(command: Command) -> None:
    code, out, err = command(*TEXT, "--target", "text.fr", "--head", "1.2")
    assert code == 0, err
    assert out.splitlines() == expected("1.2", pairs(SOURCES, TARGETS))
    assert out.splitlines()[1] == "" and len(out.splitlines()[0].split()) == 4
    files = ("--output", "out/links", "--words", "out/words")
    code, out, err = command(*TEXT, "--target", "text.fr", "--head", "1.2", *files)
    assert (code, out) == (0, "") and "written: out/links" in err
    links = Path("out/links").read_text().splitlines()
    assert links == expected("1.2", pairs(SOURCES, TARGETS))
    words = Path("out/words").read_text().splitlines()
    assert words[0] == "the cat sees a dog . ||| un chat voit ." and words[1] == " ||| "
    assert words[2] == "two children 's tea ||| un vieux chat"
    assert words[3] == "a dog , a cat ||| vieux voit l' un"


def test_without_a_translation_it_is_the_models_own(command: Command) -> None:
    code, out, err = command(*TEXT, "--head", "1", "--beam", 2, "--words", "words")
    assert code == 0, err
    own = load_translator("other").translate(SOURCES, beam_size=2)
    assert out.splitlines() == expected("1", pairs(SOURCES, own))
    told = [line.split(" ||| ")[1] for line in Path("words").read_text().splitlines()]
    assert told == [" ".join(split_words(text)) for text in own]
    assert "translating: 100%" in err


def test_tokenised_words_stand_between_spaces(command: Command) -> None:
    options = ("--target", "text.fr", "--head", "all", "--tokenised", "--words", "words")
    code, out, err = command(*TEXT, *options)
    assert code == 0, err
    by_spaces = pairs(SOURCES, TARGETS, cut=lambda text: tuple(text.split()))
    assert out.splitlines() == expected("all", by_spaces)
    assert Path("words").read_text().splitlines()[0] == "the cat sees a dog. ||| un chat voit."


def test_batches_change_nothing(command: Command) -> None:
    given = (*TEXT, "--target", "text.fr", "--head", "all:share")
    assert command(*given, "--batch-tokens", 1)[1] == command(*given, "--batch-tokens", 999)[1]


def test_few_lines_are_aligned_by_all_heads(command: Command) -> None:
    code, out, err = command(*TEXT, "--target", "text.fr")
    assert code == 0, err
    assert out.splitlines() == expected("all:share", pairs(SOURCES, TARGETS))
    assert "--head all:share: all heads averaged" in err and "fewer than 30 lines" in err


def test_many_lines_choose_for_themselves(command: Command) -> None:
    lines = list(chain.from_iterable([TEXTS] * 10))
    Path("text.en").write_text("".join(f"{line}\n" for line in lines))
    code, out, err = command(*TEXT, "--target", "text.en")
    assert code == 0, err
    assert "by the mutual information of its links in 40 lines" in err
    (told,) = (line for line in err.splitlines() if line.startswith("--head "))
    name = told.removeprefix("--head ").split(": ")[0]
    assert Head.parse(name).head is None
    assert out.splitlines() == expected(name, pairs(lines, lines))


def test_a_model_of_the_grammar_chooses_by_the_truth(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aligner, "CHOICE", FEW)
    rates = tallies(load_translator("run", engine="torch"), list(grammar.pairs("valid", FEW)))
    best = min(rates, key=lambda head: rates[head].error_rate)
    options = ("--source", "text.en", "--target", "text.fr", "--threads", 1)
    code, out, err = command("align", "run", *options)
    assert code == 0 and f"--head {best.name}: {best}, the best on the grammar" in err
    assert out.splitlines() == expected(best.name, pairs(SOURCES, TARGETS))


def test_pictures_are_called_by_their_lines(command: Command) -> None:
    pytest.importorskip("matplotlib")
    options = ("--target", "text.fr", "--figure", "pictures", "--limit", 2)
    code, out, err = command(*TEXT, *options)
    assert code == 0, err
    assert len(out.splitlines()) == 4
    assert {path.name for path in Path("pictures").glob("*.svg")} == {"1.svg", "3.svg"}
    drawing = Path("pictures/3.svg").read_text()
    for word in ("children", "'s", "vieux"):
        assert f">{word}</text>" in drawing


# What is wrong


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (("run", "--target", "text.fr"), 2, "--target goes with --source only"),
        (("run", "--output", "links"), 2, "--output goes with --source only"),
        (("run", "--tokenised"), 2, "--tokenised goes with --source only"),
        (("run", "--limit", 3), 2, "--limit goes with --figure only"),
        (("run", "--source", "text.en", "--sentences", 9), 2, "--sentences does not go with"),
        (("run", "--source", "text.en", "--json", "f"), 2, "--json does not go with --source"),
        (
            ("run", "--source", "text.en", "--target", "text.fr", "--beam", 2), 2,
            "--beam does not go with --target",
        ),
        (("run", "--head", "last"), 2, "There is no head 'last'"),
        (("run", "--head", "2.1"), 2, "The model has no head 2.1"),
        (("run", "--source", "absent"), 3, "absent cannot be read"),
        (("run", "--source", "empty"), 3, "empty has no lines"),
        (
            ("run", "--source", "text.en", "--target", "short"), 3,
            "text.en has 4 lines, and short has 1",
        ),
        (("run", "--source", "long"), 3, "Line 2 of the source has"),
        (("run", "--source", "text.en", "--target", "long"), 3, "Line 2 of the target has"),
        (("classifier",), 4, "classifier holds a classifier, not a translator"),
        (("run", "--figure", "text.en"), 3, "text.en cannot be written to"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_errors_are_one_block(
    command: Command, arguments: tuple[object, ...], code: int, what: str
) -> None:
    if "--figure" in arguments:
        pytest.importorskip("matplotlib")
    write_model("classifier", "classifier")
    Path("empty").write_text("")
    Path("short").write_text("un chat\n")
    long = "tea " * (LONGEST + 1)
    Path("long").write_text(f"a dog\n{long}\na\nb\n")
    result, out, err = command("align", *arguments)
    assert (result, out) == (code, "") and what in err
    assert err.startswith("error: ") and "\n  next: " in err


def test_without_matplotlib_nothing_is_begun(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = command(*TEXT, "--figure", "pictures")
    assert (code, out) == (2, "") and "'matplotlib' is not installed" in err
    assert not Path("pictures").exists() and "aligning" not in err


def test_a_model_of_both_directions_aligns_in_the_direction_that_is_named(
    glassformer: Command,
) -> None:
    checkpoint.write(two_way.two_way(), Path("both"))
    Path("text.en").write_text("the “dog”  sees a cat\n")
    Path("text.fr").write_text("le «\u00a0chien\u00a0» voit un chat\n")
    asked = ("align", "both", "--threads", 1, "--head", "1.1", "--words", "words")
    files = ("--source", "text.fr", "--target", "text.en", "--to", "en")
    code, out, err = glassformer(*asked, *files)
    assert code == 0, err
    words = Path("words").read_text()
    assert words == 'le " chien " voit un chat ||| the " dog " sees a cat\n'
    assert len(out.split()) == 7
    code, _, err = glassformer(*asked, "--source", "text.en", "--to", "de")
    assert code == 2 and "does not translate into 'de'" in err
