"""Warm-up: does training need a learning rate that rises at first?"""

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
from glassformer.lab.learning import Plan, Task, small_model, train
from glassformer.lab.report import cell
from glassformer.lab.trials import run_trials

# Every label depends on all tokens.
TASK = Task("sort", symbols=10, lengths=(8, 8))
DEPTH = 6  # layers: deep enough for post-norm to fail at high rates (glassformer lab run warmup)
STEPS = 150  # updates; pre-norm reaches about 90% at every rate
RESIDUALS, RATES = ("post-norm", "pre-norm"), (1e-3, 3e-3, 1e-2, 3e-2)
WARMUP = "warm-up"
RATE = "learning rate"
ACCURACY, NORM, DIVERGED = "accuracy, %", "largest gradient norm", "diverged"


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    torch.manual_seed(seed)
    model = small_model(TASK, residual=arm["residual"], encoder_layers=DEPTH)
    steps = 45 if quick else STEPS
    plan = Plan(
        steps=steps,
        batch=32 if quick else 64,
        rate=float(arm[RATE]),
        warmup=steps // 3 if arm[WARMUP] == "yes" else 0,
        validate_every=steps,
    )
    run = train(model, TASK, plan, seed)
    yield Measurement(arm, seed, ACCURACY, run.accuracy)
    yield Measurement(arm, seed, NORM, max(run.norms, default=inf))
    yield Measurement(arm, seed, DIVERGED, float(run.diverged))


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    rates = (3e-3, 1e-2) if budget.quick else RATES
    arms: list[Arm] = [
        {"residual": residual, RATE: rate, WARMUP: warmup}
        for residual in RESIDUALS
        for rate in rates
        for warmup in ("yes", "no")
    ]
    return run_trials(trial, arms, budget, tick)


def judge(results: Results) -> Verdict:
    residuals = [str(residual) for residual in results.choices("residual")]
    evidence = {
        f"accuracy gain by warm-up, points, {r}, mean of all rates": cell(
            results.difference(ACCURACY, *_arms(r))
        )
        for r in residuals
    }
    better = [r for r in residuals if results.compare(ACCURACY, *_arms(r)) == "more"]
    if better == residuals:
        reason = f"Warm-up improves accuracy in {' and in '.join(residuals)}."
        return Verdict("supported", reason, evidence)
    if not better:
        return Verdict("not supported", "Warm-up improves accuracy in no model.", evidence)
    others = ", ".join(r for r in residuals if r not in better)
    reason = f"Warm-up improves accuracy in {', '.join(better)}, but not in {others}."
    return Verdict("depends", reason, evidence)


def _arms(residual: Value) -> tuple[Arm, Arm]:
    """Return the arms with and without warm-up, over all learning rates."""
    return {"residual": residual, WARMUP: "yes"}, {"residual": residual, WARMUP: "no"}


def draw(results: Results, figure: Any) -> None:
    for axes, quantity in zip(figure.subplots(1, 2), (ACCURACY, NORM), strict=True):
        for residual, colour in zip(results.choices("residual"), COLOURS, strict=False):
            for warmup, style in (("yes", "o-"), ("no", "s--")):
                label = f"{residual}, {'warm-up' if warmup == 'yes' else 'no warm-up'}"
                arm: dict[str, Value] = {"residual": residual, WARMUP: warmup}
                line(axes, results, quantity, RATE, label, colour, style, **arm)
        axes.set_xscale("log")
        axes.set_xlabel("peak learning rate")
        axes.set_ylabel(quantity)
    figure.axes[1].set_yscale("log")
    figure.axes[0].legend(fontsize=8)


EXPERIMENT = Experiment(
    name="warmup",
    title="Warm-up of the learning rate",
    claim="A learning rate that rises at first allows training at rates at which it fails "
    "otherwise.",
    source="Attention Is All You Need, §5.3; Xiong et al. (2020), On Layer Normalization in the "
    "Transformer Architecture, who find that post-norm needs it and pre-norm does not",
    varied="the learning rate, constant from the start or after a linear rise over the first third "
    "of the steps; post-norm and pre-norm",
    measured=f"an encoder of {DEPTH} layers that learns to sort: held-out accuracy after {STEPS} "
    "steps, largest gradient norm, divergence",
    rule="By the mean over all rates: supported if accuracy is higher with warm-up (95% interval "
    "of the paired difference above 0) in post-norm and in pre-norm; not supported if in neither; "
    "otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    seeds=5,
)
