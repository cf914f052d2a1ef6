"""Examples to evaluate a model on: rows of lists, files or a named set, with their checksums."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import cast

from glassformer.data import datasets, grammar
from glassformer.data.corpus import (
    AT_ONCE,
    Corpus,
    Row,
    TextFiles,
    arriving_lines,
    known,
    opened,
    own_files,
)
from glassformer.data.download import sha256_of
from glassformer.data.tokenizer import Tokenizer
from glassformer.errors import DataError, InputError, SettingsError

GRAMMAR_EXAMPLES = 1_000  # rows without a limit: the grammar has no end
LANGUAGES = ("en", "fr")  # of the grammar
CHUNK = 256  # texts between two steps of a progress bar
TOKENISED = "tok-"  # prefix of the split with the same text as published scores tokenise it


VALID = "valid"  # the split of a set, where none is named


@dataclass(frozen=True)
class Examples:
    """Rows of a source and its reference, which may be followed by the reference tokenised."""

    rows: list[Row]
    checksums: dict[str, str]
    skipped: str = ""  # report of bad rows that were skipped
    several: bool = False  # what follows the source are references, all of them equally good


# Rows, a named set, a table, parallel files (source, reference, tokenised reference), or examples.
Data = Sequence[Sequence[str]] | str | Path | tuple[Path, ...] | Examples


@dataclass(frozen=True)
class Selection:
    """Which rows and columns of a data set to read."""

    split: str = VALID
    columns: tuple[str, ...] = ()
    limit: int | None = None
    skip_bad: bool = False


def read_examples(
    data: Data,
    languages: Sequence[str],
    labels: Collection[str] | None = None,
    *,
    select: Selection | None = None,
    trained_on: Sequence[str] = (),
    tokenised: bool = False,
    several: bool = False,
    progress: datasets.Progress = datasets.silent,
    notice: Callable[[str], None] = lambda text: None,
) -> Examples:
    """Read the examples of a translator of `languages`, or of a classifier with `labels`.

    A name is that of a set, or of a table where no set is called so. Columns that are not named are
    the languages, or text and label; those of a table are the ones that the model was `trained_on`,
    if it was on files. `tokenised` and `several` ask a named set for its tokenised
    references and for all references of a source.
    """
    how = select or Selection()
    if isinstance(data, str):
        data = (
            data
            if data in ("grammar", *datasets.names()) or not Path(data).is_file()
            else Path(data)
        )
    if isinstance(data, Examples):
        examples = data
    elif isinstance(data, str):
        if how.columns:
            check_columns(how.columns, 2)
        columns = how.columns or tuple(languages)
        examples = from_set(
            data, how.split, columns, how.limit, tokenised=tokenised, several=several,
            skip_bad=how.skip_bad, labels=labels, progress=progress,
        )  # fmt: skip
    elif isinstance(data, Path):
        files = _table(data, how.columns, trained_on, languages, labels, notice)
        examples = from_files(files, how.limit, skip_bad=how.skip_bad, labels=labels)
    elif isinstance(data, tuple) and all(isinstance(path, Path) for path in data):
        files = TextFiles(data, format="lines")
        examples = from_files(files, how.limit, skip_bad=how.skip_bad, labels=labels)
    else:
        rows = cast(Sequence[Sequence[str]], data)
        examples = from_rows(rows[: how.limit], labels)
    if examples.skipped:
        notice(f"bad rows skipped: {examples.skipped}")
    return examples


def _table(
    path: Path,
    columns: tuple[str, ...],
    trained_on: Sequence[str],
    languages: Sequence[str],
    labels: Collection[str] | None,
    notice: Callable[[str], None],
) -> TextFiles:
    if columns:
        check_columns(columns, 2 if labels else 3)
    else:
        columns = tuple(trained_on) or (("text", "label") if labels else tuple(languages))
        notice(f"columns of {path}: {','.join(columns)} (others: --columns)")
    return own_files((path,), columns)


def check_columns(columns: Sequence[str], most: int) -> None:
    if not 2 <= len(columns) <= most:
        raise SettingsError(
            f"{len(columns)} columns are named, and {' or '.join(map(str, range(2, most + 1)))} "
            "can be used.",
            "A translator has a source and a reference, in a file perhaps a tokenised one as well; "
            "a classifier has a text and a label.",
            "For example: --columns en,fr for a translator, --columns text,label for a classifier.",
        )


def from_rows(rows: Sequence[Sequence[str]], labels: Collection[str] | None = None) -> Examples:
    """Take rows of Python strings: (source, reference, ...), or (text, label).

    Several references of a source are equally good, as those of `from_references`.
    """
    found = [tuple(map(str, row)) if not isinstance(row, str) else (row,) for row in rows]
    fewest, most = 2, 2 if labels is not None else max((len(row) for row in found), default=2)
    for number, row in enumerate(found, 1):
        fits = fewest <= len(row) <= most and all(map(str.strip, row))
        if not fits or (labels is not None and row[-1] not in labels):
            wanted = (
                f"(text, label), a label being one of {sorted(labels)}"
                if labels
                else ("(source, reference), none of them empty")
            )
            raise InputError(
                f"Row {number:,} cannot be evaluated: {row!r}.",
                f"A row is {wanted}.",
                "Give a list of such rows.",
            )
    if not found:
        raise InputError(
            "There is no row to evaluate on.", "A score is a mean over rows.", "Give at least one."
        )
    sides = {"text": [row[0] for row in found], "answers": ["\t".join(row[1:]) for row in found]}
    checksums = {f"rows, {name}": _digest(texts) for name, texts in sides.items()}
    return Examples(found, checksums, several=most > 2)


def chunks_by_length(texts: Sequence[str]) -> list[list[int]]:
    """Return the indices of the texts in chunks of similar length, shortest first."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    return [order[first : first + CHUNK] for first in range(0, len(order), CHUNK)]


