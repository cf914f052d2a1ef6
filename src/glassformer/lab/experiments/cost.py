"""What attention and decoding cost as texts grow: exponents, fitted."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from time import thread_time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.data.tokenizer import BOS
from glassformer.decode.torch_decoder import TorchDecoder, TorchDecoding
from glassformer.lab.axes import doublings
from glassformer.lab.drawing import COLOURS, line
from glassformer.lab.experiment import (
    Arm,
    Budget,
    Experiment,
    Measurement,
    Outcome,
    Results,
    Tick,
    Verdict,
)
from glassformer.lab.judging import above, below
from glassformer.lab.report import cell
from glassformer.lab.trials import over
from glassformer.measure import best_seconds, exponent, peak_bytes
from glassformer.model.attention import fused_attention, scaled_dot_product_attention
from glassformer.model.build import build
from glassformer.model.transformer import LanguageModel

HEADS, D_K = 4, 64
KERNELS = {"readable": scaled_dot_product_attention, "fused": fused_attention}
GROWTH = "grows as n^"
TIME, MEMORY = "seconds", "bytes"

# What is claimed of each cost: the power of the length that it grows with.
CLAIMED: dict[tuple[str, str], int] = {
    ("attention, readable", TIME): 2,
    ("attention, fused", TIME): 2,
    ("attention, readable", MEMORY): 2,
    ("attention, fused", MEMORY): 1,
    ("a token, without cache", TIME): 1,
    ("a token, with cache", TIME): 0,
    ("the cache", MEMORY): 1,
}
NEAR = 0.35  # an exponent this near to the one claimed is the one claimed


@dataclass(frozen=True)
class Lengths:
    attention: tuple[int, ...] = (512, 1_024, 2_048, 4_096)
    decoding: tuple[int, ...] = (64, 128, 256, 512)
    turns: int = 4  # of attention
    steps: int = 20  # of decoding: short, so many
    width: int = 256

    @classmethod
    def quick(cls) -> "Lengths":
        return cls((128, 256, 512), (64, 128, 256), 3, 5, 128)


Costs = dict[tuple[str, str], dict[int, float]]  # by what and of which kind, at each length


@torch.inference_mode()
def attention_costs(plan: Lengths) -> Costs:
    """Of one self-attention without projections."""
    costs: Costs = {}
    for n in plan.attention:
        q, k, v = torch.randn(3, 1, HEADS, n, D_K).unbind()
        runs = {name: partial(kernel, q, k, v) for name, kernel in KERNELS.items()}
        spent = best_seconds(runs, plan.turns, clock=thread_time)
        for name, run in runs.items():
            costs.setdefault((f"attention, {name}", TIME), {})[n] = spent[name]
            costs.setdefault((f"attention, {name}", MEMORY), {})[n] = peak_bytes(run)
    return costs


@torch.inference_mode()
def decoding_costs(model: LanguageModel, plan: Lengths) -> Costs:
    """Measure the next token behind n others, and the cache of these."""
    costs: Costs = {}
    for n in plan.decoding:
        ids = torch.full((1, n), BOS)
        decoding = TorchDecoder(model).start(None, 1, 1, n + plan.steps)
        decoding.prefill(ids[:, 1:].numpy())
        runs = {"with": partial(_step, decoding), "without": partial(_again, model, ids)}
        spent = best_seconds(runs, plan.steps, clock=thread_time)
        for name in runs:
            costs.setdefault((f"a token, {name} cache", TIME), {})[n] = spent[name]
        kept = model.decoder.start_cache(n).n_bytes
        costs.setdefault(("the cache", MEMORY), {})[n] = kept
    return costs


def _step(decoding: TorchDecoding) -> None:
    decoding.step(np.full((1, 1), BOS))


def _again(model: LanguageModel, ids: Tensor) -> None:
    """Run the model on all tokens again, for one more token."""
    model.output(model.features(ids)[:, -1:])


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    """All costs at all lengths, and the exponent of each."""
    plan = Lengths.quick() if quick else Lengths()
    torch.manual_seed(seed)
    sizes = {"d_model": plan.width, "d_ff": 4 * plan.width, "vocab_size": 1_000}
    model = build("tiny", kind="language-model", decoder_layers=2, **sizes)
    assert isinstance(model, LanguageModel), "what was asked for"
    costs = attention_costs(plan) | decoding_costs(model.eval(), plan)
    for (what, kind), at in costs.items():
        for n, cost in at.items():
            yield Measurement({"what": what, "n": n}, seed, kind, float(cost))
        power = exponent(list(at), list(at.values()))
        yield Measurement({"what": what, "cost": kind}, seed, GROWTH, power)


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    """One after another: what runs beside a clock is measured by it."""
    return over(trial, [{}], replace(budget, threads=1), tick)


def judge(results: Results) -> Verdict:
    found = {of: results.summary(GROWTH, what=of[0], cost=of[1]) for of in CLAIMED}
    because = "; ".join(
        f"{what}, {kind}: n^{cell(found[what, kind])}, claimed {power}"
        for (what, kind), power in CLAIMED.items()
    )
    near = [
        of
        for of, power in CLAIMED.items()
        if above(found[of], power - NEAR) and below(found[of], power + NEAR)
    ]
    far = [
        of
        for of, power in CLAIMED.items()
        if below(found[of], power - NEAR) or above(found[of], power + NEAR)
    ]
    if len(near) == len(CLAIMED):
        return Verdict("supported", f"{because}.")
    told = "; ".join(f"{what}, {kind}" for what, kind in CLAIMED if (what, kind) not in near)
    outcome: Outcome = "not supported" if 2 * len(far) > len(CLAIMED) else "depends"
    return Verdict(outcome, f"{because}. Not as claimed, or not certainly: {told}.")


def draw(results: Results, figure: Any) -> None:
    for axes, kind in zip(figure.subplots(1, 2), (TIME, MEMORY), strict=True):
        names = [what for what, of in CLAIMED if of == kind]
        for what, colour in zip(names, COLOURS, strict=False):
            power = results.summary(GROWTH, what=what, cost=kind).mean
            line(axes, results, kind, "n", f"{what}: n^{power:.2f}", colour, what=what)
        doublings(axes, sorted(results.choices("n"), key=float))
        axes.set_yscale("log", base=10)
        axes.set_xlabel("tokens, n")
        axes.set_ylabel(kind)
        axes.legend(fontsize=8)


EXPERIMENT = Experiment(
    name="cost",
    title="Cost against length",
    claim="Attention takes time and memory that grow with the square of the length. A fused kernel "
    "needs memory that grows with the length only, and with a cache the next token costs the same "
    "however many came before.",
    source="Attention Is All You Need, §4 and Table 1; Dao et al. (2022), FlashAttention",
    varied="the length n; the kernel of attention; decoding with the cache or without",
    measured="processor seconds and most bytes held at once of attention; processor seconds of one "
    "more token; bytes of the cache; of each the exponent p of the fit c · n^p",
    rule=f"A cost grows as claimed if the 95% interval of its exponent lies within {NEAR} of the "
    "one claimed: 2 for the time of both kernels and the memory of the readable one; 1 for the "
    "memory of the fused one, the time of a token without the cache and the size of the cache; 0 "
    "for a token with the cache. Supported if all do; not supported if more than half lie outside; "
    "otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    seeds=5,
)
