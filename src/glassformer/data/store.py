"""Text to ids, once: what has been tokenised lies in the user's cache.

It lies there under the checksum of all that it was made from, so it is made once, and made again
when anything changes.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path

from glassformer.config import DataSettings, RunSettings
from glassformer.data import datasets
from glassformer.data.batch import Examples
from glassformer.data.corpus import Row
from glassformer.data.ragged import Ragged, RaggedWriter
from glassformer.data.text import Text
from glassformer.data.tokenizer import Tokenizer

CHUNK = 20_000  # rows tokenised at a time
TEXT = "uint8"  # the bytes of a text, kept beside its subwords where these are drawn anew


@dataclass(frozen=True)
class Lost:
    """What of a text is not in its examples."""

    left_out: int = 0  # pairs longer than max_length
    cut: int = 0  # other texts as long as that or longer, whose rest is not read
    bad_rows: str = ""  # skipped as asked

    def plus(self, other: "Lost") -> "Lost":
        """What is lost of two texts together."""
        skipped = "; ".join(filter(None, (self.bad_rows, other.bad_rows)))
        return Lost(self.left_out + other.left_out, self.cut + other.cut, skipped)


def sides_of(settings: RunSettings) -> tuple[str, ...]:
    """The sides that are text, by the names of their tokenizers."""
    return ("source", "target") if settings.model.kind == "translator" else ("source",)


def by_side(settings: RunSettings, tokenizers: dict[str, Tokenizer]) -> list[Tokenizer]:
    return [tokenizers.get("joint") or tokenizers[side] for side in sides_of(settings)]


def stored(
    text: Text,
    settings: RunSettings,
    tokenizers: dict[str, Tokenizer],
    threads: int,
    learning: bool = True,
) -> tuple[Examples, Lost]:
    """The examples of a text, and what was lost on the way to them."""
    data, kind = settings.data, settings.model.kind
    drawn = learning and data.subword_sampling > 0
    of_side = by_side(settings, tokenizers)
    identities = [tokenizer.fingerprint for tokenizer in of_side]
    made_of = f"{text.identity} {identities} {kind} {data.max_length} {data.labels} {drawn}"
    folder = made(
        made_of, lambda folder: _tokenise(text, settings, of_side, threads, drawn, folder)
    )
    width = "uint16" if max(map(len, of_side)) <= 2**16 else "int32"
    names = [*sides_of(settings), *(["label"] if kind == "classifier" else [])]
    sides = tuple(Ragged.open(folder / f"{name}.{width}") for name in names)
    in_parts = kind in ("classifier", "language-model")
    cut = int((sides[0].lengths >= data.max_length).sum()) if in_parts else 0
    lost = Lost(cut=cut, **json.loads((folder / "lost.json").read_text()))
    hidden = data.mask_rate if learning or kind == "masked-language-model" else 0.0
    if not drawn:
        return Examples(kind, sides, hidden=hidden), lost
    texts = [Ragged.open(folder / f"{side}-text.{TEXT}") for side in sides_of(settings)]

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
    data, kind, sides = settings.data, settings.model.kind, sides_of(settings)
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


def fitting_rows(
    rows: list[Row], settings: RunSettings, tokenizers: dict[str, Tokenizer]
) -> list[Row]:
    """The pairs that `_tokenise` makes examples of."""
    of_side = zip(by_side(settings, tokenizers), zip(*rows, strict=True), strict=True)
    ids = [tokenizer.encode(column) for tokenizer, column in of_side]
    return [row for row, fit in zip(rows, _fits(ids, settings.data.max_length), strict=True) if fit]


def _pieces(row: list[int], longest: int) -> Iterator[list[int]]:
    """As few pieces as can be, of about one length."""
    count = -(-len(row) // longest)
    for i in range(count):
        yield row[len(row) * i // count : len(row) * (i + 1) // count]


def made(made_of: str, make: Callable[[Path], None]) -> Path:
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
