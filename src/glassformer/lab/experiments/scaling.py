"""The factor 1/√d_k of Equation 1: is it needed, and for the reason that is given?"""

from collections.abc import Iterator
from math import inf, log
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.lab.drawing import COLOURS, line
from glassformer.lab.experiment import Arm, Budget, Experiment, Measurement, Results, Tick, Verdict
from glassformer.lab.learning import Plan, Task, gradients, learn, small
from glassformer.lab.report import cell
from glassformer.lab.trials import over
from glassformer.model.attention import MultiHeadAttention, record_attention

TASK = Task("reverse", symbols=10, lengths=(8, 8))
WIDTH = 512  # the same in all arms: wider heads are fewer
WIDE = 128  # from this d_k on, the claim is about it
STEPS = 300
LEARNED = 95.0


def encoder(d_k: int, scaled: bool, seed: int) -> nn.Module:
    """One layer of heads that are d_k wide; unscaled, its scores are the plain products."""
    torch.manual_seed(seed)
    sizes = {"d_model": WIDTH, "n_heads": WIDTH // d_k, "d_ff": 128, "encoder_layers": 1}
    model = small(TASK, **sizes)
    for attention in _attentions(model):
        attention.scale = None if scaled else 1.0
    return model


def _attentions(model: nn.Module) -> list[MultiHeadAttention]:
    return [m for m in model.modules() if isinstance(m, MultiHeadAttention)]


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    d_k, scaled = int(arm["d_k"]), arm["scaled"] == "yes"
    model = encoder(d_k, scaled, seed)
    weights = attention_at_start(model)
    slopes = (weights * (1 - weights)).sum(-1)  # the trace of softmax's derivative
    found = {
        "entropy ÷ uniform": float(torch.special.entr(weights).sum(-1).mean()) / log(8),
        "slope of softmax, median": float(slopes.median()),
        "gradient norm of W^Q, W^K": gradient_of_scores(model),
    }
    plan = Plan(
        steps=8 if quick else STEPS,
        batch=8 if quick else 32,
        rate=1e-3,
        look_every=4 if quick else 10,
        enough=99.0,
    )
    learned = learn(model, TASK, plan, seed, held_out=TASK.held_out(128))
    found |= {
        "accuracy, %": learned.accuracy,
        "steps to 95%": learned.steps_to(LEARNED),
        "diverged": float(learned.diverged),
    }
    for quantity, value in found.items():
        yield Measurement(arm, seed, quantity, value)


@torch.no_grad()
def attention_at_start(model: nn.Module) -> Tensor:
    with record_attention(model) as maps:
        model(*TASK.held_out(64).inputs)
    return torch.cat([w.flatten(0, 2) for calls in maps.values() for w in calls])


def gradient_of_scores(model: nn.Module) -> float:
    """What reaches the two matrices that the scores are made of."""
    (attention,) = _attentions(model)
    with gradients(model, TASK.held_out(64)):
        assert attention.qkv.weight.grad is not None
        return float(attention.qkv.weight.grad[: 2 * WIDTH].norm())


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    arms: list[Arm] = [
        {"d_k": d_k, "scaled": scaled} for d_k in (8, 32, 128, 512) for scaled in ("yes", "no")
    ]
    return over(trial, arms, budget, tick)


def judge(results: Results) -> Verdict:
    wide = [int(d_k) for d_k in results.choices("d_k") if int(d_k) >= WIDE]

    def without(quantity: str, d_k: int) -> str:
        one: Arm = {"d_k": d_k, "scaled": "no"}
        return results.compare(quantity, one, {"d_k": d_k, "scaled": "yes"})

    slower = [d_k for d_k in wide if without("steps to 95%", d_k) == "more"]
    flatter = [d_k for d_k in wide if without("slope of softmax, median", d_k) == "less"]
    because = " ".join(_told(results, d_k) for d_k in wide)
    if not any(results.summary("steps to 95%", d_k=d_k, scaled="yes").median < inf for d_k in wide):
        return Verdict("depends", f"Too few steps: none with the factor learned either. {because}")
    if not slower:
        return Verdict("not supported", because)
    return Verdict("supported" if slower == wide == flatter else "depends", because)


def _told(results: Results, d_k: int) -> str:
    def both(quantity: str) -> str:
        yes, no = (results.summary(quantity, d_k=d_k, scaled=s) for s in ("yes", "no"))
        return f"{cell(no)} against {cell(yes)}"

    return (
        f"d_k = {d_k}, without against with the factor: steps to 95% {both('steps to 95%')}; "
        f"median slope of softmax {both('slope of softmax, median')}; gradient norm of W^Q and "
        f"W^K {both('gradient norm of W^Q, W^K')}."
    )


def draw(results: Results, figure: Any) -> None:
    axes = figure.subplots(1, 3)
    quantities = ("entropy ÷ uniform", "gradient norm of W^Q, W^K", "steps to 95%")
    for place, quantity in zip(axes, quantities, strict=True):
        for scaled, colour, label in (("yes", 0, "with 1/√d_k"), ("no", 1, "without")):
            line(place, results, quantity, "d_k", label, COLOURS[colour], scaled=scaled)
        place.set_xscale("log", base=2)
        place.set_xticks(results.choices("d_k"), [str(d_k) for d_k in results.choices("d_k")])
        place.set_xlabel("d_k")
        place.set_title(quantity, fontsize=9)
        place.set_ylim(bottom=0)
    axes[0].legend(fontsize=8)


EXPERIMENT = Experiment(
    name="scaling",
    title="Scaling scores by 1/√d_k",
    claim="For large d_k the products of queries and keys grow large and push the softmax to "
    "where its gradients are extremely small. Dividing them by √d_k counters that and keeps "
    "training stable.",
    source="Attention Is All You Need, §3.2.1 and its footnote on the variance of q·k",
    varied=f"the factor or none, and d_k from 8 to 512 in heads of one layer that is {WIDTH} wide",
    measured="at the start: entropy of the attention against that of uniform weights, the slope of "
    "softmax (the trace of its derivative, Σ w(1 − w)) of the median query, the gradient norm of "
    f"W^Q and W^K; then steps to {LEARNED:.0f}% on reversing 8 symbols, of at most {STEPS}, and "
    "divergence",
    rule=f"At each d_k ≥ {WIDE}, with the seeds paired and 95% intervals: supported if without the "
    "factor the median slope is smaller and learning takes more steps (a run that does not get "
    "there takes infinitely many); not supported if learning takes more steps at none of them, "
    "though with the factor it does learn; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    seeds=5,
)
