"""The first values of the weights: does depth need care with them?"""

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
from glassformer.lab.learning import Plan, Task, gradient_norms, learn, small
from glassformer.lab.report import number
from glassformer.lab.trials import over
from glassformer.model import init
from glassformer.model.stack import Stack
from glassformer.train.optimizer import layer_matrices

TASK = Task("sort", symbols=10, lengths=(8, 8))
STEPS = 160
LEARNED = 90.0


def plain_normal(model: nn.Module, deviation: float) -> None:
    """The matrices inside the layers drawn alike, whatever their sizes; the rest by Xavier."""
    init.xavier(model)
    for matrix in layer_matrices(model):
        nn.init.normal_(matrix, std=deviation)


CAREFUL: dict[str, Callable[[nn.Module], None]] = {
    "Xavier": init.xavier,
    "depth-scaled": init.depth_scaled,
}
PLAIN: dict[str, Callable[[nn.Module], None]] = {
    "normal, 0.02": partial(plain_normal, deviation=0.02),
    "normal, 1": partial(plain_normal, deviation=1.0),
}
INITS = CAREFUL | PLAIN


def encoder(arm: Arm, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model = small(TASK, residual=arm["residual"], encoder_layers=arm["depth"])
    INITS[str(arm["initialisation"])](model)
    return model


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    model, start = encoder(arm, seed), TASK.held_out(64)
    norms = gradient_norms(model, start)["encoder"]
    found = {
        "stream, last layer ÷ first": growth(model, start.inputs[0]),
        "gradient norm at the start": sum(norms) / len(norms),
        "gradient, first layer ÷ last": norms[0] / norms[-1] if norms[-1] else inf,
    }
    plan = Plan(
        steps=8 if quick else STEPS,
        batch=8 if quick else 64,
        rate=2e-3,
        warmup=0 if quick else 40,
        look_every=4 if quick else 10,
        enough=95.0,
    )
    learned = learn(model, TASK, plan, seed)
    found |= {
        "accuracy, %": learned.accuracy,
        "steps to 90%": learned.steps_to(LEARNED),
        "diverged": float(learned.diverged),
    }
    for quantity, value in found.items():
        yield Measurement(arm, seed, quantity, value)


@torch.no_grad()
def growth(model: nn.Module, ids: Tensor) -> float:
    """The size of what leaves the last layer over that of what entered the first."""
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
        for residual in ("post-norm", "pre-norm")
        for name in INITS
    ]
    return over(trial, arms, budget, tick)


def reach(results: Results, residual: str, name: str) -> int:
    """The greatest depth that learns in more than half of the seeds; 0 if none does."""
    arm: dict[str, Value] = {"residual": residual, "initialisation": name}
    learns = (
        int(depth)
        for depth in results.choices("depth")
        if results.summary("steps to 90%", **arm, depth=depth).median < inf
    )
    return max(learns, default=0)


def judge(results: Results) -> Verdict:
    needed, told, reached = [], [], 0
    for residual in ("post-norm", "pre-norm"):
        depths = {name: reach(results, residual, name) for name in INITS}
        best = max(depths[name] for name in CAREFUL)
        reached = max(reached, *depths.values())
        needed += [best > depths[name] for name in PLAIN]
        listed = ", ".join(f"{name} {depth or 'none'}" for name, depth in depths.items())
        told.append(f"{residual}, greatest depth that learns: {listed}")
    deepest = max(int(depth) for depth in results.choices("depth"))
    growths = ", ".join(
        number(results.summary("stream, last layer ÷ first", depth=deepest, **arm).mean)
        for arm in ({"residual": "pre-norm", "initialisation": name} for name in INITS)
    )
    because = (
        f"{'; '.join(told)}. Through {deepest} pre-norm layers the stream grows by factors of "
    )
    because += f"{growths} (in the same order)."
    if not reached:
        return Verdict("depends", f"Too few steps: nothing learned at any depth. {because}")
    if all(needed):
        return Verdict("supported", because)
    return Verdict("depends" if any(needed) else "not supported", because)


def draw(results: Results, figure: Any) -> None:
    axes = figure.subplots(1, 3)
    for colour, name in zip(COLOURS, INITS, strict=False):
        for place, residual in zip(axes, ("post-norm", "pre-norm"), strict=False):
            arm: dict[str, Value] = {"residual": residual, "initialisation": name}
            line(place, results, "accuracy, %", "depth", name, colour, "o-", **arm)
            place.set_title(f"{residual}: held-out labels right, %", fontsize=9)
            place.set_ylim(0, 102)
        line(axes[2], results, "gradient, first layer ÷ last", "depth", name, colour, "o-", **arm)
    axes[2].set_yscale("log")
    axes[2].set_title("pre-norm: gradient, first layer ÷ last", fontsize=9)
    for place in axes:
        place.set_xlabel("layers")
        place.set_xticks(results.choices("depth"))
    axes[0].legend(fontsize=8)


EXPERIMENT = Experiment(
    name="initialisation",
    title="Initialisation in depth",
    claim="The deeper the stack, the more care its initialisation needs: weights that take the "
    "sizes of the layers (Xavier) or their number (depth-scaled) into account reach depths that "
    "plain normal weights do not.",
    source="Glorot and Bengio (2010); Radford et al. (2019), who scale by depth; a claim of many "
    "write-ups of deep Transformers",
    varied="how the matrices inside the layers are drawn: Xavier, Xavier scaled by depth, normal "
    "with a standard deviation of 0.02, normal with 1; at growing depth, post-norm and pre-norm",
    measured=f"an encoder of width 32 that learns to sort 8 symbols in at most {STEPS} steps: at "
    "the start the growth of the residual stream and gradient norms; then held-out labels that are "
    "right, steps to 90%, divergence",
    rule="An initialisation reaches a depth if 90% is learned there in more than half of the "
    "seeds. Supported if, with post-norm and with pre-norm, the better of Xavier and depth-scaled "
    "reaches deeper than each of the two plain ones; not supported if it reaches deeper than "
    "neither, with neither, and something learns at all; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
)
