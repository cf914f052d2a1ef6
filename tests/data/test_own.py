"""The columns of a user's file are guessed; validation examples are never trained on."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.own import Own, hold_out, look, read_rows
from glassformer.errors import DataError, SettingsError

PAIRS = [(f"the dog number {i} is in the garden", f"le chien {i} est dans le jardin")
         for i in range(40)]  # fmt: skip
REVIEWS = [(f"a {mood} film of {i} minutes that is long", mood)
           for i in range(20) for mood in ("dull", "fine")]  # fmt: skip


def table(path: Path, rows: Any, separator: str = "\t") -> Path:
    path.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows))
    return path


def facts(own: Own) -> tuple[object, ...]:
    return own.kind, own.files.columns, own.languages


def test_pairs_with_a_header_are_read_by_its_names(tmp_path: Path) -> None:
    rows = [("id", "french", "english"), *((i, f, e) for i, (e, f) in enumerate(PAIRS))]
    own = look([table(tmp_path / "p.tsv", rows)], "translator")
    assert facts(own) == ("translator", ("french", "english"), ("fr", "en"))
    assert str(own) == f"{tmp_path / 'p.tsv'}: from french (fr) to english (en)"
    assert read_rows(own, False)[0] == [(f, e) for e, f in PAIRS]


def test_pairs_without_a_header_are_read_by_number_and_no_row_is_lost(tmp_path: Path) -> None:
    own = look([table(tmp_path / "p.tsv", PAIRS)])
    assert facts(own) == ("translator", (1, 2), ("en", "fr"))
    assert read_rows(own, False)[0] == PAIRS


def test_a_plain_file_of_tabs_is_a_table(tmp_path: Path) -> None:
    own = look([table(tmp_path / "p.txt", PAIRS)])
    assert own.files.layout == "tsv" and read_rows(own, False)[0] == PAIRS


def test_two_plain_files_are_the_sides_and_their_suffixes_the_languages(tmp_path: Path) -> None:
    one = table(tmp_path / "text.de", [(e,) for e, _ in PAIRS])
    other = table(tmp_path / "text.txt", [(f,) for _, f in PAIRS])
    own = look([one, other])
    assert own.languages == ("de", "fr") and read_rows(own, False)[0] == PAIRS


def test_labels_are_the_column_of_few_short_values(tmp_path: Path) -> None:
    rows = [(i, mood, text, 0.5 + i) for i, (text, mood) in enumerate(sorted(REVIEWS))]
    own = look([table(tmp_path / "r.csv", rows, ",")])
    assert facts(own) == ("classifier", (3, 2), ("en", "en")) and own.labels == ("dull", "fine")
    assert str(own).endswith("text column 3, label column 2 (dull, fine)")


def test_a_column_that_is_called_label_is_the_label(tmp_path: Path) -> None:
    rows = [("genre", "stars", "review"), *((m[0], i % 5, t) for i, (t, m) in enumerate(REVIEWS))]
    own = look([table(tmp_path / "r.tsv", rows)], "classifier")
    assert own.files.columns == ("review", "stars") and own.labels == tuple("01234")


def test_json_lines_are_read_by_key(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"text": t, "label": int(m == "fine")}) + "\n" for t, m in REVIEWS)
    (tmp_path / "r.jsonl").write_text(lines)
    own = look([tmp_path / "r.jsonl"])
    assert own.files.columns == ("text", "label") and own.labels == ("0", "1")


def test_columns_that_are_named_are_not_guessed(tmp_path: Path) -> None:
    rows = [("a", "b", "c"), *((e, f, e.upper()) for e, f in PAIRS)]
    path = table(tmp_path / "p.tsv", rows)
    header = ("english", "french", "c")
    named = table(tmp_path / "n.tsv", [header, *rows[1:]])
    assert look([named], columns=("c", "french")).files.columns == ("c", "french")
    assert look([named], columns=("3", "1")).files.columns == ("c", "english")
    assert look([path], columns=("3", "1")).files.columns == (3, 1)


@pytest.mark.parametrize(
    ("kind", "columns", "error", "message"),
    [
        ("classifier", (), DataError, "No column of .* looks like a label"),
        ("translator", ("1", "9"), DataError, "has no column '9'"),
        ("translator", ("1",), SettingsError, "1 columns are named"),
        ("translator", ("1", "1"), SettingsError, "2 columns are named"),
    ],
)
def test_what_cannot_be_guessed_is_one_error(
    tmp_path: Path, kind: Any, columns: tuple[str, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        look([table(tmp_path / "p.tsv", PAIRS)], kind, columns)


@pytest.mark.parametrize("name", ["one.txt", "one.tsv", "empty.csv"])
def test_a_file_of_one_column_is_refused(tmp_path: Path, name: str) -> None:
    rows = [] if name.startswith("empty") else [(e,) for e, _ in PAIRS]
    with pytest.raises(DataError, match=r"(?s)one\.|empty\.csv holds no row"):
        look([table(tmp_path / name, rows)], "translator")


TEXTS = st.integers(0, 12).map(str)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=2), st.integers(1, 9), st.integers(0, 3))
def test_no_text_that_validates_is_trained_on(
    rows: list[tuple[str, str]], count: int, seed: int
) -> None:
    train, valid = hold_out(rows, count, seed, 2)
    assert not {s for s, _ in train} & {s for s, _ in valid}
    assert not {t for _, t in train} & {t for _, t in valid}
    assert (train, valid) == hold_out(rows, count, seed, 2)
    labelled, held_out = hold_out(rows, count, seed, 1)
    assert sorted(labelled + held_out) == sorted(rows)  # a label may come again


def test_distinct_rows_are_held_out_to_the_number_and_by_the_seed() -> None:
    train, valid = hold_out(PAIRS, 7, 1, 2)
    assert (len(train), len(valid)) == (33, 7)
    assert valid != hold_out(PAIRS, 7, 2, 2)[1]
