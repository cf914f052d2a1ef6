"""Contenders that decode the same batches in turns: their speed, their outputs, their ratios."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, inf
from typing import NamedTuple, TypeVar

import torch

from glassformer.bench import engines
from glassformer.bench.engines import (
    BOS,
    CTRANSLATE2,
    EOS,
    FP32,
    MARIAN,
    OURS,
    PRECISE,
    THEIR_FP32,
    WITH_WORKERS,
    WORKERS,
    Contender,
    Ids,
)
from glassformer.checkpoint import Checkpoint
from glassformer.evaluate.card import Row, Table
from glassformer.measure import Tick, best_of_rounds

T = TypeVar("T")
TIE = 1e-3  # logits so close may be ranked either way in fp32
PAUSE = 0.25  # seconds between turns: idle OpenMP threads keep a core busy for 0.2 s


class Cell(NamedTuple):
    batch: int
    beam: int

    def __str__(self) -> str:
        return f"batch {self.batch}, {'greedy' if self.beam == 1 else f'beam {self.beam}'}"


@dataclass
class Result:
    """The output of a contender for some batches, and the seconds of its best round."""

    batches: list[Ids]
    outputs: Ids
    seconds: float = inf

    @property
    def speed(self) -> float:
        """Output tokens per second, end marks not counted."""
        return self.tokens / self.seconds

    @property
    def tokens(self) -> int:
        return sum(map(len, self.outputs))


Results = dict[str, Result]


def race(
    contenders: dict[str, Contender],
    sources: Ids,
    cell: Cell,
    longest: int,
    rounds: int,
    slow_sentences: int,
    tick: Tick,
    pause: float = PAUSE,
) -> Results:
    """Return the results of each contender; Hugging Face decodes a part of the batches only."""
    batches = [sources[i : i + cell.batch] for i in range(0, len(sources), cell.batch)]
    few = spread(batches, ceil(slow_sentences / cell.batch))
    results: Results = {}

    def turn(name: str) -> float:
        mine = few if name == MARIAN else batches
        seconds, outputs = contenders[name](mine, cell.beam, longest)
        results.setdefault(name, Result(mine, outputs))
        return seconds

    turns = {n: partial(turn, n) for n in contenders if engines.takes_part(n, cell.batch)}
    for name, seconds in best_of_rounds(turns, rounds, tick, pause=pause).items():
        results[name].seconds = seconds
    return results


def spread(items: list[T], n: int) -> list[T]:
    """Return about n of the items, evenly spaced."""
    n = min(n, len(items))
    return [items[(2 * i + 1) * len(items) // (2 * n)] for i in range(n)]


@torch.inference_mode()
def check_same_text(
    saved: Checkpoint, contenders: dict[str, Contender], sources: Ids, longest: int
) -> None:
    """Check that contenders compute the same: in fp32, greedy outputs are equal up to ties."""
    model = engines.torch_translator(saved)
    _, expected = contenders[FP32]([sources], 1, longest)
    for name in PRECISE:
        _, found = contenders[name]([sources], 1, longest) if name in contenders else (0, expected)
        for source, ours, theirs in zip(sources, expected, found, strict=True):
            if ours != theirs:
                pairs = list(zip([*ours, EOS], [*theirs, EOS], strict=False))
                at = next(i for i, (one, other) in enumerate(pairs) if one != other)
                prefix = torch.tensor([[BOS, *ours[:at]]])
                logits = model(torch.tensor([source]), prefix)[0, -1]
                one, other = logits[list(pairs[at])].tolist()
                assert abs(one - other) < TIE, f"{name}: {theirs}, {FP32}: {ours}, for {source}"


def fastest(results: Results, names: Sequence[str]) -> float:
    return max(results[name].speed for name in names if name in results)


def ratios_of(results: Results) -> dict[str, float]:
    """Return the ratios of one cell, each to the best configuration of a peer."""
    ours = fastest(results, OURS)
    theirs = fastest(results, (THEIR_FP32, THEIR_FP32 + WORKERS))
    ratios = {
        "best ÷ best of CTranslate2": ours / fastest(results, (*CTRANSLATE2, *WITH_WORKERS)),
        "fp32 ÷ fp32 of CTranslate2": results[FP32].speed / theirs,
    }
    if MARIAN in results:
        ratios["best ÷ Hugging Face"] = ours / results[MARIAN].speed
    return ratios


def ratio_table(title: str, races: dict[Cell, Results]) -> Table:
    ratios = {cell: ratios_of(results) for cell, results in races.items()}
    columns = list(next(iter(ratios.values())))
    rows: list[Row] = [[str(cell), *of_cell.values()] for cell, of_cell in ratios.items()]
    return Table(title, ["cell", *columns], rows)
