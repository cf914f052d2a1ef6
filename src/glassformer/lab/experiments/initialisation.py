"""Initialisation: does a deep stack need weights scaled by size or depth?"""

from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import Any

import torch
from torch import Tensor, nn

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
from glassformer.lab.learning import Plan, Task, gradient_norms, small_model, train
from glassformer.lab.trials import model_device, run_trials
from glassformer.model import init
from glassformer.model.stack import Stack
from glassformer.train.optimizer import layer_matrices

TASK = Task("sort", symbols=10, lengths=(8, 8))
STEPS = 160  # updates; a stack that learns needs 90 to 140 (glassformer lab run initialisation)
LEARNED = 90.0  # percent of held-out labels
STREAM, RATIO = "residual stream, last layer ÷ first", "gradient, first layer ÷ last"
ACCURACY, STEPS_TO_90 = "accuracy, %", "steps to 90%"


def plain_normal(model: nn.Module, deviation: float) -> None:
    """Draw all matrices inside the layers with one standard deviation, the rest by Xavier."""
    init.xavier(model)
    for matrix in layer_matrices(model):
        nn.init.normal_(matrix, std=deviation)


SCALED: dict[str, Callable[[nn.Module], None]] = {
    "Xavier": init.xavier,
    "depth-scaled": init.depth_scaled,
}
PLAIN: dict[str, Callable[[nn.Module], None]] = {
    "normal, 0.02": partial(plain_normal, deviation=0.02),
    "normal, 1": partial(plain_normal, deviation=1.0),
}
INITS = SCALED | PLAIN
RESIDUALS = ("post-norm", "pre-norm")


def encoder(arm: Arm, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model = small_model(TASK, residual=arm["residual"], encoder_layers=arm["depth"])
    INITS[str(arm["initialisation"])](model)
    return model


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    model, start = encoder(arm, seed), TASK.held_out(64).to(model_device())
    norms = gradient_norms(model, start)["encoder"]
    found = {
        STREAM: growth(model, start.inputs[0]),
        "gradient norm at the start": sum(norms) / len(norms),
        RATIO: norms[0] / norms[-1] if norms[-1] else inf,
    }
    plan = Plan(
        steps=8 if quick else STEPS,
        batch=8 if quick else 64,
        rate=2e-3,
        warmup=0 if quick else 40,
        validate_every=4 if quick else 10,
        stop_at=95.0,
    )
    run = train(model, TASK, plan, seed)
    found |= {
        ACCURACY: run.accuracy,
        STEPS_TO_90: run.steps_to(LEARNED),
        "diverged": float(run.diverged),
    }
    for quantity, value in found.items():
        yield Measurement(arm, seed, quantity, value)


@torch.no_grad()
def growth(model: nn.Module, ids: Tensor) -> float:
    """Return the norm of the last layer's output over that of the first layer's input."""
    (stack,) = (part for part in model.modules() if isinstance(part, Stack))
    sizes: list[float] = []
    hooks = [
        stack.layers[0].register_forward_pre_hook(lambda _, x: sizes.append(float(x[0].norm()))),
        stack.layers[-1].register_forward_hook(lambda _, __, y: sizes.append(float(y.norm()))),
    ]
    model(ids)
    for hook in hooks:
        hook.remove()
    return sizes[1] / sizes[0]


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    arms: list[Arm] = [
        {"residual": residual, "initialisation": name, "depth": depth}
        for depth in ((2, 4) if budget.quick else (2, 8, 24))
        for residual in RESIDUALS
        for name in INITS
    ]
    return run_trials(trial, arms, budget, tick)


def deepest(results: Results, residual: str, name: str) -> int:
    """Return the greatest depth that learns in more than half of the seeds; 0 if none does."""
    arm: dict[str, Value] = {"residual": residual, "initialisation": name}
    learns = (
        int(depth)
        for depth in results.choices("depth")
        if results.summary(STEPS_TO_90, **arm, depth=depth).median < inf
    )
    return max(learns, default=0)


def judge(results: Results) -> Verdict:
    depths = {(r, name): deepest(results, r, name) for r in RESIDUALS for name in INITS}
    evidence = {f"deepest stack that learns, {r}, {n}": str(d) for (r, n), d in depths.items()}
    best = {r: max(depths[r, name] for name in SCALED) for r in RESIDUALS}
    shallower = [(r, name) for r in RESIDUALS for name in PLAIN if depths[r, name] < best[r]]
    if not any(depths.values()):
        return Verdict("depends", "Too few steps: no stack learns at any depth.", evidence)
    if len(shallower) == len(RESIDUALS) * len(PLAIN):
        reason = "Xavier or depth-scaled weights learn in deeper stacks than both normal ones."
        return Verdict("supported", reason, evidence)
    if not shallower:
        reason = "Xavier and depth-scaled weights learn in no deeper stacks than normal ones."
        return Verdict("not supported", reason, evidence)
    listed = "; ".join(f"{residual} with {name}" for residual, name in shallower)
    reason = f"Scaled weights learn in deeper stacks only than these plain weights: {listed}."
    return Verdict("depends", reason, evidence)


def draw(results: Results, figure: Any) -> None:
    plots = figure.subplots(1, 3)
    for colour, name in zip(COLOURS, INITS, strict=False):
        for axes, residual in zip(plots, RESIDUALS, strict=False):
            arm: dict[str, Value] = {"residual": residual, "initialisation": name}
            line(axes, results, ACCURACY, "depth", name, colour, "o-", **arm)
            axes.set_title(f"{residual}: held-out accuracy, %", fontsize=9)
            axes.set_ylim(0, 102)
        line(plots[2], results, RATIO, "depth", name, colour, "o-", **arm)
    plots[2].set_yscale("log")
    plots[2].set_title(f"pre-norm: {RATIO}", fontsize=9)
    for axes in plots:
        axes.set_xlabel("layers")
        axes.set_xticks(results.choices("depth"))
    plots[0].legend(fontsize=8)


EXPERIMENT = Experiment(
    name="initialisation",
    title="Initialisation in depth",
    claim="Deep stacks need a scaled initialisation: weights scaled by layer size (Xavier) or by "
    "depth learn at depths where plain normal weights do not.",
    source="Glorot and Bengio (2010); Radford et al. (2019), who scale by depth",
    varied="the matrices inside the layers: Xavier, Xavier scaled by depth, normal with standard "
    "deviation 0.02 or 1; the depth; post-norm and pre-norm",
    measured=f"an encoder of width 32 that learns to sort 8 symbols in at most {STEPS} steps: at "
    "the start, growth of the residual stream and gradient norms; then held-out accuracy, steps to "
    "90%, divergence",
    rule="A stack learns if it reaches 90% in more than half of the seeds. Supported if, with "
    "post-norm and with pre-norm, the better of Xavier and depth-scaled learns at greater depth "
    "than each plain initialisation; not supported if it never does and some stack learns; "
    "otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
)
