"""The models and sentences that a bench measures with."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from glassformer import checkpoint, pretrained
from glassformer.checkpoint import Checkpoint
from glassformer.data import datasets, grammar
from glassformer.data.corpus import Corpus, TextFiles
from glassformer.errors import CheckpointError, DataError


def read_model(name: str, kind: str) -> Checkpoint:
    """Return the checkpoint of a run or a bundled model; refuse other kinds and tasks."""
    saved = checkpoint.read(checkpoint.find(pretrained.resolve(name)))
    if saved.settings.model.kind != kind or not saved.tokenizers:
        raise CheckpointError(
            f"{name} holds a {saved.settings.model.kind} for {saved.settings.data.name!r}.",
            f"This bench measures a {kind} of text.",
            f"Name the run of a {kind}.",
        )
    return saved


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
