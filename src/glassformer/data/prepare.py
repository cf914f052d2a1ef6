"""Settings to examples: text found, subwords learned, everything tokenised once and kept.

What has been prepared lies in the user's cache under the checksum of all that it was made from, so
it is made once, and made again when anything changes.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.config import DataSettings, RunSettings
from glassformer.data import datasets, grammar, tasks
from glassformer.data.batch import Examples
from glassformer.data.check import check, has_final
from glassformer.data.corpus import Corpus, Row, TextFiles, readable
from glassformer.data.download import sha256_of
from glassformer.data.ragged import Ragged, RaggedWriter
from glassformer.data.tokenizer import PAD, Tokenizer
from glassformer.errors import DataError

CHUNK = 20_000  # rows tokenised at a time
READS = {"translator": ("a text", "its translation"), "classifier": ("a text", "its label")}
TEXT = "uint8"  # the bytes of a text, kept beside its subwords where these are drawn anew


@dataclass(frozen=True)
class Text:
    """Rows that can be read again and again, and the checksum of what they come from."""

    rows: Callable[[], Iterable[Row]]
    identity: str
    bad_rows: Callable[[], str] = lambda: ""  # what the last reading skipped


@dataclass(frozen=True)
class Lost:
    """What of a text is not in its examples."""

    left_out: int = 0  # pairs longer than max_length
    cut: int = 0  # other texts as long as that or longer, whose rest is not read
    bad_rows: str = ""  # skipped as asked


@dataclass(frozen=True)
class Prepared:
    """`settings` are those asked for with what was found out: the vocabulary's size, the labels."""

    settings: RunSettings
    train: Examples
    valid: Examples
    valid_rows: list[Row]  # the text of `valid`; empty for a task, which has none
    tokenizers: dict[str, Tokenizer]
    lost: Lost = Lost()
    valid_lost: Lost = Lost()
    final: Examples | None = None  # what the end of the run reads instead of `train`
    final_lost: Lost = Lost()


def prepare(
    settings: RunSettings, threads: int = 2, tokenizers: dict[str, Tokenizer] | None = None
) -> Prepared:
    """What a run needs; with given subwords, where it starts from another run and has its."""
    check(settings)
    if settings.data.name in tasks.TASKS:
        return _prepare_task(settings)
    train = find_text(settings, "train")
    tokenizers = tokenizers or _tokenizers(train, settings)
    if "source" in tokenizers and len(_sides(settings)) == 1:  # of a run that had two
        tokenizers = {"joint": tokenizers["source"]}
    is_classifier = settings.model.kind == "classifier"
    labels = tuple(sorted({row[-1] for row in train.rows()})) if is_classifier else ()
    settings = settings.replace(
        data={"labels": labels},
        model=_with_vocabularies(settings, tokenizers, max(2, len(labels))),
    )
    data, valid = settings.data, find_text(settings, "valid")
    store = partial(_stored, settings=settings, tokenizers=tokenizers, threads=threads)
    few = Text(
        lambda: islice(valid.rows(), data.valid_examples), f"{valid.identity} {data.valid_examples}"
    )
    train_examples, lost = store(train)
    valid_examples, valid_lost = store(few, learning=False)
    final, final_lost = store(find_text(settings, "final")) if has_final(data) else (None, Lost())
    purposes = {"train": train_examples, "validate": valid_examples, "end": final}
    for purpose, examples in purposes.items():
        if examples is not None and not len(examples):
            raise DataError(
                f"No example to {purpose} on is left.",
                f"All of them have more than data.max_length = {data.max_length} subwords.",
                "Raise data.max_length.",
            )
    rows = list(few.rows())
    if valid_lost.left_out:
        rows = _fitting(rows, settings, tokenizers)
    valid_lost = replace(valid_lost, bad_rows=valid.bad_rows())  # as just read
    return Prepared(
        settings, train_examples, valid_examples, rows, tokenizers, lost, valid_lost, final,
        final_lost,
    )  # fmt: skip


