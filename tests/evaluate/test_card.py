"""Sheets: the same content for a terminal and in Markdown, and what must be copied unbroken."""

import json
from dataclasses import asdict
from io import StringIO

import pytest
from rich.console import Console

from glassformer.errors import DataError
from glassformer.evaluate.card import (
    Circumstances,
    Sheet,
    Table,
    facts,
    markdown,
    show,
    with_fact,
    with_section,
)

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0|" + "x" * 80
SHEET = Sheet(
    "Translations of [b]x",
    [
        Table("scores", ["", "score"], [["BLEU", "34.50"], ["a|b [red]", "1,000.00"]]),
        facts("settings", {"beam_size": 5, "max_length": None, "name": "two\nlines"}),
    ],
    {"BLEU": SIGNATURE},
    ["A note [1]."],
)


def shown(sheet: Sheet, width: int = 60) -> list[str]:
    console = Console(file=StringIO(), width=width)
    show(sheet, console)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_every_cell_is_printed_and_numbers_are_right_aligned():
    lines = shown(SHEET)
    bleu, other = (next(line for line in lines if cell in line) for cell in ("34.50", "1,000.00"))
    assert bleu.endswith("34.50") and other.endswith("1,000.00") and len(bleu) == len(other)
    assert lines[0] == "Translations of [b]x" and "A note [1]." in lines  # no markup is read
    assert any("a|b [red]" in line for line in lines)
    assert any(line.split() == ["max_length", "none"] for line in lines)


def test_quoted_text_is_never_wrapped():
    assert f"BLEU: {SIGNATURE}" in shown(SHEET, 40)


def test_long_cells_are_folded_and_not_cut():
    long = "word" * 40
    folded = shown(Sheet("", [Table("", ["a", "b"], [["x", long]])]), 40)
    assert "".join("".join(folded).split()).count("word") == 40


def test_markdown_quotes_signatures_and_escapes_cells():
    text = markdown(SHEET)
    assert text.startswith("# Translations of [b]x\n\n## scores\n\n|  | score |\n| :-- | --: |\n")
    assert f"- BLEU: `{SIGNATURE}`" in text and text.endswith("\n\nA note [1].\n")
    assert "| a\\|b [red] | 1,000.00 |" in text and "| name | two lines |" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.replace("\\|", "").count("|") == 3 for line in rows)


def test_a_sheet_without_quoted_text_has_no_empty_list():
    assert (
        markdown(Sheet("t", [Table("", ["a"], [["1"]])])) == "# t\n\n## \n\n| a |\n| :-- |\n| 1 |\n"
    )


def test_circumstances_are_complete_and_survive_json():
    around = Circumstances(
        "glassformer evaluate m", "m", {"a.fr": "12ab"}, {"beam": 5}, {"cpu": "x"}, 2.0, 3 * 2**20
    )
    assert json.loads(json.dumps(asdict(around))) == asdict(around)
    assert around.quoted() == {
        "SHA-256 of a.fr": "12ab", "command": "glassformer evaluate m",
    }  # fmt: skip
    assert ["peak memory of the process", "3 MiB"] in around.cost()
    assert [table.rows for table in around.tables()] == [[["beam", "5"]], [["cpu", "x"]]]
    unknown = Circumstances("c", "m", {}, {}, {}, 2.0, None)
    assert ["peak memory of the process", "unknown"] in unknown.cost()


FACTS = "| | |\n| :-- | :-- |\n| score | old |\n\n"
CARD = f"# A\n\n{FACTS}## Scores\n\nold \\1\n\n### more\n\n## Limits\n\nb\n"


def test_a_section_of_a_card_is_replaced_and_nothing_else():
    new = with_section(CARD, "Scores", "| \\1 |\n")
    assert new == CARD.replace("old \\1\n\n### more", "| \\1 |")
    assert with_section(new, "Scores", "| \\1 |") == new
    assert with_section(CARD, "Limits", "c") == CARD.replace("\nb\n", "\nc\n")
    assert with_section(CARD, "Behaviour", "d") == CARD + "\n## Behaviour\n\nd\n"


def test_a_fact_of_a_card_is_replaced_and_must_be_there():
    assert with_fact(CARD, "score", "BLEU 1.0") == CARD.replace("| old |", "| BLEU 1.0 |")
    with pytest.raises(DataError, match="no row"):
        with_fact(CARD, "licence", "x")
