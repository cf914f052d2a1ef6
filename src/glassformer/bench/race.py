"""A race of engines that decode: their turns, what they said, how fast they were."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
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
    Engine,
    Ids,
    Lengths,
)
from glassformer.bench.harness import Row, Table, Tick, interleave
from glassformer.checkpoint import Checkpoint

T = TypeVar("T")
TIE = 1e-3  # logits so near each other may be ranked either way in fp32


class Cell(NamedTuple):
    """One way of asking."""

    batch: int
    beam: int

    def __str__(self) -> str:
        return f"batch {self.batch}, {'greedy' if self.beam == 1 else f'beam {self.beam}'}"


@dataclass
class Turn:
    """One contender's work in one cell, what it said and how long it took at best."""

    engine: Engine
    batches: list[Ids]
    beam: int
    lengths: Lengths
    said: Ids = field(default_factory=list)
    seconds: float = 0.0

    def __call__(self) -> None:
        answers = (self.engine(batch, self.beam, self.lengths) for batch in self.batches)
        self.said = [ids for batch in answers for ids in batch]

    @property
    def speed(self) -> float:
        """Tokens per second, the end mark not counted."""
        return sum(map(len, self.said)) / self.seconds


Turns = dict[str, Turn]


def race(
    contenders: dict[str, Engine],
    sources: Ids,
    cell: Cell,
    lengths: Lengths,
    rounds: int,
    slow_sentences: int,
    tick: Tick,
) -> Turns:
    batches = [sources[i : i + cell.batch] for i in range(0, len(sources), cell.batch)]
    few = spread(batches, ceil(slow_sentences / cell.batch))
    turns = {
        name: Turn(engine, few if name == MARIAN else batches, cell.beam, lengths)
        for name, engine in contenders.items()
        if engines.takes_part(name, cell.batch)
    }
    for name, seconds in interleave(dict(turns), rounds, tick).items():
        turns[name].seconds = seconds
    return turns


def spread(items: list[T], n: int) -> list[T]:
    """About n of the items, evenly from all over the list."""
    n = min(n, len(items))
    return [items[(2 * i + 1) * len(items) // (2 * n)] for i in range(n)]


@torch.inference_mode()
def check_same_text(
    saved: Checkpoint, contenders: dict[str, Engine], sources: Ids, lengths: Lengths
) -> None:
    """A race between models that compute different things would prove nothing.

    In fp32 all must say the same, greedily, up to where two tokens are as good as equal.
    """
    model = engines.model_of(saved)
    expected = contenders[FP32](sources, 1, lengths)
    for name in PRECISE:
        said = contenders[name](sources, 1, lengths) if name in contenders else expected
        for source, ours, theirs in zip(sources, expected, said, strict=True):
            if ours != theirs:
                pairs = list(zip([*ours, EOS], [*theirs, EOS], strict=False))
                at = next(i for i, (one, other) in enumerate(pairs) if one != other)
                before = torch.tensor([[BOS, *ours[:at]]])
                logits = model(torch.tensor([source]), before)[0, -1]
                one, other = logits[list(pairs[at])].tolist()
                assert abs(one - other) < TIE, f"{name} says {theirs}, {FP32} {ours}, to {source}"


def speed_table(title: str, races: dict[Cell, Turns]) -> Table:
    rows: list[Row] = []
    for cell, turns in races.items():
        best = fastest(turns, OURS)
        rows += [[str(cell), n, round(t.speed), best / t.speed] for n, t in turns.items()]
    return Table(title, ["cell", "contender", "tokens/s", "best of ours ÷ it"], rows)


def fastest(turns: Turns, names: Sequence[str]) -> float:
    return max(turns[name].speed for name in names)


def goal_table(races: dict[Cell, Turns]) -> Table:
    """What the project has set itself, and whether it is so here."""
    rows: list[Row] = []
    for cell, turns in races.items():
        ours = fastest(turns, OURS)
        best = ours / fastest(turns, CTRANSLATE2)
        fp32 = turns[FP32].speed / turns[THEIR_FP32].speed
        rows.append([str(cell), "best ÷ best of CTranslate2", best, "≥ 1.5", yes(best >= 1.5)])
        if all(name in turns for name in WITH_WORKERS):
            parted = ours / fastest(turns, WITH_WORKERS)
            rows.append([str(cell), "the same, a worker on each of its threads", parted, "–", "–"])
        rows.append([str(cell), "fp32 ÷ CTranslate2 fp32", fp32, "> 1", yes(fp32 > 1)])
        if MARIAN in turns:
            slow = ours / turns[MARIAN].speed
            rows.append([str(cell), "best ÷ Hugging Face", slow, "≥ 4", yes(slow >= 4)])
    return Table("Goals", ["cell", "ratio", "measured", "goal", "met"], rows)


def yes(met: bool) -> str:
    return "yes" if met else "no"


def ratios_of(races: dict[Cell, Turns]) -> dict[str, float]:
    """To the best peer, in every cell."""
    peers = {cell: [n for n in turns if n not in OURS] for cell, turns in races.items()}
    return {str(c): fastest(t, OURS) / fastest(t, peers[c]) for c, t in races.items()}
