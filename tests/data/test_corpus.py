"""Text in: every format gives what was written, and no row is lost without a word."""

import csv
import gzip
import io
import json
import os
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import corpus
from glassformer.data.corpus import Corpus, TextFiles, arriving_lines
from glassformer.errors import DataError

PAIRS = [("A dog.", "Un chien."), ("Two  cats, ", 'Deux "chats"'), ("œuf", "née à 8 h")]


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def table(rows, **options) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", **options).writerows(rows)
    return text.getvalue()


def tsv(rows) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def pairs_as(form: str, pairs) -> tuple[dict[str, str], tuple[str | int, ...]]:
    """The contents of the files that hold `pairs`, and the columns to read them by."""
    ids = [str(i) for i in range(len(pairs))]
    numbered = [(i, *pair) for i, pair in zip(ids, pairs, strict=True)]
    objects = [{"id": i, "en": en, "fr": fr} for i, en, fr in numbered]
    header = [("id", "en", "fr")]
    match form:
        case "lines":
            sides = zip(*pairs, strict=True)
            return {f"t.{n}": "".join(f"{s}\n" for s in side) for n, side in enumerate(sides)}, ()
        case "tsv by number":
            return {"t.tsv": tsv(numbered)}, (2, 3)
        case "tsv by name":
            return {"t.tsv": tsv(header + numbered)}, ("en", "fr")
        case "csv by number":
            return {"t.csv": table(numbered)}, (2, 3)
        case "csv by name":
            return {"t.csv": table(header + numbered, quoting=csv.QUOTE_ALL)}, ("en", "fr")
        case "jsonl of objects":
            return {"t.jsonl": "".join(json.dumps(o) + "\n" for o in objects)}, ("en", "fr")
        case _:
            return {"t.jsonl": "".join(json.dumps(r) + "\n" for r in numbered)}, (2, 3)


FORMS = [
    "lines",
    "tsv by number",
    "tsv by name",
    "csv by number",
    "csv by name",
    "jsonl of objects",
    "jsonl of arrays",
]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzipped"])
@pytest.mark.parametrize("form", FORMS)
def test_every_format_gives_the_pairs_that_were_written(tmp_path, form, packed):
    contents, columns = pairs_as(form, PAIRS)
    paths = [
        written(tmp_path, f"{name}.gz", gzip.compress(text.encode()) if packed else text)
        for name, text in contents.items()
    ]
    corpus = Corpus(TextFiles(tuple(paths), columns))
    assert list(corpus) == PAIRS
    assert corpus.report.rows == len(PAIRS)
    assert not corpus.report.bad


def test_gzip_is_told_by_the_content_not_by_the_name(tmp_path):
    path = written(tmp_path, "text.en", gzip.compress(b"one\ntwo\n"))
    assert list(Corpus(TextFiles((path,)))) == [("one",), ("two",)]


# \r\n is a line's end, so a text that ends in \r comes back without it; that is tested apart
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\t\r\ufeff")).filter(
    lambda text: text and not text.isspace()
)
odd_texts = texts | st.sampled_from(
    ["a\x85b", "a\u2028b", "\x00", "a\rb", "\x1c.", "\x0ca", "'\"'"]
)


@pytest.mark.parametrize("form", FORMS)
@given(pairs=st.lists(st.tuples(odd_texts, odd_texts), min_size=1, max_size=5))
def test_no_character_splits_or_changes_a_row(tmp_path_factory, form, pairs):
    if form == "csv by number":  # without quotes CSV cannot hold a \r
        pairs = [tuple(text.replace("\r", " ") for text in pair) for pair in pairs]
    folder = tmp_path_factory.mktemp("text")
    contents, columns = pairs_as(form, pairs)
    paths = tuple(written(folder, name, text) for name, text in contents.items())
    assert list(Corpus(TextFiles(paths, columns))) == pairs


@pytest.mark.parametrize("form", ["lines", "tsv by name", "csv by name", "jsonl of objects"])
def test_a_byte_order_mark_crlf_and_a_missing_last_newline_change_nothing(tmp_path, form):
    contents, columns = pairs_as(form, PAIRS)
    paths = tuple(
        written(tmp_path, name, "\ufeff" + text.removesuffix("\n").replace("\n", "\r\n"))
        for name, text in contents.items()
    )
    assert list(Corpus(TextFiles(paths, columns))) == PAIRS


