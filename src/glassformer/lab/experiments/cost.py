"""Growth of the time and memory of attention and decoding with length: fitted exponents."""

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
from glassformer.lab.drawing import COLOURS, line, log2_axis
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
from glassformer.lab.trials import run_trials
from glassformer.measure import best_seconds, exponent, peak_bytes
from glassformer.model.attention import fused_attention, scaled_dot_product_attention
from glassformer.model.build import build
from glassformer.model.transformer import LanguageModel

HEADS, D_K = 4, 64
KERNELS = {"readable": scaled_dot_product_attention, "fused": fused_attention}
EXPONENT = "exponent of n"
TIME, MEMORY = "seconds", "bytes"

# The claimed exponent of each cost.
CLAIMED: dict[tuple[str, str], int] = {
    ("attention, readable", TIME): 2,
    ("attention, fused", TIME): 2,
    ("attention, readable", MEMORY): 2,
    ("attention, fused", MEMORY): 1,
    ("next token, without cache", TIME): 1,
    ("next token, with cache", TIME): 0,
    ("cache", MEMORY): 1,
}
# Largest distance of an exponent from the claimed one. Claims are 1 apart, so their ranges do not
# overlap; lower-order terms shift most fits by up to 0.2 (glassformer lab run cost).
TOLERANCE = 0.35


@dataclass(frozen=True)
class Lengths:
    attention: tuple[int, ...] = (512, 1_024, 2_048, 4_096)
    decoding: tuple[int, ...] = (64, 128, 256, 512)
    rounds: int = 4  # of attention
    steps: int = 20  # of decoding; more, since each is short
    width: int = 256

    @classmethod
    def quick(cls) -> "Lengths":
        return cls((128, 256, 512), (64, 128, 256), 3, 5, 128)


Costs = dict[tuple[str, str], dict[int, float]]  # (operation, unit) -> cost by length


@torch.inference_mode()
def attention_costs(plan: Lengths) -> Costs:
    """Measure one self-attention without projections."""
    costs: Costs = {}
    for n in plan.attention:
        q, k, v = torch.randn(3, 1, HEADS, n, D_K).unbind()
        runs = {name: partial(kernel, q, k, v) for name, kernel in KERNELS.items()}
        spent = best_seconds(runs, plan.rounds, clock=thread_time)
        for name, run in runs.items():
            costs.setdefault((f"attention, {name}", TIME), {})[n] = spent[name]
            costs.setdefault((f"attention, {name}", MEMORY), {})[n] = peak_bytes(run)
    return costs


@torch.inference_mode()
def decoding_costs(model: LanguageModel, plan: Lengths) -> Costs:
    """Measure the next token after n others, and the size of their cache."""
    costs: Costs = {}
    for n in plan.decoding:
        ids = torch.full((1, n), BOS)
        decoding = TorchDecoder(model).start(None, 1, 1, n + plan.steps)
        decoding.prefill(ids[:, 1:].numpy())
        runs = {"with": partial(_step, decoding), "without": partial(_recompute, model, ids)}
        spent = best_seconds(runs, plan.steps, clock=thread_time)
        for name in runs:
            costs.setdefault((f"next token, {name} cache", TIME), {})[n] = spent[name]
        costs.setdefault(("cache", MEMORY), {})[n] = model.decoder.start_cache(n).n_bytes
    return costs


def _step(decoding: TorchDecoding) -> None:
    decoding.step(np.full((1, 1), BOS))


def _recompute(model: LanguageModel, ids: Tensor) -> None:
    """Run the model on all tokens to get one more."""
    model.output(model.features(ids)[:, -1:])


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    """Measure all costs at all lengths, and fit the exponent of each."""
    plan = Lengths.quick() if quick else Lengths()
    torch.manual_seed(seed)
    sizes = {"d_model": plan.width, "d_ff": 4 * plan.width, "vocab_size": 1_000}
    model = build("tiny", kind="language-model", decoder_layers=2, **sizes)
    assert isinstance(model, LanguageModel)
    costs = attention_costs(plan) | decoding_costs(model.eval(), plan)
    for (operation, unit), by_length in costs.items():
        for n, cost in by_length.items():
            yield Measurement({"operation": operation, "n": n}, seed, unit, float(cost))
        of: Arm = {"operation": operation, "cost": unit, "claimed": CLAIMED[operation, unit]}
        yield Measurement(of, seed, EXPONENT, exponent(list(by_length), list(by_length.values())))


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    """Run one trial at a time: a second process would disturb the timing."""
    return run_trials(trial, [{}], replace(budget, threads=1), tick)


def judge(results: Results) -> Verdict:
    found = {
        (operation, unit): results.summary(EXPONENT, operation=operation, cost=unit)
        for operation, unit in CLAIMED
    }
    near = [
        cost
        for cost, power in CLAIMED.items()
        if found[cost].above(power - TOLERANCE) and found[cost].below(power + TOLERANCE)
    ]
    far = [
        cost
        for cost, power in CLAIMED.items()
        if found[cost].below(power - TOLERANCE) or found[cost].above(power + TOLERANCE)
    ]
    if len(near) == len(CLAIMED):
        return Verdict("supported", "Every cost grows with the claimed power of the length.")
    others = "; ".join(f"{what} ({unit})" for what, unit in CLAIMED if (what, unit) not in near)
    outcome: Outcome = "not supported" if 2 * len(far) > len(CLAIMED) else "depends"
    return Verdict(outcome, f"These costs do not show the claimed growth: {others}.")


def draw(results: Results, figure: Any) -> None:
    for axes, unit in zip(figure.subplots(1, 2), (TIME, MEMORY), strict=True):
        names = [operation for operation, of in CLAIMED if of == unit]
        for name, colour in zip(names, COLOURS, strict=False):
            power = results.summary(EXPONENT, operation=name, cost=unit).mean
            line(axes, results, unit, "n", f"{name}: n^{power:.2f}", colour, operation=name)
        log2_axis(axes, sorted(results.choices("n"), key=float))
        axes.set_yscale("log", base=10)
        axes.set_xlabel("length n, tokens")
        axes.set_ylabel(unit)
        axes.legend(fontsize=8)


EXPERIMENT = Experiment(
    name="cost",
    title="Cost against length",
    claim="Time and memory of attention grow with the square of the length. A fused kernel needs "
    "memory that grows linearly, and with a cache the next token costs the same at any length.",
    source="Attention Is All You Need, §4 and Table 1; Dao et al. (2022), FlashAttention",
    varied="the length n, the attention kernel, and decoding with and without a cache",
    measured="processor seconds and peak bytes of attention, processor seconds of one more token, "
    "bytes of the cache, and the exponent p of the fit c · n^p of each",
    rule=f"A cost grows as claimed if the 95% interval of its exponent lies within {TOLERANCE} of "
    "the claimed one. Supported if all do; not supported if more than half lie outside; otherwise "
    "it depends. Claimed are 2 for the time of both kernels and the memory of the readable one; 1 "
    "for the memory of the fused one, the next token without a cache and the size of the cache; 0 "
    "for the next token with a cache.",
    measure=measure,
    judge=judge,
    draw=draw,
    seeds=5,
)