def find_text(settings: RunSettings, split: str) -> Text:
    """The text of a split, from wherever the settings say it is."""
    data = settings.data
    if data.name == "grammar":
        count = data.examples if split == "train" else data.valid_examples
        code = b"".join(p.read_bytes() for p in sorted(Path(grammar.__file__).parent.glob("*.py")))
        rows = partial(_grammar_rows, split, count)
        return Text(rows, f"grammar {split} {count} {sha256(code).hexdigest()}")
    corpus = Corpus(_files(settings, split), skip_bad=data.skip_bad, labels=data.labels or None)
    files = corpus.files
    digests = list(map(_digest, files.paths))
    part = files.start, files.stop, *(files.where or ())
    how = files.layout, files.columns, *part, data.skip_bad, data.labels

    def skipped() -> str:
        return str(corpus.report) if corpus.report.bad else ""

    return Text(lambda: corpus, f"{digests} {how}", skipped)


def _digest(path: Path) -> str:
    with readable(path):
        return sha256_of(path)


def _grammar_rows(split: str, count: int) -> Iterator[Row]:
    return ((pair.source, pair.target) for pair in grammar.pairs(split, count))


def _files(settings: RunSettings, split: str) -> TextFiles:
    data, kind = settings.data, settings.model.kind
    if data.name != "files":
        languages = (data.source_language, data.target_language) if kind == "translator" else ()
        chosen = {"train": data.train_split, "final": data.final_split}
        return datasets.find(data.name, chosen.get(split) or split, languages)
    paths = {"train": data.train, "valid": data.valid, "final": data.final}[split]
    if not paths:
        raise DataError(
            f"No files are named for data.{split}.",
            "With data.name = 'files' the text is yours, and so are the files to validate on.",
            f"Set data.{split} = ['text.en', 'text.fr'], or one TSV, CSV or JSONL file.",
        )
    columns = tuple(int(c) if c.isdecimal() else c for c in data.columns)
    files = TextFiles(tuple(map(Path, paths)), columns)
    _check_columns(files, kind, split)
    return files


def _check_columns(files: TextFiles, kind: str, split: str) -> None:
    """Of a table a language model reads the first column; a second file would lie unread."""
    reads, count = READS.get(kind, ("a text",)), len(files.columns or files.paths)
    if count != len(reads) and not (files.columns and kind not in READS):
        raise DataError(
            f"data.{split} has {count} columns, and a {kind} reads {len(reads)}: {files}.",
            f"It reads {' and '.join(reads)}; a plain file is one column.",
            f"Name a file for {' and one for '.join(reads)}, or a table and its data.columns.",
        )


def _sides(settings: RunSettings) -> tuple[str, ...]:
    """The sides that are text, by the names of their tokenizers."""
    return ("source", "target") if settings.model.kind == "translator" else ("source",)


def _by_side(settings: RunSettings, tokenizers: dict[str, Tokenizer]) -> list[Tokenizer]:
    return [tokenizers.get("joint") or tokenizers[side] for side in _sides(settings)]


def _tokenizers(train: Text, settings: RunSettings) -> dict[str, Tokenizer]:
    """The subwords of each side, learned from the training text; one for both if they are joint."""
    data, sides = settings.data, _sides(settings)
    joint = data.joint_vocabulary or len(sides) == 1

    def learn(columns: tuple[int, ...], size: int) -> Tokenizer:
        made_of = f"{train.identity} {columns} {size} {data.subwords} {data.fold_case}"
        folder = _made(made_of, lambda folder: _learn(train, columns, size, data, folder))
        return Tokenizer((folder / "subwords.spm").read_bytes())

    if joint:
        return {"joint": learn(tuple(range(len(sides))), settings.model.vocab_size)}
    source_size = settings.model.source_vocab_size or settings.model.vocab_size
    return {"source": learn((0,), source_size), "target": learn((1,), settings.model.vocab_size)}


