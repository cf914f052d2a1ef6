"""Synthetic tasks that a Transformer should learn to perfection, made up as they are needed.

Symbols are the ids from `FIRST` on; the ids below are the marks of `tokenizer`. Each example is a
pure function of (seed, index), so any of them can be made at any time, on any machine.
"""

from collections.abc import Callable

import numpy as np

from glassformer.data.tokenizer import EOS, PAD
from glassformer.errors import DataError, nearest

FIRST = EOS + 1
Ids = list[int]


def copy(symbols: Ids) -> tuple[Ids, Ids]:
    """The sequence itself."""
    return symbols, symbols


def reverse(symbols: Ids) -> tuple[Ids, Ids]:
    """Last to first: each position must find the one place that mirrors its own."""
    return symbols, symbols[::-1]


def sort(symbols: Ids) -> tuple[Ids, Ids]:
    """In rising order: every position depends on all the others."""
    return symbols, sorted(symbols)


def recall(symbols: Ids) -> tuple[Ids, Ids]:
    """Associative recall: key, value, key, value, … and then keys again, each asking for its value.

    A key that came twice stands for its latest value.
    """
    keys, values = symbols[0::2], symbols[1::2]
    latest = dict(zip(keys, values, strict=False))
    questions = list(latest)[::-1]
    told = [symbol for pair in zip(keys, values, strict=False) for symbol in pair]
    return told + questions, [PAD] * len(told) + [latest[key] for key in questions]


TASKS: dict[str, Callable[[Ids], tuple[Ids, Ids]]] = {
    "copy": copy,
    "reverse": reverse,
    "sort": sort,
    "recall": recall,
}


def example(
    task: str, seed: int, index: int, n_symbols: int = 20, lengths: tuple[int, int] = (2, 32)
) -> tuple[Ids, Ids]:
    """Source and labels, one label per source token; PAD where nothing is asked.

    An encoder alone answers in place; an encoder-decoder's target is the labels without PAD.
    """
    if task not in TASKS:
        raise DataError(
            f"Unknown task {task!r}.",
            f"The tasks are {', '.join(TASKS)}.",
            f"Did you mean {nearest(task, TASKS)!r}?",
        )
    random = np.random.default_rng([seed, index])
    length = int(random.integers(lengths[0], lengths[1] + 1))
    return TASKS[task](random.integers(FIRST, FIRST + n_symbols, length).tolist())
