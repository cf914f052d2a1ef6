"""Run an experiment of the lab in one call."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.api.train import own_torch_state
from glassformer.extras import require_torch
from glassformer.progress import progress as show_progress

if TYPE_CHECKING:
    from glassformer.lab.experiment import Experiment
    from glassformer.lab.finding import Finding


def lab(
    name: str | Path,
    *,
    quick: bool = False,
    seeds: int | None = None,
    threads: int | None = None,
    device: str = "cpu",
    output: str | Path | None = None,
    command: str = "glassformer.lab(...)",
    progress: bool = True,
) -> "Finding":
    """Measure what a claim is about and judge it by its rule; `glassformer lab run`.

        finding = gf.lab("scaling", quick=True)
        print(finding.outcome, finding.verdict.because)

    name      an experiment of `glassformer lab list`, or a file of your own (.py).
    quick     use toy sizes, to test an experiment in seconds.
    seeds     runs of each arm. None: the experiment's own number; 2 with `quick`.
    threads   runs at the same time. None: 2, as far as there are cores; 1 with `quick`.
    device    of the models that learn: auto, cpu, cuda, cuda:1 or mps. Experiments that measure
              time and memory measure the CPU's.
    output    folder for NAME.json and NAME.svg. None: nothing is written.
    command   the text that the result quotes as its origin.
    """
    require_torch("glassformer.lab")
    from glassformer.lab import experiments

    place = None if output is None else Path(output)
    experiment = experiments.find(str(name))
    return carry_out(experiment, quick, seeds, threads, device, place, command, progress)


def carry_out(
    experiment: "Experiment",
    quick: bool,
    seeds: int | None,
    threads: int | None,
    device: str,
    output: Path | None,
    command: str,
    progress: bool,
) -> "Finding":
    """Run an experiment; `lab` explains the arguments."""
    import torch

    from glassformer.device import resolve
    from glassformer.lab import finding
    from glassformer.lab.experiment import Budget
    from glassformer.machine import machine

    count = seeds or (2 if quick else experiment.seeds)
    at_once = threads or (1 if quick else min(2, os.cpu_count() or 1))
    chosen = resolve(device)
    budget = Budget(quick, tuple(range(count)), at_once, str(chosen))
    with own_torch_state(chosen):
        torch.set_num_threads(at_once)
        with show_progress(experiment.name, 100, progress) as tick:
            found = finding.run(experiment, budget, command, machine(), _shares(tick))
    if output is not None:
        from glassformer.lab.report import draw, tables

        path = output / f"{experiment.name}.json"
        finding.save(found, path, tables(found))
        draw(experiment, found, path.with_suffix(".svg"))
    return found


def _shares(tick: Callable[[], None]) -> Callable[[float], None]:
    """Return a function that takes the share done and ticks a bar of a hundred steps."""
    done = 0

    def told(share: float) -> None:
        nonlocal done
        while done < int(100 * share + 1e-9):
            tick()
            done += 1

    return told