def _learn(
    train: Text, columns: tuple[int, ...], size: int, data: DataSettings, folder: Path
) -> None:
    sentences = (row[column] for row in train.rows() for column in columns)
    tokenizer = Tokenizer.train(sentences, size, data.subwords, fold_case=data.fold_case)
    (folder / "subwords.spm").write_bytes(tokenizer.model)


def _with_vocabularies(
    settings: RunSettings, tokenizers: dict[str, Tokenizer], n_classes: int
) -> dict[str, Any]:
    sizes = {side: len(tokenizer) for side, tokenizer in tokenizers.items()}
    model = settings.model.replace(vocab_size=sizes.get("joint") or sizes["target"])
    if "source" in sizes:
        model = model.replace(source_vocab_size=sizes["source"], tie_source_target=False)
    if model.kind == "classifier":
        model = model.replace(n_classes=n_classes)
    return model.model_dump()


def _stored(
    text: Text,
    settings: RunSettings,
    tokenizers: dict[str, Tokenizer],
    threads: int,
    learning: bool = True,
) -> tuple[Examples, Lost]:
    """The examples of a text, and what was lost on the way to them."""
    data, kind = settings.data, settings.model.kind
    drawn = learning and data.subword_sampling > 0
    of_side = _by_side(settings, tokenizers)
    identities = [tokenizer.fingerprint for tokenizer in of_side]
    made_of = f"{text.identity} {identities} {kind} {data.max_length} {data.labels} {drawn}"
    folder = _made(
        made_of, lambda folder: _tokenise(text, settings, of_side, threads, drawn, folder)
    )
    width = "uint16" if max(map(len, of_side)) <= 2**16 else "int32"
    names = [*_sides(settings), *(["label"] if kind == "classifier" else [])]
    sides = tuple(Ragged.open(folder / f"{name}.{width}") for name in names)
    in_parts = kind in ("classifier", "language-model")
    cut = int((sides[0].lengths >= data.max_length).sum()) if in_parts else 0
    lost = Lost(cut=cut, **json.loads((folder / "lost.json").read_text()))
    hidden = data.hidden if learning or kind == "masked-language-model" else 0.0
    if not drawn:
        return Examples(kind, sides, hidden=hidden), lost
    texts = [Ragged.open(folder / f"{side}-text.{TEXT}") for side in _sides(settings)]

    def redraw(seed: int) -> tuple[Ragged, ...]:
        anew = [
            _split_anew(text, ids, tokenizer, data, seed + side)
            for side, (text, ids, tokenizer) in enumerate(zip(texts, sides, of_side, strict=False))
        ]
        return (*anew, *sides[len(anew) :])  # a label stays as it is

    return Examples(kind, sides, redraw, hidden), lost


def _split_anew(
    texts: Ragged, ids: Ragged, tokenizer: Tokenizer, data: DataSettings, seed: int
) -> Ragged:
    """Another split of every text; one too long is not taken: a text cut short teaches to stop."""
    parts = []
    for begin in range(0, len(texts), CHUNK):
        rows = range(begin, min(begin + CHUNK, len(texts)))
        strings = [texts[i].tobytes().decode() for i in rows]
        drawn = tokenizer.sample(strings, data.subword_sampling, seed + 2 * begin)
        fitting = [
            new if len(new) <= data.max_length else ids[i]
            for i, new in zip(rows, drawn, strict=True)
        ]
        parts.append(Ragged.of(fitting))
    return Ragged.joined(parts)