def test_csv_keeps_newlines_in_quotes_and_numbers_a_row_by_its_first_line(tmp_path):
    path = written(tmp_path, "t.csv", 'text,label\n"one\r\ntwo\nthree",1\n"four\nfive"\nsix,0\n')
    corpus = Corpus(TextFiles((path,), ("text", "label")), skip_bad=True)
    assert list(corpus) == [("one\r\ntwo\nthree", "1"), ("six", "0")]
    assert corpus.report.examples == [f"{path}:5: missing column: 2"]


@pytest.mark.parametrize("cell", ['"no end', '"a" b'], ids=["open quote", "text after a quote"])
def test_csv_with_wrong_quotes_is_a_bad_row_not_a_long_one(tmp_path, cell):
    path = written(tmp_path, "t.csv", f"one,1\n{cell},2\nthree,3\n")
    corpus = Corpus(TextFiles((path,), (1, 2)), skip_bad=True)
    assert ("one", "1") in list(corpus)
    assert corpus.report.examples[0].startswith(f"{path}:2: invalid CSV: ")
    assert corpus.report.bad.total() == 1


def test_json_gives_text_and_numbers_and_nothing_else(tmp_path):
    labels = ["1", "0.5", "true", '"x"', "null", "[1]", "{}"]
    content = "".join(f'{{"text": "t", "label": {label}}}\n' for label in labels)
    corpus = Corpus(
        TextFiles((written(tmp_path, "t.jsonl", content),), ("text", "label")), skip_bad=True
    )
    assert [label for _, label in corpus] == ["1", "0.5", "true", "x"]
    assert corpus.report.bad == {"missing column": 1, "not text": 2}


# name, content, options, the reason that line 2 is given
BAD = {
    "missing tsv column": ("t.tsv", b"a\tb\nc\nd\te\n", {}, "missing column: 2"),
    "missing csv column": ("t.csv", b"a,b\nc\nd,e\n", {}, "missing column: 2"),
    "missing json key": ("t.jsonl", b'["a", "b"]\n["c"]\n["d", "e"]\n', {}, "missing column: 2"),
    "no json object": ("t.jsonl", b'["a", "b"]\n3\n["d", "e"]\n', {}, "missing column: 1"),
    "json": ("t.jsonl", b'["a", "b"]\n["c", \n["d", "e"]\n', {}, "invalid JSON: Expecting value"),
    "deep json": (
        "t.jsonl",
        b'["a", "b"]\n' + b"[" * 99999 + b'\n["d", "e"]\n',
        {},
        "invalid JSON: ",
    ),
    "utf-8": ("t.tsv", b"a\tb\nc\tcaf\xe9\nd\te\n", {}, "broken UTF-8: at character 4"),
    "utf-8 in csv": ("t.csv", b"a,b\nc,caf\xe9\nd,e\n", {}, "broken UTF-8: at character 4"),
    "surrogate": ("t.jsonl", b'["a", "b"]\n["\\ud800", "c"]\n["d", "e"]\n', {}, "broken UTF-8"),
    "empty": ("t.tsv", b"a\tb\nc\t\nd\te\n", {}, "empty"),
    "blank": ("t.tsv", "a\tb\n\u00a0 \tc\nd\te\n".encode(), {}, "empty"),
    "blank line": ("t.tsv", b"a\tb\n\nd\te\n", {}, "missing column: 2"),
    "long": (
        "t.tsv",
        b"a a\tb\nc c c\td\nd\te\n",
        {"max_words": 2},
        "too long: 3 words, the limit",
    ),
    "label": (
        "t.tsv",
        b"a\tb\nc\td\nd\te\n",
        {"labels": ["b", "e"]},
        "unknown label: 'd' is not in ['b', 'e']",
    ),
}


@pytest.mark.parametrize(("name", "content", "options", "reason"), BAD.values(), ids=BAD)
def test_a_bad_row_is_named_by_file_line_and_reason(tmp_path, name, content, options, reason):
    path = written(tmp_path, name, content)
    files = TextFiles((path,), (1, 2))
    skipping = Corpus(files, skip_bad=True, **options)
    assert [row[0][0] for row in skipping] == ["a", "d"]
    assert skipping.report.bad.total() == 1
    assert skipping.report.examples[0].startswith(f"{path}:2: {reason}")
    with pytest.raises(DataError, match=f"{name}:2: {reason.split(':')[0]}"):
        list(Corpus(files, **options))


