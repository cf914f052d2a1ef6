"""Embeddings times √d_model, or as they are: are words heard beside their positions?"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from glassformer.lab.axes import doublings
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
from glassformer.model.positions import sinusoids
from glassformer.model.stack import Stack

TASK = Task("reverse", "translator", lengths=(2, 10))
WIDTHS, RESIDUALS = (32, 128), ("pre-norm", "post-norm")
STEPS = 200
SHARE, RIGHT, QUICKLY = "share of words in the input", "labels right, %", "steps to 60%"


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    width = int(arm["d_model"])
    torch.manual_seed(seed)
    model = small(TASK, d_model=width, d_ff=2 * width, n_heads=4, residual=arm["residual"])
    if arm["scaled"] == "no":
        unscale(model)
    yield Measurement(arm, seed, SHARE, share_of_words(model))
    plan = Plan(
        steps=100 if quick else STEPS,
        rate=3e-3 * (32 / width) ** 0.5,
        warmup=50,
        look_every=10,
    )
    learned = learn(model, TASK, plan, seed)
    yield Measurement(arm, seed, RIGHT, learned.accuracy)
    yield Measurement(arm, seed, QUICKLY, float(learned.steps_to(60.0)))


def unscale(model: nn.Module) -> None:
    """Take the factor √d_model away wherever tokens are embedded."""
    for stack in model.modules():
        if isinstance(stack, Stack):
            stack.embedding.scale = 1.0


@torch.no_grad()
def share_of_words(model: nn.Module) -> float:
    """Of the square of what the first layer reads: words to words and positions, untrained."""
    stack = next(m for m in model.modules() if isinstance(m, Stack))
    words = (stack.embedding.weight * stack.embedding.scale).square().mean()
    places = sinusoids(torch.arange(TASK.lengths[1]), stack.embedding.weight.size(1))
    return float(words / (words + places.square().mean()))


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    widths, residuals = ((32,), ("pre-norm",)) if budget.quick else (WIDTHS, RESIDUALS)
    arms: list[Arm] = [
        {"residual": residual, "d_model": width, "scaled": scaled}
        for residual in residuals
        for width in widths
        for scaled in ("yes", "no")
    ]
    return over(trial, arms, budget, tick)


def judge(results: Results) -> Verdict:
    """Of every model, whether it learns better with the factor than without."""
    models = list(dict.fromkeys((a["residual"], a["d_model"]) for a in results.arms(RIGHT)))
    found = {model: results.compare(RIGHT, *_sides(*model)) for model in models}
    because = "; ".join(_told(results, *model) for model in models) + "."
    outcomes = set(found.values())
    if outcomes == {"more"}:
        return Verdict("supported", because)
    if "more" not in outcomes:
        return Verdict("not supported", f"{because} The factor makes no model certainly better.")
    better = ", ".join(f"{r}, d_model {d}" for (r, d), how in found.items() if how == "more")
    return Verdict("depends", f"{because} Certainly better with the factor: {better}.")


def _sides(residual: Value, width: Value) -> tuple[Arm, Arm]:
    model: Arm = {"residual": residual, "d_model": width}
    return {**model, "scaled": "yes"}, {**model, "scaled": "no"}


def _told(results: Results, residual: Value, width: Value) -> str:
    scaled, plain = _sides(residual, width)
    gain = results.difference(RIGHT, scaled, plain)
    words, alone = (100 * results.summary(SHARE, **arm).mean for arm in (scaled, plain))
    return (
        f"{residual}, d_model {width}: {cell(results.summary(RIGHT, **scaled))}% right with the "
        f"factor, {cell(gain)} points more than without; words are {words:.0f}% of the input, "
        f"without it {alone:.1f}%"
    )


def draw(results: Results, figure: Any) -> None:
    for axes, quantity in zip(figure.subplots(1, 2), (RIGHT, SHARE), strict=True):
        for residual, colour in zip(results.choices("residual"), COLOURS, strict=False):
            for scaled, style in (("yes", "o-"), ("no", "s--")):
                label = f"{residual}, {'times √d_model' if scaled == 'yes' else 'as it is'}"
                arm: dict[str, Value] = {"residual": residual, "scaled": scaled}
                line(axes, results, quantity, "d_model", label, colour, style, **arm)
        doublings(axes, results.choices("d_model"))
        axes.set_xlabel("d_model")
        axes.set_ylabel(quantity)
        axes.set_ylim(bottom=0)
    figure.axes[0].legend(fontsize=8)


EXPERIMENT = Experiment(
    name="embedding-scale",
    title="Embeddings times √d_model",
    claim="Embeddings that are also the output projection are small; multiplied by √d_model, words "
    "are heard beside the positions that are added to them, and the model learns better.",
    source="Attention Is All You Need, §3.4; the reason is the customary one, the paper gives none",
    varied="the factor √d_model or none, the width, and where the norm stands",
    measured=f"an encoder and decoder with sinusoids that learn to reverse: the share of words in "
    f"the square of the first layer's input, held-out labels right after {STEPS} steps, steps to "
    "60%",
    rule="Supported if with the factor more labels are right in every model (95% interval of the "
    "difference, seed by seed, above 0); not supported if in none; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    seeds=5,
)