def _tokenise(
    text: Text,
    settings: RunSettings,
    of_side: list[Tokenizer],
    threads: int,
    drawn: bool,
    folder: Path,
) -> None:
    """Write the ids of every side.

    A pair too long on either side is left out. Of another text what is too long is cut off; for a
    masked language model, which reads no beginning or end, it comes as a text of its own.
    """
    data, kind, sides = settings.data, settings.model.kind, _sides(settings)
    width = "uint16" if max(map(len, of_side)) <= 2**16 else "int32"
    rows, left_out = iter(text.rows()), 0
    with ExitStack() as stack:

        def writer(name: str) -> RaggedWriter:
            opened = RaggedWriter(folder / name)
            stack.callback(opened.close)
            return opened

        ids_of = [writer(f"{side}.{width}") for side in sides]
        texts_of = [writer(f"{side}-text.{TEXT}") for side in sides] if drawn else []
        label_of = writer(f"label.{width}") if kind == "classifier" else None
        while chunk := list(islice(rows, CHUNK)):
            columns = list(zip(*chunk, strict=True))
            ids = [t.encode(c, threads) for t, c in zip(of_side, columns, strict=False)]
            fits = _fits(ids, data.max_length)
            if kind == "masked-language-model":
                ids = [[piece for row in ids[0] for piece in _pieces(row, data.max_length)]]
            elif kind != "translator":
                ids = [[row[: data.max_length] for row in ids[0]]]
            if kind != "translator":
                fits = [True] * len(ids[0])
            kept = [i for i, fit in enumerate(fits) if fit]
            left_out += len(fits) - len(kept)
            for column, side_ids in zip(ids_of, ids, strict=True):
                column.append(side_ids[i] for i in kept)
            for column, side_text in zip(texts_of, columns, strict=False):
                column.append(side_text[i].encode() for i in kept)
            if label_of is not None:
                label_of.append([data.labels.index(row[-1])] for row in chunk)
    lost = {"left_out": left_out, "bad_rows": text.bad_rows()}
    (folder / "lost.json").write_text(json.dumps(lost))


def _fits(ids: list[list[list[int]]], longest: int) -> list[bool]:
    """Of each row, whether every side does."""
    return [max(map(len, row)) <= longest for row in zip(*ids, strict=True)]


def _fitting(rows: list[Row], settings: RunSettings, tokenizers: dict[str, Tokenizer]) -> list[Row]:
    """The pairs that `_tokenise` makes examples of."""
    of_side = zip(_by_side(settings, tokenizers), zip(*rows, strict=True), strict=True)
    ids = [tokenizer.encode(column) for tokenizer, column in of_side]
    return [row for row, fit in zip(rows, _fits(ids, settings.data.max_length), strict=True) if fit]


def _pieces(row: list[int], longest: int) -> Iterator[list[int]]:
    """As few pieces as can be, of about one length."""
    count = -(-len(row) // longest)
    for i in range(count):
        yield row[len(row) * i // count : len(row) * (i + 1) // count]


def _made(made_of: str, make: Callable[[Path], None]) -> Path:
    """The folder of the cache that holds what is made of `made_of`; it appears when it is whole."""
    folder = datasets.cache().parent / "prepared" / sha256(made_of.encode()).hexdigest()[:24]
    if not folder.is_dir():
        partial_folder = folder.with_name(f".partial-{folder.name}-{os.getpid()}")
        shutil.rmtree(partial_folder, ignore_errors=True)
        partial_folder.mkdir(parents=True)
        make(partial_folder)
        try:
            partial_folder.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise
            shutil.rmtree(partial_folder)
    return folder


def _prepare_task(settings: RunSettings) -> Prepared:
    """A task needs no text and no subwords; its validation examples have another seed."""
    data, kind = settings.data, settings.model.kind
    vocabulary = tasks.FIRST + data.symbols
    model = settings.model.replace(vocab_size=vocabulary, n_classes=vocabulary)

    def examples(seed: int, count: int) -> Examples:
        made = [
            tasks.example(data.name, seed, i, data.symbols, (2, data.longest)) for i in range(count)
        ]
        sources, labels = zip(*made, strict=True)
        if kind == "translator":
            labels = tuple([label for label in row if label != PAD] for row in labels)
        return Examples(kind, (Ragged.of(sources), Ragged.of(labels)))

    settings = settings.replace(model=model.model_dump())
    train, valid = examples(0, data.examples), examples(1, data.valid_examples)
    return Prepared(settings, train, valid, [], {})
