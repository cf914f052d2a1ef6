"""The factor 1/√d_k of Equation 1: is it needed, and for the reason the paper gives?"""

from collections.abc import Iterator
from math import inf, log
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.lab.drawing import COLOURS, line, log2_axis
from glassformer.lab.experiment import Arm, Budget, Experiment, Measurement, Results, Tick, Verdict
from glassformer.lab.learning import Plan, Task, gradients, small_model, train
from glassformer.lab.trials import model_device, run_trials
from glassformer.model.attention import attentions, record_attention

TASK = Task("reverse", symbols=10, lengths=(8, 8))
WIDTH = 512  # d_model of all arms; wider heads are fewer
LARGE = 128  # smallest d_k that the claim is about
STEPS = 300  # updates; with the factor 95% takes 70 to 260 (glassformer lab run scaling)
LEARNED = 95.0  # percent of held-out labels
ENTROPY, SLOPE = "entropy ÷ uniform", "slope of softmax, median"
NORM, STEPS_TO_95 = "gradient norm of W^Q, W^K", "steps to 95%"


def encoder(d_k: int, scaled: bool, seed: int) -> nn.Module:
    """Build one layer with heads of width d_k; unscaled scores are plain dot products."""
    torch.manual_seed(seed)
    sizes = {"d_model": WIDTH, "n_heads": WIDTH // d_k, "d_ff": 128, "encoder_layers": 1}
    model = small_model(TASK, **sizes)
    for attention in attentions(model).values():
        attention.scale = None if scaled else 1.0
    return model


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    d_k, scaled = int(arm["d_k"]), arm["scaled"] == "yes"
    model = encoder(d_k, scaled, seed)
    weights = attention_at_start(model)
    slopes = (weights * (1 - weights)).sum(-1)  # the trace of the Jacobian of softmax
    found = {
        ENTROPY: float(torch.special.entr(weights).sum(-1).mean()) / log(8),
        SLOPE: float(slopes.median()),
        NORM: gradient_of_scores(model),
    }
    plan = Plan(
        steps=8 if quick else STEPS,
        batch=8 if quick else 32,
        rate=1e-3,
        validate_every=4 if quick else 10,
        stop_at=99.0,
    )
    run = train(model, TASK, plan, seed, held_out=TASK.held_out(128))
    found |= {
        "accuracy, %": run.accuracy,
        STEPS_TO_95: run.steps_to(LEARNED),
        "diverged": float(run.diverged),
    }
    for quantity, value in found.items():
        yield Measurement(arm, seed, quantity, value)


@torch.no_grad()
def attention_at_start(model: nn.Module) -> Tensor:
    with record_attention(model) as maps:
        model(*TASK.held_out(64).to(model_device()).inputs)
    return torch.cat([w.flatten(0, 2) for calls in maps.values() for w in calls])


def gradient_of_scores(model: nn.Module) -> float:
    """Return the gradient norm of W^Q and W^K."""
    (attention,) = attentions(model).values()
    with gradients(model, TASK.held_out(64)):
        assert attention.qkv.weight.grad is not None
        return float(attention.qkv.weight.grad[: 2 * WIDTH].norm())


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    arms: list[Arm] = [
        {"d_k": d_k, "scaled": scaled} for d_k in (8, 32, 128, 512) for scaled in ("yes", "no")
    ]
    return run_trials(trial, arms, budget, tick)


def judge(results: Results) -> Verdict:
    large = [int(d_k) for d_k in results.choices("d_k") if int(d_k) >= LARGE]

    def without(quantity: str, d_k: int) -> str:
        one: Arm = {"d_k": d_k, "scaled": "no"}
        return results.compare(quantity, one, {"d_k": d_k, "scaled": "yes"})

    slower = [d_k for d_k in large if without(STEPS_TO_95, d_k) == "more"]
    flatter = [d_k for d_k in large if without(SLOPE, d_k) == "less"]
    medians = [results.summary(STEPS_TO_95, d_k=d_k, scaled="yes").median for d_k in large]
    if min(medians) == inf:
        return Verdict("depends", "Too few steps: models with the factor do not learn either.")
    if not slower:
        return Verdict("not supported", "Without the factor, learning takes no more steps.")
    if slower == large == flatter:
        reason = "Without the factor, the softmax saturates and learning is slower or fails."
        return Verdict("supported", reason)
    reason = (
        f"Without the factor, learning is slower at d_k = {_list(slower)}, and the softmax is "
        f"flatter at d_k = {_list(flatter)}."
    )
    return Verdict("depends", reason)


def _list(values: list[int]) -> str:
    return ", ".join(map(str, values)) or "none"


def draw(results: Results, figure: Any) -> None:
    plots = figure.subplots(1, 3)
    for axes, quantity in zip(plots, (ENTROPY, NORM, STEPS_TO_95), strict=True):
        for scaled, colour, label in (("yes", 0, "with 1/√d_k"), ("no", 1, "without")):
            line(axes, results, quantity, "d_k", label, COLOURS[colour], scaled=scaled)
        log2_axis(axes, results.choices("d_k"))
        axes.set_xlabel("d_k")
        axes.set_title(quantity, fontsize=9)
        axes.set_ylim(bottom=0)
    plots[0].legend(fontsize=8)


EXPERIMENT = Experiment(
    name="scaling",
    title="Scaling scores by 1/√d_k",
    claim="For large d_k the dot products grow large and push the softmax into regions where its "
    "gradients are extremely small. Dividing them by √d_k counters that and keeps training stable.",
    source="Attention Is All You Need, §3.2.1 and its footnote on the variance of q·k",
    varied=f"the factor, and d_k from 8 to 512 in one layer of width {WIDTH}",
    measured="at the start: entropy of the attention over that of uniform weights, slope of the "
    "softmax (trace of its Jacobian, Σ w(1 − w)) of the median query, gradient norm of W^Q and "
    f"W^K; then steps to {LEARNED:.0f}% on reversing 8 symbols, at most {STEPS}, and divergence",
    rule=f"At each d_k ≥ {LARGE}, paired by seed with 95% intervals: supported if without the "
    "factor the median slope is smaller and learning takes more steps (infinitely many for a run "
    "that does not learn); not supported if learning takes more steps at none of them, though "
    "models with the factor learn; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    seeds=5,
)