def check_fit(texts: Sequence[str], tokenizer: Tokenizer, longest: int) -> None:
    """Refuse texts that are too long for the model, before any is translated."""
    over = [n for n, ids in enumerate(tokenizer.encode(texts), 1) if len(ids) > longest]
    if over:
        raise DataError(
            f"{len(over):,} of {len(texts):,} texts have more than {longest} subwords.",
            f"The model was not trained on longer ones. The first is text {over[0]:,}: "
            f"{texts[over[0] - 1][:40]!r}…",
            "Cut them: --truncate.",
        )


def check_lengths(**texts: Sequence[object]) -> None:
    """Refuse lists of different lengths, and empty ones."""
    lengths = {name: len(lines) for name, lines in texts.items()}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        counted = ", ".join(f"{count:,} {name}" for name, count in lengths.items())
        raise DataError(
            f"There are {counted}.",
            "Line n of each belongs to line n of the others, and there must be a line.",
            "Give files with the same number of lines.",
        )


def from_files(
    files: TextFiles,
    limit: int | None = None,
    *,
    skip_bad: bool = False,
    labels: Collection[str] | None = None,
) -> Examples:
    """Read the user's files; checksums are those of the files as stored."""
    rows, skipped = _read(files, limit, skip_bad, labels)
    return Examples(rows, {_name(path, files): sha256_of(path) for path in files.paths}, skipped)


def from_references(
    path: Path,
    sources: Path | None = None,
    limit: int | None = None,
    *,
    skip_bad: bool = False,
) -> Examples:
    """Read a TSV file of several references, a line for each sentence, as many as it has.

    The first column is the source, unless `sources` is the file of the sources. A row is the
    source and then the references.
    """
    found = [line.split("\t") for line in _lines(path)]
    if sources is not None:
        lines = _lines(sources)
        if len(lines) != len(found):
            raise DataError(
                f"{sources} has {len(lines):,} lines, and {path} has {len(found):,}.",
                "Each source has its references on the line of the same number.",
                "Give two files with the same number of lines.",
            )
        found = [[source, *references] for source, references in zip(lines, found, strict=True)]
    rows = [tuple(filter(str.strip, row)) for row in found]
    is_bad = [not row[0].strip() or len(good) < 2 for row, good in zip(found, rows, strict=True)]
    bad = [number for number, one in enumerate(is_bad, 1) if one]
    if (bad and not skip_bad) or len(bad) == len(rows):
        raise DataError(
            f"{path}: {len(bad):,} of {len(rows):,} lines have no source or no reference."
            + (f" The first is line {bad[0]:,}." if bad else ""),
            "A line is a source, a tab and references with tabs between them; with --source it is "
            "references only.",
            "Correct these lines, or leave them out: --skip-bad.",
        )
    good = [row for row, one in zip(rows, is_bad, strict=True) if not one]
    paths = [path] if sources is None else [sources, path]
    skipped = f"{len(rows):,} rows read, {len(bad):,} bad" if bad else ""
    checksums = {one.name: sha256_of(one) for one in paths}
    return Examples(good[:limit], checksums, skipped, several=True)


