"""Residuals and norms: which of them make depth possible?"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from jaxtyping import Float
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
from glassformer.lab.learning import Plan, Task, gradient_norms, learn
from glassformer.lab.report import number
from glassformer.lab.trials import over
from glassformer.model import init
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.classifier import TransformerTagger
from glassformer.model.embedding import TokenEmbedding
from glassformer.model.encoder import EncoderLayer, TransformerEncoder
from glassformer.model.feed_forward import FeedForward
from glassformer.model.norm import LayerNorm, RMSNorm
from glassformer.model.positions import PositionalEncoding
from glassformer.model.residual import PostNorm, PreNorm, Residual, Sublayer

TASK = Task("sort", symbols=10, lengths=(8, 8))  # every place depends on all tokens
WIDTH, HEADS = 32, 2
STEPS, WARMUP = 160, 40
LEARNED = 90.0  # percent of the labels


class Neither(PostNorm):
    """Sublayer(x): nothing around it."""

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        return self.dropout(sublayer(x))


class ResidualOnly(PostNorm):
    """x + Sublayer(x)."""

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        return x + self.dropout(sublayer(x))


class NormOnly(PostNorm):
    """LayerNorm(Sublayer(x))."""

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        return self.norm(self.dropout(sublayer(x)))


@dataclass(frozen=True)
class Variant:
    around: type[Residual]
    norm: Callable[[int], nn.Module] | None
    both: bool  # a residual and a norm

    def residual(self) -> Residual:
        """The seam: what a layer puts around each of its sub-layers."""
        return self.around(nn.Identity() if self.norm is None else self.norm(WIDTH))

    def final_norm(self) -> nn.Module | None:
        return self.norm(WIDTH) if self.norm and issubclass(self.around, PreNorm) else None


VARIANTS = {
    "none": Variant(Neither, None, False),
    "residual only": Variant(ResidualOnly, None, False),
    "norm only": Variant(NormOnly, LayerNorm, False),
    "post-norm": Variant(PostNorm, LayerNorm, True),
    "pre-norm": Variant(PreNorm, LayerNorm, True),
    "pre-norm, RMSNorm": Variant(PreNorm, RMSNorm, True),
}


def tagger(variant: Variant, depth: int) -> TransformerTagger:
    """What `build` would make, with layers that `build` has no name for."""
    layers = [
        EncoderLayer(
            MultiHeadAttention(WIDTH, HEADS), FeedForward(WIDTH, 2 * WIDTH), variant.residual
        )
        for _ in range(depth)
    ]
    embedding = TokenEmbedding(TASK.vocabulary, WIDTH)
    positions, final = PositionalEncoding(WIDTH), variant.final_norm()
    encoder = TransformerEncoder(embedding, positions, layers, final)
    model = TransformerTagger(encoder, nn.Linear(WIDTH, TASK.vocabulary))
    init.xavier(model)
    return model


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    depth = int(arm["depth"])
    torch.manual_seed(seed)
    model = tagger(VARIANTS[str(arm["around"])], depth)
    if arm["warm-up"] == "none":  # the warm-up changes nothing at the start
        norms = gradient_norms(model, TASK.held_out(64))["encoder"]
        start = {"around": arm["around"], "depth": depth}
        for layer, norm in enumerate(norms, 1):
            yield Measurement({**start, "layer": layer}, seed, "gradient norm of a layer", norm)
        ratio = norms[0] / norms[-1] if norms[-1] else inf
        yield Measurement(start, seed, "gradient norm at the start", sum(norms) / depth)
        yield Measurement(start, seed, "gradient, first layer ÷ last", ratio)
    plan = Plan(
        steps=8 if quick else STEPS,
        batch=8 if quick else 64,
        rate=2e-3,
        warmup=WARMUP if arm["warm-up"] == "yes" else 0,
        look_every=4 if quick else 10,
        enough=95.0,
    )
    learned = learn(model, TASK, plan, seed)
    yield Measurement(arm, seed, "accuracy, %", learned.accuracy)
    yield Measurement(arm, seed, "steps to 90%", learned.steps_to(LEARNED))
    yield Measurement(arm, seed, "diverged", float(learned.diverged))


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    depths = (2, 4) if budget.quick else (2, 8, 24)
    arms: list[Arm] = [
        {"around": around, "depth": depth, "warm-up": warmup}
        for depth in depths
        for around in VARIANTS
        for warmup in ("none", "yes")
    ]
    return over(trial, arms, budget, tick)


def learns(results: Results, around: str, depth: int) -> bool:
    """In more than half of the seeds, with a warm-up or without."""
    reached = [
        results.summary("steps to 90%", around=around, depth=depth, **{"warm-up": warmup}).median
        for warmup in results.choices("warm-up")
    ]
    return min(reached) < inf


def judge(results: Results) -> Verdict:
    shallowest, *_, deepest = sorted(int(depth) for depth in results.choices("depth"))
    able = [around for around in VARIANTS if learns(results, around, deepest)]
    both = [around for around in VARIANTS if VARIANTS[around].both]
    because = f"{deepest} layers deep, percent right (without, with warm-up): " + "; ".join(
        f"{around} {_scores(results, around, deepest)}" for around in VARIANTS
    )
    because += f". What learned: {', '.join(able) or 'nothing'}."
    if not able and not any(learns(results, around, shallowest) for around in VARIANTS):
        return Verdict("depends", f"Too few steps: {shallowest} layers did not learn. {because}")
    if set(able) - set(both) or not able:
        return Verdict("not supported", because)
    return Verdict("supported" if able == both else "depends", because)


def _scores(results: Results, around: str, depth: int) -> str:
    return ", ".join(
        number(results.summary("accuracy, %", around=around, depth=depth, **{"warm-up": w}).mean)
        for w in ("none", "yes")
    )


def draw(results: Results, figure: Any) -> None:
    left, right = figure.subplots(1, 2)
    deepest = max(int(depth) for depth in results.choices("depth"))
    for colour, around in zip(COLOURS, VARIANTS, strict=True):
        for warmup, style in (("none", "o-"), ("yes", "s--")):
            arm: dict[str, Value] = {"around": around, "warm-up": warmup}
            label = around if warmup == "none" else None
            line(left, results, "accuracy, %", "depth", label, colour, style, **arm)
        arm = {"around": around, "depth": deepest}
        line(right, results, "gradient norm of a layer", "layer", around, colour, ".-", **arm)
    left.set_xlabel("layers")
    left.set_ylabel("held-out labels right, % (dashed: with warm-up)")
    left.set_xticks(results.choices("depth"))
    left.set_ylim(0, 102)
    left.legend(fontsize=7)
    right.set_yscale("log")
    right.xaxis.get_major_locator().set_params(integer=True)
    right.set_xlabel("layer, the first reads the tokens")
    right.set_ylabel(f"gradient norm at the start, {deepest} layers")


EXPERIMENT = Experiment(
    name="residual-norm",
    title="Residuals and norms in depth",
    claim="Residual connections and layer normalisation make deep stacks trainable: both are "
    "needed, and either place of the norm will do.",
    source="Attention Is All You Need, §3.1 and §5.4; He et al. (2016), Deep Residual Learning; "
    "Ba et al. (2016), Layer Normalization; on the place of the norm and the warm-up, Xiong et al. "
    "(2020)",
    varied="what stands around each sub-layer (nothing, a residual, a norm, both as post-norm, "
    "pre-norm, pre-norm with RMSNorm), the depth, and a warm-up of the rate or none",
    measured=f"an encoder of width {WIDTH} that learns to sort {TASK.lengths[0]} symbols in at "
    f"most {STEPS} steps: gradient norm of each layer at the start, held-out labels that are right "
    "at the end, steps to 90%, divergence",
    rule="An arrangement learns at a depth if it reaches 90% in more than half of the seeds, with "
    "the warm-up or without. At the greatest depth: supported if all three with both learn and "
    "none with less; not supported if one with less learns, or nothing does though something does "
    "at the smallest; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    shown=(
        *("accuracy, %", "steps to 90%", "diverged"),
        *("gradient norm at the start", "gradient, first layer ÷ last"),
    ),
)
