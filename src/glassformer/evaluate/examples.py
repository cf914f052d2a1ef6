"""What a model is judged on: rows of the user's files or of a named set, and their checksums."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path

from glassformer.data import datasets, grammar
from glassformer.data.corpus import Corpus, Row, TextFiles, known, opened
from glassformer.data.download import sha256_of
from glassformer.data.tokenizer import Tokenizer
from glassformer.errors import DataError

GRAMMAR_EXAMPLES = 1_000  # where no limit says how many; it has no end of its own
LANGUAGES = ("en", "fr")  # of the grammar
TURN = 256  # texts in one turn of a model
TOKENISED = "tok-"  # before the name of a split: the same text as published scores count it


@dataclass(frozen=True)
class Examples:
    rows: list[Row]
    checksums: dict[str, str]
    skipped: str = ""  # bad rows, if they were to be skipped
    several: bool = False  # a row is a source and all its references


def turns(texts: Sequence[str]) -> list[list[int]]:
    """Indices of texts of like length together, so that a model can be watched turn by turn."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    return [order[first : first + TURN] for first in range(0, len(order), TURN)]


def check_fit(texts: Sequence[str], tokenizer: Tokenizer, longest: int) -> None:
    """Refuse texts that the model would refuse, all of them at once and before the work."""
    over = [n for n, ids in enumerate(tokenizer.encode(texts), 1) if len(ids) > longest]
    if over:
        raise DataError(
            f"{len(over):,} of {len(texts):,} texts have more than {longest} subwords.",
            f"The model was trained on no longer ones. The first is text {over[0]:,}: "
            f"{texts[over[0] - 1][:40]!r}…",
            "Cut them as they are read: --truncate.",
        )


def from_files(
    files: TextFiles,
    limit: int | None = None,
    *,
    skip_bad: bool = False,
    labels: Collection[str] | None = None,
) -> Examples:
    """The user's own: a checksum is that of the file as it lies there."""
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
                "Give two files of as many lines.",
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
        content = stream.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"Line {line:,} of {path} is not UTF-8.",
            "Text is read in UTF-8.",
            "Convert it first, for example: iconv -f latin1 -t utf-8.",
        ) from None
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


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
    """A named set: a checksum is that of the text of a column, however the files are packed.

    With `tokenised` the tokenised text of the last column is a column more, if the set has it.
    With `several` a row has all references of its source, if the set has a file of them.
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
    """Whether a named set has the text of a split as published scores count it."""
    return name != "grammar" and TOKENISED + split in datasets.manifest(name).splits


def _grammar_rows(
    split: str, columns: Sequence[str], limit: int | None, labels: Collection[str] | None
) -> list[Row]:
    if labels is not None:
        raise DataError(
            "The grammar has no labels.",
            "It is text in two languages, and a classifier is judged by labels.",
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
    """A file's bare name, which tells nothing of the machine, unless it stands for two files."""
    alike = {other for other in files.paths if other.name == path.name}
    return path.name if len(alike) == 1 else str(path)


def _digest(texts: Sequence[str]) -> str:
    return sha256("".join(f"{text}\n" for text in texts).encode()).hexdigest()
