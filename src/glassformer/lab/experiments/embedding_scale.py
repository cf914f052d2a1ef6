"""The factor √d_model on embeddings: does it help learning?"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from glassformer.lab.drawing import COLOURS, line, log2_axis
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
from glassformer.model.positions import sinusoids
from glassformer.model.stack import Stack

TASK = Task("reverse", "translator", lengths=(2, 10))
WIDTHS, RESIDUALS = (32, 128), ("pre-norm", "post-norm")
STEPS = 200  # updates: enough for 75 to 90% with the factor (glassformer lab run embedding-scale)
SHARE, ACCURACY, STEPS_TO_60 = "token share of the input", "accuracy, %", "steps to 60%"


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    width = int(arm["d_model"])
    torch.manual_seed(seed)
    model = small_model(TASK, d_model=width, d_ff=2 * width, n_heads=4, residual=arm["residual"])
    if arm["scaled"] == "no":
        unscale(model)
    yield Measurement(arm, seed, SHARE, token_share(model))
    plan = Plan(
        steps=100 if quick else STEPS,
        rate=3e-3 * (32 / width) ** 0.5,
        warmup=50,
        validate_every=10,
    )
    run = train(model, TASK, plan, seed)
    yield Measurement(arm, seed, ACCURACY, run.accuracy)
    yield Measurement(arm, seed, STEPS_TO_60, float(run.steps_to(60.0)))


def unscale(model: nn.Module) -> None:
    """Remove the factor √d_model from every embedding."""
    for stack in model.modules():
        if isinstance(stack, Stack):
            stack.embedding.scale = 1.0


@torch.no_grad()
def token_share(model: nn.Module) -> float:
    """Return the share of token embeddings in the mean square of the first layer's input."""
    stack = next(m for m in model.modules() if isinstance(m, Stack))
    weight = stack.embedding.weight
    tokens = (weight * stack.embedding.scale).square().mean()
    positions = sinusoids(torch.arange(TASK.lengths[1], device=weight.device), weight.size(1))
    return float(tokens / (tokens + positions.square().mean()))


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    widths, residuals = ((32,), ("pre-norm",)) if budget.quick else (WIDTHS, RESIDUALS)
    arms: list[Arm] = [
        {"residual": residual, "d_model": width, "scaled": scaled}
        for residual in residuals
        for width in widths
        for scaled in ("yes", "no")
    ]
    return run_trials(trial, arms, budget, tick)


def judge(results: Results) -> Verdict:
    models = list(dict.fromkeys((a["residual"], a["d_model"]) for a in results.arms(ACCURACY)))
    names = {model: f"{model[0]} with d_model {model[1]}" for model in models}
    evidence = {
        f"accuracy gain by the factor, points, {names[model]}": cell(
            results.difference(ACCURACY, *_arms(*model))
        )
        for model in models
    }
    better = [m for m in models if results.compare(ACCURACY, *_arms(*m)) == "more"]
    if better == models:
        return Verdict("supported", "Every model learns better with the factor.", evidence)
    if not better:
        return Verdict("not supported", "No model learns better with the factor.", evidence)
    helped, others = (
        ", ".join(names[m] for m in models if (m in better) == found) for found in (True, False)
    )
    reason = f"The factor improves accuracy in {helped}, but not in {others}."
    return Verdict("depends", reason, evidence)


def _arms(residual: Value, width: Value) -> tuple[Arm, Arm]:
    """Return the arms with and without the factor."""
    model: Arm = {"residual": residual, "d_model": width}
    return {**model, "scaled": "yes"}, {**model, "scaled": "no"}


def draw(results: Results, figure: Any) -> None:
    for axes, quantity in zip(figure.subplots(1, 2), (ACCURACY, SHARE), strict=True):
        for residual, colour in zip(results.choices("residual"), COLOURS, strict=False):
            for scaled, style in (("yes", "o-"), ("no", "s--")):
                label = f"{residual}, {'times √d_model' if scaled == 'yes' else 'no factor'}"
                arm: dict[str, Value] = {"residual": residual, "scaled": scaled}
                line(axes, results, quantity, "d_model", label, colour, style, **arm)
        log2_axis(axes, results.choices("d_model"))
        axes.set_xlabel("d_model")
        axes.set_ylabel(quantity)
        axes.set_ylim(bottom=0)
    figure.axes[0].legend(fontsize=8)


EXPERIMENT = Experiment(
    name="embedding-scale",
    title="Embeddings times √d_model",
    claim="Embeddings that are tied to the output projection are small. Multiplied by √d_model, "
    "they are as large as the positions that are added, and the model learns better.",
    source="Attention Is All You Need, §3.4; the paper gives no reason, this is the common one",
    varied="the factor √d_model, the width, and post-norm or pre-norm",
    measured="an encoder-decoder with sinusoidal positions that learns to reverse: share of token "
    f"embeddings in the mean square of the first layer's input, held-out accuracy after {STEPS} "
    "steps, steps to 60%",
    rule="Supported if accuracy is higher with the factor in every model (95% interval of the "
    "paired difference above 0); not supported if in none; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    seeds=5,
)