def _lines(path: Path) -> list[str]:
    with opened(path) as stream:
        raw = [line for some in arriving_lines(stream, str(path), AT_ONCE) for line in some]
    found: list[str] = []
    for line in raw:
        try:
            found.append(line.removesuffix(b"\r").decode())
        except UnicodeDecodeError:
            raise DataError(
                f"Line {len(found) + 1:,} of {path} is not UTF-8.",
                "Text is read in UTF-8.",
                "Convert it first, for example: iconv -f latin1 -t utf-8.",
            ) from None
    return found


def from_set(
    name: str,
    split: str,
    columns: Sequence[str] = (),
    limit: int | None = None,
    *,
    tokenised: bool = False,
    several: bool = False,
    skip_bad: bool = False,
    labels: Collection[str] | None = None,
    progress: datasets.Progress = datasets.silent,
) -> Examples:
    """Read a named set; checksums are those of the text of each column.

    With `tokenised`, the tokenised text of the last column is added as a column, if the set has it.
    With `several`, a row has all references of its source, if the set has a file of them.
    """
    skipped, references = "", None
    if name == "grammar":
        columns = columns or LANGUAGES
        rows = _grammar_rows(split, columns, limit, labels)
    else:
        files = datasets.find(name, split, columns, progress=progress)
        columns = columns or datasets.manifest(name).columns[:2]
        if tokenised and has_tokenised(name, split):
            more = datasets.find(name, TOKENISED + split, columns[-1:], progress=progress)
            files = replace(files, paths=(*files.paths, *more.paths))
            columns = (*columns, f"{columns[-1]} tokenised")
        rows, skipped = _read(files, limit, skip_bad, labels)
        references = datasets.find_references(name, split, progress=progress) if several else None
    named = zip(columns, zip(*rows, strict=True), strict=True)
    checksums = {f"{name} {split} {c}": _digest(texts) for c, texts in named}
    if references:
        rows = _with_all(rows, references, columns[0] == datasets.manifest(name).columns[0])
        checksums[references.name] = sha256_of(references)
    return Examples(rows, checksums, skipped, several=references is not None)


def _with_all(rows: list[Row], path: Path, forward: bool) -> list[Row]:
    """Add to each source all that `path` has for it; backward, all whose references it is among."""
    known: dict[str, list[str]] = defaultdict(list)
    for first, *others in (line.split("\t") for line in _lines(path)):
        for other in others:
            source, reference = (first, other) if forward else (other, first)
            known[source].append(reference)
    return [(source, *dict.fromkeys([one, *known[source]])) for source, one, *_ in rows]


def has_tokenised(name: str, split: str) -> bool:
    """Return whether a named set has the tokenised text of a split that published scores use."""
    return name != "grammar" and TOKENISED + split in datasets.manifest(name).splits


def _grammar_rows(
    split: str, columns: Sequence[str], limit: int | None, labels: Collection[str] | None
) -> list[Row]:
    if labels is not None:
        raise DataError(
            "The grammar has no labels.",
            "It is text in two languages; a classifier needs labels.",
            "Name another set, or a file: --data reviews.jsonl.",
        )
    sides = [LANGUAGES.index(known("column of grammar", c, LANGUAGES)) for c in columns]
    pairs = grammar.pairs(split, limit or GRAMMAR_EXAMPLES)
    return [tuple((pair.source, pair.target)[side] for side in sides) for pair in pairs]


def _read(
    files: TextFiles, limit: int | None, skip_bad: bool, labels: Collection[str] | None
) -> tuple[list[Row], str]:
    corpus = Corpus(files, skip_bad=skip_bad, labels=labels)
    rows = list(islice(corpus, limit))
    return rows, str(corpus.report) if corpus.report.bad else ""


def _name(path: Path, files: TextFiles) -> str:
    """Return the name of a file without its folder, unless two files have that name."""
    alike = {other for other in files.paths if other.name == path.name}
    return path.name if len(alike) == 1 else str(path)


def _digest(texts: Sequence[str]) -> str:
    return sha256("".join(f"{text}\n" for text in texts).encode()).hexdigest()
