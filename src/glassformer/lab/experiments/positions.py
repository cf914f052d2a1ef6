"""Position schemes on sequences longer than any they were trained on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from glassformer.data import tasks
from glassformer.data.batch import Examples
from glassformer.data.ragged import Ragged
from glassformer.data.tasks import Ids
from glassformer.data.tokenizer import PAD
from glassformer.lab.axes import doublings
from glassformer.lab.drawing import line
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
from glassformer.lab.judging import above, below
from glassformer.lab.learning import Plan, Task, accuracy, learn, small
from glassformer.lab.report import cell
from glassformer.lab.trials import over

SCHEMES = ("none", "sinusoidal", "learned", "rope", "alibi", "relative", "relative-bucketed")
CLAIMED = "sinusoidal"
BACK = 3
LEARNED, REACHED = 95.0, 90.0  # percent of labels right: at the trained length, and beyond
RIGHT = "labels right, %"
PLAN = Plan(steps=300, rate=3e-3, warmup=20, schedule="linear", optimizer="muon", look_every=300)


def back(symbols: Ids) -> Ids:
    """What stood three places before."""
    return [PAD] * BACK + symbols[:-BACK]


def first(symbols: Ids) -> Ids:
    """What stood at the very beginning, whose own place asks nothing."""
    return [PAD] + symbols[:1] * (len(symbols) - 1)


@dataclass(frozen=True)
class Order(Task):
    """Symbols drawn at random, each labelled with another, which only its place can tell."""

    answer: Callable[[Ids], Ids] = back

    def examples(self, seed: int, first: int, count: int) -> Examples:
        numbers = range(first, first + count)
        drawn = [tasks.example("copy", seed, i, self.symbols, self.lengths)[0] for i in numbers]
        return Examples(self.kind, (Ragged.of(drawn), Ragged.of([self.answer(s) for s in drawn])))


# A language model is asked like a tagger, and sees what came before only: it is a causal one.
TASKS: dict[str, tuple[Callable[[Ids], Ids], str]] = {
    "three back": (back, "tagger"),
    "three back, causal": (back, "language-model"),
    "the first": (first, "tagger"),
}


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    answer, kind = TASKS[str(arm["task"])]
    longest, *beyond = (8, 16, 32) if quick else (32, 64, 128, 256)
    task = Order(symbols=8 if quick else 16, lengths=(BACK + 1, longest), answer=answer)
    torch.manual_seed(seed)
    model = small(
        task,
        kind=kind,
        d_model=64,
        d_ff=128,
        n_heads=4,
        positions=arm["positions"],
        max_positions=max(beyond),  # a learned table has rows for all, trained or not
    )
    learn(model, task, replace(PLAN, steps=120) if quick else PLAN, seed)
    for length in (longest, *beyond):
        right = accuracy(model, replace(task, lengths=(length, length)).held_out(64))
        yield Measurement({**arm, "length": length}, seed, RIGHT, right)


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    schemes = ("none", CLAIMED, "rope") if budget.quick else SCHEMES
    chosen = list(TASKS)[:1] if budget.quick else list(TASKS)
    arms: list[Arm] = [{"task": task, "positions": p} for task in chosen for p in schemes]
    return over(trial, arms, budget, tick)


def judge(results: Results) -> Verdict:
    lengths = sorted(int(n) for n in results.choices("length"))
    found = {str(task): _reach(results, str(task), lengths) for task in results.choices("task")}
    told = "; ".join(
        f"{task}: "
        + ", ".join(
            f"{cell(results.summary(RIGHT, task=task, positions=CLAIMED, length=n))} at {n}"
            for n in lengths
        )
        for task in found
    )
    because = f"Percent right of {CLAIMED} positions, trained to {lengths[0]}: {told}. " + _others(
        results, lengths
    )
    counted = {reach for reach in found.values() if reach != "not learned"}
    if counted == {"far"}:
        return Verdict("supported", because)
    if counted == {"nowhere"}:
        return Verdict("not supported", because)
    reached = "; ".join(f"{task}: {reach}" for task, reach in found.items())
    return Verdict("depends", f"{because} How far they reach, {reached}.")


def _reach(results: Results, task: str, lengths: list[int]) -> str:
    """How far beyond the trained length the claim carries on one task."""
    trained, *beyond = (
        results.summary(RIGHT, task=task, positions=CLAIMED, length=n) for n in lengths
    )
    if trained.mean < LEARNED:
        return "not learned"
    if all(above(summary, REACHED) for summary in beyond):
        return "far"
    return "nowhere" if below(beyond[0], REACHED) else "somewhat"


def _others(results: Results, lengths: list[int]) -> str:
    """Which schemes do reach the longest, task by task."""
    told = []
    for task in results.choices("task"):
        able = [
            str(scheme)
            for scheme in results.choices("positions")
            if above(
                results.summary(RIGHT, task=task, positions=scheme, length=lengths[-1]), REACHED
            )
        ]
        told.append(f"{task}: {', '.join(able) or 'none'}")
    return f"Above {REACHED:g}% at {lengths[-1]}, {'; '.join(told)}."


def draw(results: Results, figure: Any) -> None:
    names = results.choices("task")
    plots = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, task in zip(plots, names, strict=True):
        for number, scheme in enumerate(results.choices("positions")):
            arm: dict[str, Value] = {"task": task, "positions": scheme}
            line(axes, results, RIGHT, "length", str(scheme), f"C{number}", "o-", **arm)
        axes.axvline(results.choices("length")[0], color="grey", ls=":")  # trained up to here
        axes.set_title(str(task), fontsize=10)
        axes.set_xlabel("length")
        doublings(axes, results.choices("length"))
    plots[0].set_ylabel("labels right, % (dotted: the longest trained on)")
    plots[0].legend(fontsize=7)


EXPERIMENT = Experiment(
    name="positions",
    title="Positions beyond the trained length",
    claim="Sinusoidal positions may let a model reach lengths that it never saw in training.",
    source="Attention Is All You Need, §3.5",
    varied="the position scheme and the task, all of which only order can answer: the symbol three "
    "places back, in an encoder and in a causal stack, and the first symbol of all",
    measured="labels right at length 32, up to which was trained, and at 64, 128 and 256",
    rule="On a task that is learned (95% right at the trained length), sinusoids reach far if the "
    "95% interval of labels right lies above 90% at every greater length, and nowhere if it lies "
    "below 90% at the first of these. Supported if they reach far on every learned task; not "
    "supported if they reach nowhere on every one; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
)