def test_strict_reading_counts_every_bad_row_and_raises_once(tmp_path):
    lines = ["good", *[" "] * 7, "x y z", "good", "\udcff", "x y z"]
    content = "\n".join(lines).encode(errors="surrogateescape")
    corpus = Corpus(TextFiles((written(tmp_path, "t.txt", content),)), max_words=2)
    with pytest.raises(DataError) as raised:
        list(corpus)
    assert "12 rows read, 10 bad (empty: 7, too long: 2, broken UTF-8: 1)" in raised.value.what
    named = [line.split(":")[1] for line in raised.value.why.splitlines()]
    assert named == ["2", "3", "4", "9", "11", "12"]
    assert "--skip-bad" in raised.value.remedy


def test_strict_reading_gives_no_row_after_a_bad_one(tmp_path):
    corpus = iter(Corpus(TextFiles((written(tmp_path, "t.txt", "one\n\nthree\n"),))))
    assert next(corpus) == ("one",)
    with pytest.raises(DataError, match=r"t\.txt:2: empty"):
        next(corpus)


def test_the_side_that_is_bad_names_its_own_file(tmp_path):
    en, fr = written(tmp_path, "t.en", "a\nb\n"), written(tmp_path, "t.fr", "a\n\n")
    with pytest.raises(DataError, match=r"t\.fr:2: empty"):
        list(Corpus(TextFiles((en, fr))))


@pytest.mark.parametrize("longer", [0, 1])
def test_unequal_line_counts_are_an_error_or_a_common_prefix(tmp_path, longer):
    contents = ["a\nb\nc\nd\n", "a\nb\n"][:: 1 if longer == 0 else -1]
    paths = tuple(written(tmp_path, f"t.{n}", text) for n, text in enumerate(contents))
    with pytest.raises(DataError, match="unequal line counts: 2"):
        list(Corpus(TextFiles(paths)))
    corpus = Corpus(TextFiles(paths), skip_bad=True)
    assert list(corpus) == [("a", "a"), ("b", "b")]
    assert corpus.report.bad == {"unequal line counts": 2}
    assert corpus.report.examples[0] == (
        f"{paths[longer]}:3: unequal line counts: {paths[1 - longer]} has no such line"
    )


def test_every_pass_reads_anew_and_reports_anew(tmp_path):
    corpus = Corpus(TextFiles((written(tmp_path, "t.txt", "one\n\n"),)), skip_bad=True)
    assert list(corpus) == list(corpus) == [("one",)]
    assert corpus.report.bad == {"empty": 1}


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv"])
def test_rows_are_chosen_by_a_column_that_is_not_read(tmp_path, suffix):
    rows = [("a1", "one"), ("b1", "two"), ("a22", "three"), ("xa1", "four")]
    separator = {"csv": ",", "tsv": "\t"}.get(suffix)
    lines = [json.dumps({"id": i, "text": t}) for i, t in rows]
    if separator:
        lines = [separator.join(row) for row in [("id", "text"), *rows]]
    path = tmp_path / f"rows.{suffix}"
    path.write_text("\n".join(lines) + "\n")
    files = TextFiles((path,), ("text",), where=("id", r"a\d+"))
    assert list(Corpus(files)) == [("one",), ("three",)]
    assert list(Corpus(replace(files, start=1))) == [("three",)]
    with pytest.raises(DataError):
        list(Corpus(replace(files, where=("number", "a.*"))))


def test_plain_files_have_no_column_to_choose_by(tmp_path):
    with pytest.raises(DataError):
        TextFiles((tmp_path / "a.txt",), where=("id", "a"))


def test_rows_are_sliced_after_the_header(tmp_path):
    path = written(tmp_path, "t.tsv", "text\n" + "".join(f"{i}\n" for i in range(9)))
    files = TextFiles((path,), ("text",), start=2, stop=5)
    assert list(Corpus(files)) == [("2",), ("3",), ("4",)]


