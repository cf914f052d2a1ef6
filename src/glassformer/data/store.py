"""Tokenised text, kept in the user's cache.

The key of a cached folder is the checksum of everything that its content depends on.
"""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path

from glassformer.config import DataSettings, RunSettings
from glassformer.data import datasets
from glassformer.data.batch import Examples
from glassformer.data.batching import draw_seed
from glassformer.data.corpus import Row
from glassformer.data.kinds import KINDS
from glassformer.data.ragged import Ragged, RaggedWriter
from glassformer.data.text import Text
from glassformer.data.tokenizer import Tokenizer

CHUNK = 20_000  # rows tokenised at a time
TEXT = "uint8"  # bytes of a text, kept where its subwords are sampled anew in each epoch


@dataclass(frozen=True)
class Lost:
    """The parts of a text that are not in its examples."""

    left_out: int = 0  # pairs longer than max_length
    cut: int = 0  # other texts of max_length or more, whose rest is not read
    bad_rows: str = ""  # report of bad rows that were skipped

    def plus(self, other: "Lost") -> "Lost":
        """Return the losses of two texts together."""
        skipped = "; ".join(filter(None, (self.bad_rows, other.bad_rows)))
        return Lost(self.left_out + other.left_out, self.cut + other.cut, skipped)


def side_tokenizers(settings: RunSettings, tokenizers: dict[str, Tokenizer]) -> list[Tokenizer]:
    """Return the tokenizer of each side that is text."""
    sides = KINDS[settings.model.kind].text_sides
    return [tokenizers.get("joint") or tokenizers[side] for side in sides]


def tokenised(
    text: Text,
    settings: RunSettings,
    tokenizers: dict[str, Tokenizer],
    threads: int,
    learning: bool = True,
) -> tuple[Examples, Lost]:
    """Return the examples of a text, and the parts of it that are not in them.

    With `learning`, subwords are sampled and tokens masked as the settings ask.
    """
    data, name, kind = settings.data, settings.model.kind, KINDS[settings.model.kind]
    drawn = learning and data.subword_sampling > 0
    of_side = side_tokenizers(settings, tokenizers)
    identities = [tokenizer.fingerprint for tokenizer in of_side]
    key = f"{text.identity} {identities} {name} {data.max_length} {data.labels} {drawn}"
    folder = cached(key, lambda folder: _tokenise(text, settings, of_side, threads, drawn, folder))
    width = "uint16" if max(map(len, of_side)) <= 2**16 else "int32"
    columns = [*kind.text_sides, *(["label"] if kind.has_label else [])]
    sides = tuple(Ragged.open(folder / f"{column}.{width}") for column in columns)
    cut = int((sides[0].lengths >= data.max_length).sum()) if kind.too_long == "cut" else 0
    lost = Lost(cut=cut, **json.loads((folder / "lost.json").read_text()))
    hidden = data.mask_rate if learning or kind.masks_validation else 0.0
    if not drawn:
        return Examples(name, sides, hidden=hidden), lost
    texts = [Ragged.open(folder / f"{side}-text.{TEXT}") for side in kind.text_sides]

    def redraw(seed: int) -> tuple[Ragged, ...]:
        anew = [
            _split_anew(text, ids, tokenizer, data, draw_seed(seed, side))
            for side, (text, ids, tokenizer) in enumerate(zip(texts, sides, of_side, strict=False))
        ]
        return (*anew, *sides[len(anew) :])  # a label stays as it is

    return Examples(name, sides, redraw, hidden), lost


def _split_anew(
    texts: Ragged, ids: Ragged, tokenizer: Tokenizer, data: DataSettings, seed: int
) -> Ragged:
    """Sample another split of every text; one too long is replaced by the best split.

    A text cut short would teach the model to stop early.
    """
    parts = []
    for begin in range(0, len(texts), CHUNK):
        rows = range(begin, min(begin + CHUNK, len(texts)))
        strings = [texts[i].tobytes().decode() for i in rows]
        drawn = tokenizer.sample(strings, data.subword_sampling, draw_seed(seed, begin))
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
    """Write the ids of every side that `Kind.fit` keeps."""
    data, kind = settings.data, KINDS[settings.model.kind]
    width = "uint16" if max(map(len, of_side)) <= 2**16 else "int32"
    rows, left_out = iter(text.rows()), 0
    with ExitStack() as stack:

        def writer(name: str) -> RaggedWriter:
            return stack.enter_context(closing(RaggedWriter(folder / name)))

        ids_of = [writer(f"{side}.{width}") for side in kind.text_sides]
        texts_of = [writer(f"{side}-text.{TEXT}") for side in kind.text_sides] if drawn else []
        label_of = writer(f"label.{width}") if kind.has_label else None
        while chunk := list(islice(rows, CHUNK)):
            columns = list(zip(*chunk, strict=True))
            ids = [t.encode(c, threads) for t, c in zip(of_side, columns, strict=False)]
            ids, kept = kind.fit(ids, data.max_length)
            left_out += len(ids[0]) - len(kept)
            for column, side_ids in zip(ids_of, ids, strict=True):
                column.append(side_ids[i] for i in kept)
            for column, side_text in zip(texts_of, columns, strict=False):
                column.append(side_text[i].encode() for i in kept)
            if label_of is not None:
                label_of.append([data.labels.index(row[-1])] for row in chunk)
    lost = {"left_out": left_out, "bad_rows": text.bad_rows()}
    (folder / "lost.json").write_text(json.dumps(lost))


def fitting_rows(
    rows: list[Row], settings: RunSettings, tokenizers: dict[str, Tokenizer]
) -> list[Row]:
    """Return the pairs that become examples."""
    of_side = zip(side_tokenizers(settings, tokenizers), zip(*rows, strict=True), strict=True)
    ids = [tokenizer.encode(column) for tokenizer, column in of_side]
    _, kept = KINDS[settings.model.kind].fit(ids, settings.data.max_length)
    return [rows[i] for i in kept]


def cached(key: str, make: Callable[[Path], None]) -> Path:
    """Return the cached folder of `key`; `make` fills it if there is none yet.

    It is renamed into place when it is complete.
    """
    folder = datasets.cache().parent / "prepared" / sha256(key.encode()).hexdigest()[:24]
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
