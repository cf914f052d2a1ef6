"""Position schemes on sequences longer than those of training."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from glassformer.data import tasks
from glassformer.data.batch import Examples
from glassformer.data.ragged import Ragged
from glassformer.data.tasks import Ids
from glassformer.data.tokenizer import PAD
from glassformer.lab.drawing import line, log2_axis
from glassformer.lab.experiment import (
    Arm,
    Budget,
    Experiment,
    Measurement,
    Results,
    Tick,
    Value,
    Verdict,
)
from glassformer.lab.learning import Plan, Task, accuracy, small_model, train
from glassformer.lab.trials import run_trials

SCHEMES = ("none", "sinusoidal", "learned", "rope", "alibi", "relative", "relative-bucketed")
CLAIMED = "sinusoidal"
BACK = 3  # positions
# Percent accuracy at the trained length and beyond it. Chance is 6% (16 symbols).
LEARNED, EXTRAPOLATED = 95.0, 90.0
ACCURACY = "accuracy, %"
PLAN = Plan(
    steps=300, rate=3e-3, warmup=20, schedule="linear", optimizer="muon", validate_every=300
)


def back(symbols: Ids) -> Ids:
    """Label each position with the symbol three positions before."""
    return [PAD] * BACK + symbols[:-BACK]


def first(symbols: Ids) -> Ids:
    """Label each position but the first with the first symbol."""
    return [PAD] + symbols[:1] * (len(symbols) - 1)


@dataclass(frozen=True)
class Order(Task):
    """Random symbols whose labels depend on order alone."""

    label: Callable[[Ids], Ids] = back

    def examples(self, seed: int, first: int, count: int) -> Examples:
        numbers = range(first, first + count)
        drawn = [tasks.example("copy", seed, i, self.symbols, self.lengths)[0] for i in numbers]
        return Examples(self.kind, (Ragged.of(drawn), Ragged.of([self.label(s) for s in drawn])))


# A language model takes the labels of a tagger and is causal.
TASKS: dict[str, tuple[Callable[[Ids], Ids], str]] = {
    "symbol 3 back": (back, "tagger"),
    "symbol 3 back, causal": (back, "language-model"),
    "first symbol": (first, "tagger"),
}


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    label, kind = TASKS[str(arm["task"])]
    longest, *beyond = (8, 16, 32) if quick else (32, 64, 128, 256)
    task = Order(symbols=8 if quick else 16, lengths=(BACK + 1, longest), label=label)
    torch.manual_seed(seed)
    model = small_model(
        task,
        kind=kind,
        d_model=64,
        d_ff=128,
        n_heads=4,
        positions=arm["positions"],
        max_positions=max(beyond),  # rows of the learned table, trained or not
    )
    train(model, task, replace(PLAN, steps=120) if quick else PLAN, seed)
    for length in (longest, *beyond):
        percent = accuracy(model, replace(task, lengths=(length, length)).held_out(64))
        yield Measurement({**arm, "length": length}, seed, ACCURACY, percent)


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    schemes = ("none", CLAIMED, "rope") if budget.quick else SCHEMES
    chosen = list(TASKS)[:1] if budget.quick else list(TASKS)
    arms: list[Arm] = [{"task": task, "positions": p} for task in chosen for p in schemes]
    return run_trials(trial, arms, budget, tick)


def judge(results: Results) -> Verdict:
    lengths = sorted(int(n) for n in results.choices("length"))
    reach = {str(task): _reach(results, str(task), lengths) for task in results.choices("task")}
    learned = {found for found in reach.values() if found != "not learned"}
    if learned == {"all"}:
        reason = "Sinusoidal positions keep their accuracy at every length, on each learned task."
        return Verdict("supported", reason)
    if learned == {"none"}:
        reason = (
            "Sinusoidal positions lose their accuracy at the first longer length on every task."
        )
        return Verdict("not supported", reason)
    listed = "; ".join(f"{task}: {found}" for task, found in reach.items())
    return Verdict("depends", f"Longer lengths at which sinusoidal positions still work: {listed}.")


def _reach(results: Results, task: str, lengths: list[int]) -> str:
    """Return at which lengths beyond the trained one sinusoidal positions keep their accuracy."""
    trained, *beyond = (
        results.summary(ACCURACY, task=task, positions=CLAIMED, length=n) for n in lengths
    )
    if trained.mean < LEARNED:
        return "not learned"
    if all(summary.above(EXTRAPOLATED) for summary in beyond):
        return "all"
    return "none" if beyond[0].below(EXTRAPOLATED) else "some"


def draw(results: Results, figure: Any) -> None:
    names = results.choices("task")
    plots = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, task in zip(plots, names, strict=True):
        for number, scheme in enumerate(results.choices("positions")):
            arm: dict[str, Value] = {"task": task, "positions": scheme}
            line(axes, results, ACCURACY, "length", str(scheme), f"C{number}", "o-", **arm)
        axes.axvline(results.choices("length")[0], color="grey", ls=":")  # longest in training
        axes.set_title(str(task), fontsize=10)
        axes.set_xlabel("length")
        log2_axis(axes, results.choices("length"))
    plots[0].set_ylabel("accuracy, % (dotted: longest in training)")
    plots[0].legend(fontsize=7)


EXPERIMENT = Experiment(
    name="positions",
    title="Positions beyond the trained length",
    claim="Sinusoidal positions may let a model extrapolate to lengths beyond those of training.",
    source="Attention Is All You Need, §3.5",
    varied="the position scheme and the task, each of which depends on order alone: the symbol "
    "three positions back, in an encoder and in a causal stack, and the first symbol",
    measured="accuracy at length 32, the longest in training, and at 64, 128 and 256",
    rule="A task is learned with 95% accuracy at the trained length. Supported if, on every "
    "learned task, the 95% interval lies above 90% at all longer lengths; not supported if, on "
    "every learned task, it lies below 90% at the first longer length; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
)