def test_reading_holds_no_more_than_a_little_of_the_file(tmp_path):
    path = written(tmp_path, "t.tsv", "a sentence of some length\tits translation\n" * 30_000)
    tracemalloc.start()
    rows = sum(1 for _ in Corpus(TextFiles((path,), (1, 2))))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert rows == 30_000
    assert peak < path.stat().st_size / 10


@pytest.mark.parametrize(
    ("content", "columns"),
    [("", ()), ("\n\n", ()), ("text\n", ("text",))],
    ids=["empty", "blank", "header only"],
)
@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_text_without_a_usable_row_is_an_error(tmp_path, content, columns, skip_bad):
    path = written(tmp_path, "t.tsv" if columns else "t.txt", content)
    with pytest.raises(DataError, match=f"{path.name}: . rows read"):
        list(Corpus(TextFiles((path,), columns), skip_bad=skip_bad))


def test_what_is_no_text_is_refused_by_name(tmp_path):
    packed = gzip.compress(bytes(range(97, 123)) * 4000)
    broken = packed[:20] + b"\xff" * 8 + packed[28:]
    image = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    for path, err in [
        (tmp_path / "none.en", "No such file"),
        (tmp_path, "Is a directory"),
        (written(tmp_path, "cut.gz", packed[:-12]), "ended before the end-of-stream"),
        (written(tmp_path, "broken.gz", broken), "cannot be read"),
        (written(tmp_path, "image.png", image), "not text in UTF-8"),
        (written(tmp_path, "image.gz", gzip.compress(image)), "not text in UTF-8"),
        (written(tmp_path, "utf16.txt", "être\n".encode("utf-16")), "not text in UTF-8"),
    ]:
        with pytest.raises(DataError, match=err) as raised:
            list(Corpus(TextFiles((path,)), skip_bad=True))
        assert str(path) in raised.value.what


@pytest.mark.parametrize(
    ("header", "err"), [("id,fra\n", "Did you mean 'fra'"), ("", "none at all")]
)
def test_an_unknown_column_is_an_error_even_when_skipping(tmp_path, header, err):
    files = TextFiles((written(tmp_path, "t.csv", header),), ("fr",))
    with pytest.raises(DataError, match=err):
        list(Corpus(files, skip_bad=True))


@pytest.mark.parametrize(
    ("paths", "columns"),
    [
        ((), ()),
        (("a.en", "a.fr"), (1, 2)),
        (("a.tsv",), ()),
        (("a.tsv", "b.tsv"), (1,)),
        (("a.csv.gz",), (0, 1)),
    ],
)
def test_files_and_columns_that_do_not_go_together_are_refused(paths, columns):
    with pytest.raises(DataError, match=r"by columns .*\n.*Plain files are a column each"):
        TextFiles(tuple(map(Path, paths)), columns)


def test_the_format_follows_the_name_unless_given():
    assert TextFiles((Path("a.TSV.gz"),), (1,)).layout == "tsv"
    assert TextFiles((Path("a.tsv"), Path("b.tsv")), format="lines").layout == "lines"
    assert TextFiles((Path("a.txt"),), ("text",), format="jsonl").layout == "jsonl"


# Lines and files without an end


@pytest.fixture
def few_bytes(monkeypatch) -> None:
    """Limits of a few bytes, so that a test need not write megabytes."""
    monkeypatch.setattr(corpus, "AT_ONCE", 16)
    monkeypatch.setattr(corpus, "MAX_LINE", 100)
    monkeypatch.setattr(corpus, "FREE_GROWTH", 1000)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzipped"])
@pytest.mark.parametrize("form", FORMS)
def test_a_line_beyond_the_limit_is_named_by_file_and_line(tmp_path, few_bytes, form, packed):
    contents, columns = pairs_as(form, [("one", "un"), ("a" * 101, "b" * 101)])
    paths = [
        written(tmp_path, name, gzip.compress(text.encode()) if packed else text)
        for name, text in contents.items()
    ]
    rows = Corpus(TextFiles(tuple(paths), columns, "lines" if form == "lines" else None))
    number = 3 if "tsv by name" in form or "csv by name" in form else 2
    for skip_bad in (False, True):
        rows.skip_bad = skip_bad
        with pytest.raises(DataError, match=rf"Line {number} of .*/t\.\S+ has more than 100 bytes"):
            list(rows)


