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


def test_a_terminal_gets_every_cell_and_numbers_in_line_at_the_right():
    lines = shown(SHEET)
    bleu, other = (next(line for line in lines if cell in line) for cell in ("34.50", "1,000.00"))
    assert bleu.endswith("34.50") and other.endswith("1,000.00") and len(bleu) == len(other)
    assert lines[0] == "Translations of [b]x" and "A note [1]." in lines  # no markup is read
    assert any("a|b [red]" in line for line in lines)
    assert any(line.split() == ["max_length", "none"] for line in lines)


def test_what_is_to_be_copied_stands_on_one_line_however_narrow_the_terminal():
    assert f"BLEU: {SIGNATURE}" in shown(SHEET, 40)


def test_long_cells_are_folded_and_not_cut():
    long = "word" * 40
    folded = shown(Sheet("", [Table("", ["a", "b"], [["x", long]])]), 40)
    assert "".join("".join(folded).split()).count("word") == 40


def test_markdown_has_the_signature_to_the_letter_and_its_tables_stay_tables():
    text = markdown(SHEET)
    assert text.startswith("# Translations of [b]x\n\n## scores\n\n|  | score |\n| :-- | --: |\n")
    assert f"- BLEU: `{SIGNATURE}`" in text and text.endswith("\n\nA note [1].\n")
    assert "| a\\|b [red] | 1,000.00 |" in text and "| name | two lines |" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.replace("\\|", "").count("|") == 3 for line in rows)


def test_a_sheet_with_nothing_to_copy_has_no_empty_list():
    assert (
        markdown(Sheet("t", [Table("", ["a"], [["1"]])])) == "# t\n\n## \n\n| a |\n| :-- |\n| 1 |\n"
    )


def test_circumstances_are_told_in_full_and_go_through_json():
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
    assert ["peak memory of the process", "not told"] in unknown.cost()


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
