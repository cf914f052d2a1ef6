"""A suite is the scores of several sets in one table, the same in JSON, on a card and in a list."""

import json
from typing import Any

from glassformer.evaluate.suite import best, section, sheet, suite, table


def card(bleu: float, references: str | None = None) -> dict[str, Any]:
    settings = {"beam_size": 5, "length_penalty": 1.0, "int8": True, "to": "fr"}
    if references:
        settings["references"] = references
    score = {"value": bleu, "signature": f"nrefs:{references or 1}"}
    return {
        "sentences": 1_007, "bleu": score, "chrf": score | {"value": bleu + 20}, "perplexity": 2.0,
        "exact_match": 0.1,
        "circumstances": {
            "model": "en-fr", "settings": settings, "machine": {"cores": 2}, "seconds": 1.5,
            "checksums": {f"text {bleu}": "abc"},
        },
    }  # fmt: skip


SUITE = suite(
    "glassformer evaluate",
    {
        ("wmt14/newsdev", "en-fr"): card(27.04),
        ("wmt14/newsdev", "fr-en"): card(28.0),
        ("general/tatoeba-dev", "en-fr"): card(50.0, "1 to 12 a sentence"),
        ("general/tatoeba-dev", "fr-en"): card(51.0, "1 to 2 a sentence"),
    },
)


def test_a_row_is_a_set_and_has_both_scores_in_each_direction() -> None:
    found = table(json.loads(json.dumps(SUITE)))
    assert found.columns[2:] == ["BLEU en→fr", "chrF en→fr", "BLEU fr→en", "chrF fr→en"]
    assert found.rows == [
        ["wmt14/newsdev", "1,007", "27.0", "47.0", "28.0", "48.0"],
        ["general/tatoeba-dev, all references", "1,007", "50.0", "70.0", "51.0", "71.0"],
    ]


def test_what_holds_for_one_set_is_not_told_of_all() -> None:
    assert SUITE["settings"] == {"beam_size": 5, "length_penalty": 1.0, "int8": True}
    assert SUITE["seconds"] == 6.0 and len(SUITE["checksums"]) == 4
    quoted = sheet(SUITE).quoted
    assert quoted["BLEU of wmt14/newsdev"] == "nrefs:1"
    assert quoted["BLEU of general/tatoeba-dev"] == "nrefs:1 to 12 a sentence"
    assert quoted["command"] == "glassformer evaluate"


def test_the_section_of_a_card_has_the_table_and_the_command() -> None:
    text = section(SUITE)
    assert "| wmt14/newsdev | 1,007 | 27.0 | 47.0 | 28.0 | 48.0 |" in text
    assert "beam 5, length penalty 1.0, in INT8" in text
    assert text.endswith("```\nglassformer evaluate\n```")


def test_a_list_of_models_gets_the_first_set() -> None:
    assert best(SUITE) == "BLEU on wmt14/newsdev: 27.0 en→fr, 28.0 fr→en"