@pytest.mark.parametrize("at_once", [1, 7, 100, 1000])
@given(
    content=st.binary(max_size=120) | st.lists(st.sampled_from([b"a", b"\n", b"\r"])).map(b"".join)
)
def test_lines_are_those_of_split_whatever_arrives_together(at_once, content):
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    expected = lines if lines[-1] else lines[:-1]
    stream = io.BufferedReader(io.BytesIO(content))
    assert [line for some in arriving_lines(stream, "f", at_once) for line in some] == expected


@pytest.mark.parametrize("size", [99, 100, 101])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nb\n"])
def test_the_limit_of_a_line_is_exact(few_bytes, size, end):
    stream = io.BufferedReader(io.BytesIO(b"one\n" + b"a" * size + end))
    found = (line for some in arriving_lines(stream, "f", 16) for line in some)
    assert next(found) == b"one"
    if size <= 100:
        assert next(found) == b"a" * size
    else:
        with pytest.raises(DataError, match="Line 2 of f has more than 100 bytes"):
            next(found)


def test_a_long_line_is_read_in_linear_time(monkeypatch):
    """Bytes that are copied are counted, not seconds: each piece is copied once into its line."""
    monkeypatch.setattr(corpus, "MAX_LINE", 1 << 22)
    joined = []
    monkeypatch.setattr(corpus, "_joined", lambda begun, end, is_first: joined.append(begun) or b"")
    stream = io.BufferedReader(io.BytesIO(b"a" * (1 << 22) + b"\n"))
    assert sum(len(some) for some in arriving_lines(stream, "f", 1 << 12)) == 1
    assert [len(piece) for piece in joined[0]] == [1 << 12] * (1 << 10)


def test_a_gzipped_file_that_grows_more_than_text_is_refused(tmp_path, few_bytes):
    path = written(tmp_path, "bomb.gz", gzip.compress(b"a\n" * 500_000))
    grown = path.stat().st_size * corpus.MAX_GROWTH
    assert grown < 1_000_000
    with pytest.raises(DataError, match=r"bomb\.gz unpacks to more than 100 times") as caught:
        list(Corpus(TextFiles((path,))))
    line = int(caught.value.what.rsplit("line ")[1].rstrip(".").replace(",", ""))
    assert 500 <= line <= grown


def test_gzipped_text_grows_as_text_does(tmp_path, monkeypatch):
    """Even the most repetitive text is read as long as it is short."""
    monkeypatch.setattr(corpus, "FREE_GROWTH", 1000)
    prose = "".join(f"The dog number {i} sees {i * i} cats.\n" for i in range(2000))
    path = written(tmp_path, "prose.gz", gzip.compress(prose.encode()))
    assert len(list(Corpus(TextFiles((path,))))) == 2000
    monkeypatch.undo()
    path = written(tmp_path, "same.gz", gzip.compress(b"a dog\n" * 100_000))
    assert len(list(Corpus(TextFiles((path,))))) == 100_000


def test_a_gzipped_pipe_is_unpacked_and_bounded(tmp_path, few_bytes):
    """A pipe has no size and no position: the bytes taken from it are counted."""
    pipe = tmp_path / "pipe"
    for content, fits in ((b"one\ntwo\n", True), (b"a\n" * 500_000, False)):
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(gzip.compress(content),))
        writer.start()
        rows = Corpus(TextFiles((pipe,)))
        if fits:
            assert list(rows) == [("one",), ("two",)]
        else:
            with pytest.raises(DataError, match="unpacks to more than"):
                list(rows)
        writer.join()
        pipe.unlink()


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_two_columns_of_one_name_are_refused_unless_a_number_tells_which(tmp_path, name):
    mark = "," if name.endswith("csv") else "\t"
    rows = [["en", "fr", "en"], ["a dog", "un chien", "a hound"]]
    path = written(tmp_path, name, "".join(f"{mark.join(row)}\n" for row in rows))
    with pytest.raises(DataError, match="has 2 columns called 'en'") as caught:
        list(Corpus(TextFiles((path,), ("en", "fr"))))
    assert "number: 1" in caught.value.remedy
    assert list(Corpus(TextFiles((path,), (3, "fr")))) == [("a hound", "un chien")]
