"""The memory of a search, estimated from its settings before it starts."""

from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import TypeVar

from glassformer.config import ModelSettings
from glassformer.decode.options import SearchOptions
from glassformer.decode.search import output_limits
from glassformer.errors import InputError

T = TypeVar("T")
SMALL = 2**28  # bytes that are not worth asking the system about: 256 MB
FLOAT, DOUBLE = 4, 8  # bytes


def search_bytes(
    model: ModelSettings, options: SearchOptions, sources: Sequence[int], prefixes: Sequence[int]
) -> int:
    """Return the bytes of a search of a batch whose answers have the greatest length.

    `sources` and `prefixes` are numbers of tokens; a language model reads its prefixes only.
    """
    read = list(sources) or list(prefixes)
    least = max(max(prefixes, default=0), options.min_length) + 1
    longest = options.max_length or max(least, int(output_limits(max(read, default=0))))
    rows, width = len(read) * options.width, options.width
    key_width = model.d_model // model.n_heads * (model.n_kv_heads or model.n_heads)
    cached = 2 * FLOAT * model.decoder_layers * key_width
    keys = cached * (rows * (longest + 1) + sum(sources))
    history = 2 * FLOAT * rows * longest
    candidates = (FLOAT + DOUBLE) * rows * 2 * width
    per_logit = 4 * DOUBLE if options.sample else FLOAT  # sampling sorts and sums them
    return keys + history + candidates + per_logit * rows * model.vocab_size


def available_memory() -> float:
    """Return the bytes of free memory, without swapping; inf: unknown."""
    info, free = Path("/proc/meminfo"), [inf]
    if info.exists():
        lines = info.read_text().splitlines()
        free += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    group = Path("/sys/fs/cgroup")  # of a container
    limit = group / "memory.max"
    if limit.exists() and (most := limit.read_text().strip()) != "max":
        counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        used = int((group / "memory.current").read_text()) - int(counts["inactive_file"])
        free.append(int(most) - used)  # the cache of files gives way
    return min(free)


def answer_within_memory(
    indices: list[int],
    needs: Callable[[list[int]], int],
    answer: Callable[[list[int]], list[T]],
) -> list[T]:
    """Answer a batch, in halves if memory is short; refuse a single text that does not fit."""
    needed = needs(indices)
    if needed <= SMALL or needed <= (available := available_memory()):
        return answer(indices)
    if len(indices) == 1:
        raise InputError(
            f"The search of one text may take {needed / 1e9:,.1f} GB.",
            f"{available / 1e9:,.1f} GB of memory are free. "
            "The need grows with the number of hypotheses times the greatest length.",
            "Use a smaller beam_size, n_best, min_length or max_length.",
        )
    half = len(indices) // 2
    parts = indices[:half], indices[half:]
    return [one for part in parts for one in answer_within_memory(part, needs, answer)]
