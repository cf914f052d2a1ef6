"""Sentences to measure with: a file's, those of a named set, or those of the embedded grammar."""

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


CAPTIONS = ("multi30k", "valid", "Multi30k's validation set")
NEWS = ("wmt14", "newsdev", "newstest2014, the part for tuning")


def sentence_pairs(
    source: Path | None, reference: Path | None, limit: int, trained_on: str = CAPTIONS[0]
) -> Sentences:
    """Return up to `limit` sentences of `source`, with references if a file of them is given.

    Without a file they are captions for a model trained on Multi30k and news for others, if these
    sets are there, else the grammar's.
    """
    if source is None:
        return _set(limit, CAPTIONS if trained_on == CAPTIONS[0] else NEWS) or _grammar(limit)
    paths = (source,) if reference is None else (source, reference)
    files = TextFiles(paths, format="lines")
    return _read(source.name, files, limit)


def _set(limit: int, found: tuple[str, str, str]) -> Sentences | None:
    name, split, title = found
    try:
        files = datasets.find(name, split, ("en", "fr"), download=False)
    except DataError:  # it is not on this machine
        return None
    return _read(title, files, limit)


def _grammar(limit: int) -> Sentences:
    pairs = list(grammar.pairs("test", limit))
    return Sentences(
        "the embedded grammar", [pair.source for pair in pairs], [pair.target for pair in pairs]
    )


def _read(name: str, files: TextFiles, limit: int) -> Sentences:
    rows = list(islice(Corpus(files), limit))
    sources, *others = (list(column) for column in zip(*rows, strict=True))
    return Sentences(name, sources, others[0] if others else None)
