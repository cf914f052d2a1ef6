"""Cleaning: each rule drops what it names, keeps what is fine, and every pair is accounted for."""

from collections import Counter

import pytest

from glassformer.data import clean, grammar
from glassformer.data.clean import Cleaned, LanguageOdds, broken_rule, clean_files

GOOD = [(pair.source, pair.target) for pair in grammar.pairs("train", 2_000)]
ODDS = LanguageOdds.learn(GOOD)


@pytest.mark.parametrize(
    ("rule", "pair"),
    [
        ("length", ("word " * 121, "mot " * 121)),
        ("length", ("a" * 81, "b" * 81)),
        ("ratio", ("Yes.", "Oui, mais seulement si vous le voulez bien.")),
        ("identical", ("Translators without borders", "translators Without borders")),
        ("mojibake", ("It was summer.", "C'Ã©tait l'été.")),
        ("mojibake", ("It is \ufffd.", "Il est là.")),
        ("numbers", ("In 1950 he left.", "Il est parti.")),
        ("numbers", ("It is late.", "Il est 23 heures.")),
    ],
)
def test_a_pair_that_breaks_a_rule_is_named_by_it(rule, pair):
    assert broken_rule(pair) == rule


@pytest.mark.parametrize(
    "pair",
    [
        ("aura", "aura"),
        ("New York", "New York"),
        ("Yes!", "Mais oui, bien sûr !"),
        ("He has 3 dogs.", "Il a trois chiens."),
        ("In 1950", "En 1950"),
        ("Ã", "Ã"),
    ],
)
def test_a_good_pair_breaks_none(pair):
    assert broken_rule(pair, ODDS) is None


def test_a_side_in_the_other_language_is_found():
    english, french = max((pair for pair in GOOD), key=lambda pair: len(pair[0]))
    assert broken_rule((english, french), ODDS) is None
    assert broken_rule((french, french + "."), ODDS) == "language"
    assert broken_rule((english + ".", english), ODDS) == "language"


def test_few_good_pairs_are_taken_for_another_language():
    assert sum(broken_rule(pair, ODDS) is not None for pair in GOOD) / len(GOOD) < 0.002


def test_duplicates_are_found_regardless_of_case_and_punctuation():
    rows = [("A dog.", "Un chien."), ("a dog", "un chien !"), ("A dog.", "Le chien.")]
    cleaned = Cleaned(lambda: rows)
    assert list(cleaned) == [rows[0], rows[2]]
    assert cleaned.report.dropped == Counter(duplicate=1)


def test_every_pair_is_kept_or_counted_under_one_rule():
    rows = [*GOOD[:50], *GOOD[:50], ("Yes 1950", "Oui"), ("\ufffd", "x")]
    dropped = []
    cleaned = Cleaned(lambda: rows, lambda rule, row: dropped.append(rule))
    kept = list(cleaned)
    assert len(kept) + len(dropped) == len(rows) == cleaned.report.rows
    assert Counter(dropped) == cleaned.report.dropped
    assert list(cleaned) == kept and cleaned.report.rows == len(rows)


def test_a_cleaned_text_is_clean():
    rows = [*GOOD[:80], *GOOD[:40], ("Yes 1950", "Oui")]
    once = list(Cleaned(lambda: rows))
    again = Cleaned(lambda: once)
    assert list(again) == once and not again.report.dropped


def test_the_report_gives_counts_and_share():
    cleaned = Cleaned(lambda: [("a", "b"), ("A", "B"), ("In 1950", "Oui"), ("c", "d")])
    list(cleaned)
    assert str(cleaned.report) == "4 pairs read, 2 dropped (50.0%): duplicate 1, numbers 1"


def test_files_are_cleaned_into_kept_and_dropped_pairs(tmp_path):
    for side, lines in {
        "en": ["A dog.", "a dog", "In 1950"],
        "fr": ["Un chien."] * 2 + ["Oui"],
    }.items():
        (tmp_path / f"text.{side}").write_text("".join(f"{line}\n" for line in lines))
    kept, dropped = tmp_path / "kept.tsv", tmp_path / "dropped.tsv"
    report = clean_files([tmp_path / "text.en", tmp_path / "text.fr"], [], kept, dropped)
    assert kept.read_text() == "A dog.\tUn chien.\n"
    assert dropped.read_text() == "duplicate\ta dog\tUn chien.\nnumbers\tIn 1950\tOui\n"
    assert report.rows == 3


def test_the_constants_are_those_of_the_table():
    table = clean.__doc__ or ""
    for value in (clean.MAX_WORDS, clean.MAX_CHARACTERS, clean.MAX_RATIO, clean.ALLOWANCE):
        assert str(value) in table
