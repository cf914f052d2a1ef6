"""Tables that people have: delimiters, open quotes, inner objects; no row is lost in silence."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.corpus import Corpus, TextFiles
from glassformer.data.own import look, read_rows
from glassformer.data.tables import DELIMITERS, delimiter_of, records_of
from glassformer.errors import DataError

PAIRS = [(f"the dog number {i} is here", f"le chien numéro {i} est ici") for i in range(30)]


def table(separator: str, header: str = "english,french") -> str:
    lines = [header.replace(",", separator), *(separator.join(pair) for pair in PAIRS)]
    return "".join(f"{line}\n" for line in lines)


def found(path: Path, content: str | bytes, skip_bad: bool = False) -> tuple[list[Any], str]:
    """Write a file; return the rows that are read from it without a word about its form."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_rows(look([path], "translator"), skip_bad)


@pytest.mark.parametrize("separator", DELIMITERS)
def test_the_delimiter_of_csv_is_found(tmp_path: Path, separator: str) -> None:
    assert found(tmp_path / "t.csv", table(separator))[0] == PAIRS


CELLS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=30))
def test_what_a_spreadsheet_writes_with_commas_is_read_back(rows: list[tuple[str, ...]]) -> None:
    lines: list[str] = []
    writer = csv.writer(type("File", (), {"write": lines.append})(), lineterminator="")
    writer.writerows(rows)
    assert [tuple(row) for _, row in records_of(iter(lines), "csv", "t")] == rows


def test_a_comma_in_the_text_does_not_make_it_the_delimiter() -> None:
    assert delimiter_of(["french;english", "oui, ici;yes", "non;no, never", "a, b, c;d"]) == ";"
    assert delimiter_of(["a,b", "c"]) == ","
    assert delimiter_of([]) == ","


def test_an_open_quote_costs_its_own_row_only(tmp_path: Path) -> None:
    lines = table(",").splitlines(keepends=True)
    lines.insert(11, '"open,never closed\n')
    rows, told = found(tmp_path / "t.csv", "".join(lines), skip_bad=True)
    assert rows == PAIRS and told == "31 rows read, 1 bad (invalid CSV: 1)"
    with pytest.raises(DataError, match=r"t\.csv:12: invalid CSV: a quote is opened and never"):
        found(tmp_path / "t.csv", "".join(lines))


def test_every_open_quote_is_found_however_long_the_file_is(tmp_path: Path) -> None:
    good = [("one", "two")] * 30_000  # more characters than csv allows in a cell
    lines = [f"{a},{b}\n" for a, b in good]
    lines[5] = lines[25_000] = '"open,one quote\n'
    lines[25_001] = 'so it ends" here,x\n'
    path = tmp_path / "t.csv"
    path.write_text("".join(lines))
    corpus = Corpus(TextFiles((path,), (1, 2)), skip_bad=True)
    assert len(list(corpus)) == len(lines) - 3
    assert str(corpus.report) == "30,000 rows read, 3 bad (invalid CSV: 3)"


def test_lines_within_wrong_quotes_are_all_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b\n"x\ny\nz" w,1\nc,d\n')
    corpus = Corpus(TextFiles((path,), (1, 2)), skip_bad=True)
    assert list(corpus) == [("a", "b"), ("c", "d")]
    assert str(corpus.report) == "5 rows read, 3 bad (invalid CSV: 3)"
    assert len(corpus.report.examples) == 1


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("header", ["english,french\n", ""])
def test_a_delimiter_within_a_text_makes_a_bad_row_not_a_wrong_pair(
    tmp_path: Path, suffix: str, header: str
) -> None:
    lines = [header, *(f"{a},{b}\n" for a, b in PAIRS), "hello, world,bonjour monde\n"]
    content = "".join(lines).replace(",", "," if suffix == "csv" else "\t")
    with pytest.raises(DataError, match="too many columns: 3 instead of 2"):
        found(tmp_path / f"t.{suffix}", content)
    rows, told = found(tmp_path / f"t.{suffix}", content, skip_bad=True)
    assert rows == PAIRS and told == "31 rows read, 1 bad (too many columns: 1)"


def test_empty_cells_at_the_end_of_a_row_are_no_columns(tmp_path: Path) -> None:
    lines = [f"{a},{b},,\n" for a, b in PAIRS]
    assert found(tmp_path / "t.csv", "english,french\n" + "".join(lines))[0] == PAIRS


def test_columns_of_inner_objects_are_columns(tmp_path: Path) -> None:
    inner = [{"id": i, "translation": {"en": a, "fr": b}} for i, (a, b) in enumerate(PAIRS)]
    content = "".join(json.dumps(record) + "\n" for record in inner)
    assert found(tmp_path / "t.jsonl", content)[0] == PAIRS


def test_a_key_that_the_first_object_lacks_is_a_column_all_the_same(tmp_path: Path) -> None:
    records = [{"en": "alone"}, *({"en": a, "fr": b} for a, b in PAIRS)]
    content = "".join(json.dumps(record) + "\n" for record in records)
    assert found(tmp_path / "t.jsonl", content, skip_bad=True) == (
        PAIRS,
        "31 rows read, 1 bad (missing column: 1)",
    )


def test_an_index_without_a_name_does_not_hide_the_header(tmp_path: Path) -> None:
    lines = [f"{i},a {m} film {i},{m}\n" for i in range(20) for m in ("dull", "fine")]
    (tmp_path / "r.csv").write_text(",review,verdict\n" + "".join(lines))
    own = look([tmp_path / "r.csv"])
    assert own.files.columns == ("review", "verdict") and own.labels == ("dull", "fine")


REFUSED = {
    "array.json": (json.dumps([{"en": a, "fr": b} for a, b in PAIRS]), "is one JSON array"),
    "lines.json": (json.dumps([{"en": "a", "fr": "b"}], indent=1), "is one JSON array"),
    "mac.tsv": (table("\t").replace("\n", "\r"), "end with CR alone"),
    "t.tsv.zst": (b"\x28\xb5\x2f\xfd\0\0", "packed by Zstandard"),
    "t.tsv.bz2": (b"BZh91AY&SY", "packed by bzip2"),
    "t.tsv.xz": (b"\xfd7zXZ\0\0", "packed by xz"),
    "t.xlsx": (b"PK\x03\x04\x14\0", "a ZIP archive or a spreadsheet"),
    "utf16.tsv": (table("\t").encode("utf-16"), "not text in UTF-8"),
    "windows.tsv": (table("\t").encode("windows-1252"), "iconv -f windows-1252"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_says_how_to_convert_it(tmp_path: Path, name: str) -> None:
    content, message = REFUSED[name]
    for skip_bad in (False, True):  # never a few rows of such a file
        with pytest.raises(DataError, match=message):
            found(tmp_path / name, content, skip_bad)
