"""The batches of a run: every example once an epoch, shared by processes, from any position."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.batch import Batch
from glassformer.data.batching import TokenBatches
from glassformer.data.ragged import Ragged
from glassformer.errors import TrainingError
from glassformer.train.batches import reading
from glassformer.train.distributed import ALONE, World
from glassformer.train.run import Run
from glassformer.train.start import start
from train.runs import ending_with_others, tiny, trained, unexpected


def updates_of(run: Run) -> Iterator[tuple[int, int, list[Batch]]]:
    """(epoch, where it then stands, batches) of each update."""
    for batches in reading(run):
        yield run.position.epoch, run.position.batch, batches


def taken(world: World, accumulate: int, count: int, **position: int) -> list[Any]:
    """(epoch, where it then stands, batches) of the first updates of one of many processes."""
    run = start(tiny(train={"accumulate": accumulate}), Path("unused"), ALONE, False, unexpected)
    run.world = world
    for name, value in position.items():
        setattr(run.position, name, value)
    return list(islice(updates_of(run), count))


def texts(batches: list[Batch]) -> list[Any]:
    return [batch.inputs[0].tolist() for batch in batches]


@pytest.mark.parametrize(("size", "accumulate"), [(2, 1), (2, 2), (3, 1)])
def test_many_processes_share_out_the_batches_of_one(size: int, accumulate: int) -> None:
    alone = taken(ALONE, size * accumulate, 4)
    ranks = [taken(World(rank, size), accumulate, 4) for rank in range(size)]
    for update, parts in zip(alone, zip(*ranks, strict=True), strict=True):
        assert all(part[:2] == update[:2] for part in parts)
        shared = [texts(part[2]) for part in parts]
        in_turn = [shared[i % size][i // size] for i in range(size * accumulate)]
        assert in_turn == texts(update[2])


def test_an_epoch_sees_every_example_once_and_the_next_in_another_order() -> None:
    data = tiny()
    order = TokenBatches(data.train.lengths, 64, data.settings.train.seed)
    per_epoch = len(order.epoch(0))
    seen = taken(ALONE, 1, 2 * per_epoch)
    assert [epoch for epoch, _, _ in seen] == [0] * per_epoch + [1] * per_epoch
    assert [end for _, end, _ in seen] == [*range(1, per_epoch + 1)] * 2
    first, second = seen[:per_epoch], seen[per_epoch:]
    rows = [[row for u in epoch for row in texts(u[2])[0]] for epoch in (first, second)]
    stripped = [sorted([i for i in row if i] for row in epoch) for epoch in rows]
    assert stripped[0] == stripped[1] and len(stripped[0]) == len(data.train)
    assert rows[0] != rows[1]


@pytest.mark.parametrize("done", [1, 5, 6, 7])
def test_updates_go_on_from_wherever_a_run_stands(done: int) -> None:
    whole = taken(ALONE, 1, 10)
    epoch, batch, _ = whole[done - 1]
    rest = taken(ALONE, 1, 10 - done, epoch=epoch, batch=batch)
    assert [texts(u[2]) for u in rest] == [texts(u[2]) for u in whole[done:]]
    assert [u[:2] for u in rest] == [u[:2] for u in whole[done:]]


def test_each_epoch_draws_its_subwords_anew_and_is_cut_by_their_lengths() -> None:
    data, seeds = tiny(), []

    def redraw(seed: int) -> tuple[Ragged, ...]:
        seeds.append(seed)
        return tuple(Ragged.of([[5]] * len(data.train)) for _ in data.train.sides)

    drawn = replace(data, train=replace(data.train, redraw=redraw))
    run = start(drawn, Path("unused"), ALONE, False, unexpected)
    taken = list(islice(updates_of(run), 5))
    assert len(set(seeds)) == len(seeds) == len({epoch for epoch, _, _ in taken}) > 1
    budget = data.settings.data.batch_tokens
    widest = max(batch.inputs[0].numel() for _, _, batches in taken for batch in batches)
    assert budget - 2 < widest <= budget  # full batches of two tokens each


def read_by(run: Run, count: int) -> list[list[Any]]:
    """The texts of the updates of a run whose updates do nothing else."""
    seen = []
    for batches in islice(reading(run), count):
        run.position.step += 1
        run.position.seconds += 6.0
        seen.append(texts(batches))
    return seen


@pytest.mark.parametrize("limits", [{"max_steps": 20}, {"max_steps": 900, "max_minutes": 2}])
def test_the_end_of_a_run_reads_its_final_text_from_the_beginning(limits: dict[str, Any]) -> None:
    data = ending_with_others(tiny(train=limits), share=0.4)
    run = start(data, Path("unused"), ALONE, False, unexpected)
    seen = read_by(run, 20)
    plain = start(replace(data, final=None), Path("unused"), ALONE, False, unexpected)
    assert seen[:12] == read_by(plain, 12) and run.position.final
    assert data.final is not None
    ends = replace(data, train=data.final)
    other = start(ends, Path("unused"), ALONE, False, unexpected)
    other.position.epoch = plain.position.epoch + 1
    *_, (epoch, batch, _) = expected = list(islice(updates_of(other), 8))
    assert seen[12:] == [texts(batches) for _, _, batches in expected]
    assert (run.position.epoch, run.position.batch) == (epoch, batch)


def test_an_update_that_an_epoch_cannot_fill_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="has 6 batches, one update takes 7") as caught:
        trained(tiny(train={"accumulate": 7}), tmp_path)
    assert "train.accumulate" in caught.value.remedy
