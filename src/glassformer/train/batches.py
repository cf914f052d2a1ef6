"""The batches of a run: those of each update for this process, on its device."""

from collections.abc import Iterator

import torch

from glassformer.data.batch import Batch, prefetch
from glassformer.data.batching import TokenBatches, draw_seed
from glassformer.errors import TrainingError
from glassformer.train.run import Run, last_step


def reading(run: Run) -> Iterator[list[Batch]]:
    """Yield this process's batches of each update, at the end of the run from the final text.

    The final text begins at an update that all processes agree on, with an epoch of its own.
    """
    at = run.position
    while True:
        if at.batch == 0:  # else a resumed epoch goes on, unless it is cut short below
            at.final = at.final or is_time_for_final(run)
        for batch, batches in prefetch(on_device(updates(run), run.world.device)):
            if is_time_for_final(run):
                at.final = True
                break
            at.batch = batch
            yield batches
        at.epoch, at.batch, at.progress = at.epoch + 1, 0, min(1.0, at.step / last_step(run))


def is_time_for_final(run: Run) -> bool:
    """Return whether the final text begins: by updates or by time, whichever ends the run."""
    if run.data.final is None or run.position.final:
        return False
    return run.position.step >= (1 - run.settings.data.final_share) * last_step(run)


def updates(run: Run) -> Iterator[tuple[int, list[Batch]]]:
    """Yield the number of the last batch of each update, and this process's batches.

    They go from the run's position to the end of the epoch. An update takes `accumulate` batches
    from every process; a rest of the epoch that is too small for an update is left out.
    """
    data, s, world, at = run.settings.data, run.settings.train, run.world, run.position
    size, epoch = s.accumulate * world.size, at.epoch
    text = (run.data.final if at.final else None) or run.data.train
    examples = text.epoch(s.seed, epoch, at.progress)
    batches = TokenBatches(examples.lengths, data.batch_tokens, s.seed).epoch(epoch)
    if len(batches) < size:
        raise TrainingError(
            f"An epoch has {len(batches)} batches, one update takes {size}.",
            "An update takes train.accumulate batches from every process.",
            "Lower train.accumulate or data.batch_tokens, or start fewer processes.",
        )
    for end in range(at.batch + size, len(batches) + 1, size):
        mine = range(end - size + world.rank, end, world.size)
        yield end, [examples.batch(batches[i], draw_seed(s.seed, epoch, i)) for i in mine]


def on_device(
    updates: Iterator[tuple[int, list[Batch]]], device: torch.device
) -> Iterator[tuple[int, list[Batch]]]:
    """Copy the batches to the device; `prefetch` does so one update ahead."""
    for end, batches in updates:
        yield end, [batch.to(device) for batch in batches]
