"""Where the text of a run comes from: the grammar, named sets, files, each as rows of columns."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path

from glassformer.config import RunSettings, TextSettings
from glassformer.data import datasets, grammar
from glassformer.data.clean import Cleaned
from glassformer.data.corpus import Corpus, Row, TextFiles, own_files, readable
from glassformer.data.download import sha256_of
from glassformer.data.typography import normalize
from glassformer.errors import DataError

READS = {"translator": ("a text", "its translation"), "classifier": ("a text", "its label")}
# Versions: text that was prepared with another one is prepared anew.
TYPOGRAPHY, CLEANING = "typography 1", "cleaning 1"


@dataclass(frozen=True)
class Text:
    """Rows that can be read again and again, and the checksum of what they come from."""

    rows: Callable[[], Iterable[Row]]
    identity: str
    bad_rows: Callable[[], str] = lambda: ""  # what the last reading skipped

    def first(self, count: int) -> "Text":
        """The first `count` rows."""
        return Text(lambda: islice(self.rows(), count), f"{self.identity} {count}", self.bad_rows)


def find_text(settings: RunSettings, split: str) -> Text:
    """The text of a split, from wherever the settings say it is."""
    data = settings.data
    if data.name == "grammar":
        count = data.examples if split == "train" else data.valid_examples
        code = b"".join(p.read_bytes() for p in sorted(Path(grammar.__file__).parent.glob("*.py")))
        rows = partial(_grammar_rows, split, count)
        text = Text(rows, f"grammar {split} {count} {sha256(code).hexdigest()}")
        return _normalized(text, settings)
    text = _read(settings, _files(settings, split))
    return _cleaned(text) if data.clean and split != "valid" else text


def find_source(settings: RunSettings, source: TextSettings, clean: bool = False) -> Text:
    """The text of one source of a mixture, or of one of its sets to validate on."""
    if source.set is not None:
        found = datasets.find(source.set, source.split, _languages(settings))
    else:
        found = own_files(source.files, source.columns)
        _check_columns(found, settings.model.kind, f"sources {source.name!r}")
    text = _read(settings, found)
    return _cleaned(text) if clean else text


def _read(settings: RunSettings, found: TextFiles) -> Text:
    data = settings.data
    corpus = Corpus(found, skip_bad=data.skip_bad, labels=data.labels or None)
    files = corpus.files
    digests = list(map(_digest, files.paths))
    part = files.start, files.stop, *(files.where or ())
    how = files.layout, files.columns, *part, data.skip_bad, data.labels

    def skipped() -> str:
        return str(corpus.report) if corpus.report.bad else ""

    return _normalized(Text(lambda: corpus, f"{digests} {how}", skipped), settings)


def _normalized(text: Text, settings: RunSettings) -> Text:
    """The same text in plain typography, if the settings ask for it; a label stays as it is."""
    if not settings.data.typography:
        return text
    languages = _languages(settings) or (settings.data.source_language,)

    def rows() -> Iterator[Row]:
        for row in text.rows():
            plain = (normalize(side, to) for side, to in zip(row, languages, strict=False))
            yield (*plain, *row[len(languages) :])

    return Text(rows, f"{text.identity} {TYPOGRAPHY} {languages}", text.bad_rows)


def _cleaned(text: Text) -> Text:
    """The pairs that no rule of data/clean.py drops; the counts go with the rows skipped."""
    cleaned = Cleaned(text.rows)

    def lost() -> str:
        report = str(cleaned.report) if cleaned.report.dropped else ""
        return "; ".join(filter(None, (text.bad_rows(), report)))

    return Text(lambda: cleaned, f"{text.identity} {CLEANING}", lost)


def _languages(settings: RunSettings) -> tuple[str, ...]:
    """The languages of the columns of a translator; others read the first columns of a set."""
    data = settings.data
    is_translator = settings.model.kind == "translator"
    return (data.source_language, data.target_language) if is_translator else ()


def _digest(path: Path) -> str:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(
            f"{path} is a device or a pipe.",
            "Training text is read several times, and a device may have no end.",
            "Write the text to a file, and name that.",
        )
    with readable(path):
        return sha256_of(path)


def _grammar_rows(split: str, count: int) -> Iterator[Row]:
    return ((pair.source, pair.target) for pair in grammar.pairs(split, count))


def _files(settings: RunSettings, split: str) -> TextFiles:
    data, kind = settings.data, settings.model.kind
    if data.name != "files":
        chosen = {"train": data.train_split, "final": data.final_split}
        return datasets.find(data.name, chosen.get(split) or split, _languages(settings))
    paths = {"train": data.train, "valid": data.valid, "final": data.final}[split]
    if not paths:
        raise DataError(
            f"No files are named for data.{split}.",
            "With data.name = 'files' the text is yours, and so are the files to validate on.",
            f"Set data.{split} = ['text.en', 'text.fr'], or one TSV, CSV or JSONL file.",
        )
    files = own_files(paths, data.columns)
    _check_columns(files, kind, split)
    return files


def _check_columns(files: TextFiles, kind: str, split: str) -> None:
    """Refuse columns or files beyond those that the kind of model reads."""
    reads, count = READS.get(kind, ("a text",)), len(files.columns or files.paths)
    if count != len(reads) and not (files.columns and kind not in READS):
        raise DataError(
            f"data.{split} has {count} columns, and a {kind} reads {len(reads)}: {files}.",
            f"It reads {' and '.join(reads)}; a plain file is one column.",
            f"Name a file for {' and one for '.join(reads)}, or a table and its data.columns.",
        )
