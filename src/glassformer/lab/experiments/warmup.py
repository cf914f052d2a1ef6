"""Warm-up: does the learning rate have to climb before it is high?"""

from collections.abc import Iterator
from math import inf
from typing import Any

import torch

from glassformer.lab.drawing import COLOURS, line
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
from glassformer.lab.learning import Plan, Task, learn, small
from glassformer.lab.report import cell
from glassformer.lab.trials import over

# Every position depends on all the others, and half of the way is gone in a few dozen steps.
TASK = Task("sort", symbols=10, lengths=(8, 8))
DEPTH, STEPS = 6, 150
RESIDUALS, RATES = ("post-norm", "pre-norm"), (1e-3, 3e-3, 1e-2, 3e-2)
WARMUP = "warm-up"
RIGHT, NORM, DIVERGED = "labels right, %", "greatest gradient norm", "diverged"


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    torch.manual_seed(seed)
    model = small(TASK, residual=arm["residual"], encoder_layers=DEPTH)
    steps = 45 if quick else STEPS
    plan = Plan(
        steps=steps,
        batch=32 if quick else 64,
        rate=float(arm["rate"]),
        warmup=steps // 3 if arm[WARMUP] == "yes" else 0,
        look_every=steps,
    )
    learned = learn(model, TASK, plan, seed)
    yield Measurement(arm, seed, RIGHT, learned.accuracy)
    yield Measurement(arm, seed, NORM, max(learned.norms, default=inf))
    yield Measurement(arm, seed, DIVERGED, float(learned.diverged))


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    rates = (3e-3, 1e-2) if budget.quick else RATES
    arms: list[Arm] = [
        {"residual": residual, "rate": rate, WARMUP: warmup}
        for residual in RESIDUALS
        for rate in rates
        for warmup in ("yes", "no")
    ]
    return over(trial, arms, budget, tick)


def judge(results: Results) -> Verdict:
    residuals = results.choices("residual")
    found = {r: results.compare(RIGHT, *_sides(residual=r)) for r in residuals}
    because = ". ".join(_told(results, r) for r in residuals) + "."
    if set(found.values()) == {"more"}:
        return Verdict("supported", because)
    if "more" not in found.values():
        return Verdict("not supported", f"{because} With warm-up nothing is certainly better.")
    better = ", ".join(str(r) for r, how in found.items() if how == "more")
    return Verdict("depends", f"{because} Certainly better with warm-up: {better}.")


def _sides(**model: Value) -> tuple[Arm, Arm]:
    """With warm-up and without; of all rates, if none is named."""
    return {**model, WARMUP: "yes"}, {**model, WARMUP: "no"}


def _told(results: Results, residual: Value) -> str:
    gain = results.difference(RIGHT, *_sides(residual=residual))
    by_rate = ", ".join(
        " and ".join(
            f"{results.summary(RIGHT, **arm).mean:.0f}%"
            for arm in _sides(residual=residual, rate=rate)
        )
        + f" at {rate:g}"
        for rate in results.choices("rate")
    )
    return (
        f"{residual}: {cell(gain)} points more with warm-up, the mean of all rates; "
        f"with and without, {by_rate}"
    )


def draw(results: Results, figure: Any) -> None:
    for axes, quantity in zip(figure.subplots(1, 2), (RIGHT, NORM), strict=True):
        for residual, colour in zip(results.choices("residual"), COLOURS, strict=False):
            for warmup, style in (("yes", "o-"), ("no", "s--")):
                label = f"{residual}, {'warm-up' if warmup == 'yes' else 'none'}"
                arm: dict[str, Value] = {"residual": residual, WARMUP: warmup}
                line(axes, results, quantity, "rate", label, colour, style, **arm)
        axes.set_xscale("log")
        axes.set_xlabel("learning rate, at its highest")
        axes.set_ylabel(quantity)
    figure.axes[1].set_yscale("log")
    figure.axes[0].legend(fontsize=8)


EXPERIMENT = Experiment(
    name="warmup",
    title="Warm-up of the learning rate",
    claim="A learning rate that climbs at first lets a Transformer be trained at rates at which it "
    "fails otherwise.",
    source="Attention Is All You Need, §5.3; Xiong et al. (2020), On Layer Normalization in the "
    "Transformer Architecture, who find that post-norm needs it and pre-norm does not",
    varied="the learning rate, reached at once or over the first third of the steps and constant "
    "from there on; post-norm and pre-norm",
    measured=f"an encoder {DEPTH} layers deep that learns to sort: held-out labels right after "
    f"{STEPS} steps, the greatest gradient norm on the way, divergence",
    rule="By the mean of all rates: supported if with warm-up more labels are right (95% interval "
    "of the difference, seed by seed, above 0) in post-norm and in pre-norm; not supported if in "
    "neither; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    seeds=5,
)
