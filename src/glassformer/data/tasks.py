"""Synthetic tasks that a Transformer can learn perfectly.

Symbols are the ids from `FIRST` on; lower ids are the special tokens. Each example is a pure
function of (seed, index), the same on every machine.
"""

from collections.abc import Callable

import numpy as np

from glassformer.data.tokenizer import EOS, PAD
from glassformer.errors import DataError, did_you_mean

FIRST = EOS + 1
Ids = list[int]


def copy(symbols: Ids) -> tuple[Ids, Ids]:
    """Return the sequence itself."""
    return symbols, symbols


def reverse(symbols: Ids) -> tuple[Ids, Ids]:
    """Return the sequence reversed: each position attends to its mirror position."""
    return symbols, symbols[::-1]


def sort(symbols: Ids) -> tuple[Ids, Ids]:
    """Return the sequence sorted: every position depends on all others."""
    return symbols, sorted(symbols)


def recall(symbols: Ids) -> tuple[Ids, Ids]:
    """Return pairs of key and value followed by keys, whose labels are their values.

    This is associative recall. The value of a repeated key is its latest.
    """
    keys, values = symbols[0::2], symbols[1::2]
    latest = dict(zip(keys, values, strict=False))
    queries = list(latest)[::-1]
    context = [symbol for pair in zip(keys, values, strict=False) for symbol in pair]
    return context + queries, [PAD] * len(context) + [latest[key] for key in queries]


TASKS: dict[str, Callable[[Ids], tuple[Ids, Ids]]] = {
    "copy": copy,
    "reverse": reverse,
    "sort": sort,
    "recall": recall,
}


def example(
    task: str, seed: int, index: int, n_symbols: int = 20, lengths: tuple[int, int] = (2, 32)
) -> tuple[Ids, Ids]:
    """Return source and labels, one label per source token; PAD where there is no label.

    A tagger predicts the labels in place; the target of a translator is the labels without PAD.
    """
    if task not in TASKS:
        raise DataError(
            f"Unknown task {task!r}.",
            f"The tasks are {', '.join(TASKS)}.",
            did_you_mean(task, TASKS, "Take one of these."),
        )
    random = np.random.default_rng([seed, index])
    length = int(random.integers(lengths[0], lengths[1] + 1))
    return TASKS[task](random.integers(FIRST, FIRST + n_symbols, length).tolist())
