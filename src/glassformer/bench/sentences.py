"""Sentences to measure with: a file's, Multi30k's, or those of the embedded grammar."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from glassformer.data import datasets, grammar
from glassformer.data.corpus import Corpus, TextFiles
from glassformer.errors import DataError


@dataclass(frozen=True)
class Sentences:
    name: str
    sources: list[str]
    references: list[str] | None


def sentence_pairs(source: Path | None, reference: Path | None, limit: int) -> Sentences:
    """Return up to `limit` sentences of `source`, with references if a file of them is given.

    Without a file they are those of Multi30k's validation set if it is there, else the grammar's.
    """
    if source is None:
        return _multi30k(limit) or _grammar(limit)
    paths = (source,) if reference is None else (source, reference)
    files = TextFiles(paths, format="lines")
    return _read(source.name, files, limit)


def _multi30k(limit: int) -> Sentences | None:
    try:
        files = datasets.find("multi30k", "valid", ("en", "fr"), download=False)
    except DataError:  # it is not on this machine
        return None
    return _read("Multi30k's validation set", files, limit)


def _grammar(limit: int) -> Sentences:
    pairs = list(grammar.pairs("test", limit))
    return Sentences(
        "the embedded grammar", [pair.source for pair in pairs], [pair.target for pair in pairs]
    )


def _read(name: str, files: TextFiles, limit: int) -> Sentences:
    rows = list(islice(Corpus(files), limit))
    sources, *others = (list(column) for column in zip(*rows, strict=True))
    return Sentences(name, sources, others[0] if others else None)
