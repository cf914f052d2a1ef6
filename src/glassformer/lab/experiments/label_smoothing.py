"""Label smoothing: worse perplexity, better BLEU?"""

from collections.abc import Iterator
from dataclasses import replace
from math import exp
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
from glassformer.lab.learning import greedy_decode, loss, train
from glassformer.lab.report import cell
from glassformer.lab.sentences import Sentences, bleu, translation_setup
from glassformer.lab.trials import run_trials

SMOOTHING = 0.1  # the paper's ε
PERPLEXITY, BLEU, EXACT = "perplexity", "BLEU", "exact match, %"


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    setup = translation_setup(quick)
    setup = replace(
        setup,
        task=Sentences(pairs=int(arm["pairs"])),
        plan=replace(setup.plan, smoothing=float(arm["smoothing"])),
    )
    torch.manual_seed(seed)
    model, held_out = setup.translator(n_heads=4), setup.held_out()
    train(model, setup.task, setup.plan, seed, held_out=held_out)
    decoded = greedy_decode(model, held_out)
    yield Measurement(arm, seed, PERPLEXITY, exp(loss(model, held_out)))
    yield Measurement(arm, seed, BLEU, bleu(decoded))
    yield Measurement(arm, seed, EXACT, decoded.exact_match)


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    """Use a small set, which the model memorises, and a larger one."""
    amounts = (500,) if budget.quick else (2_000, 8_000)
    arms: list[Arm] = [
        {"pairs": pairs, "smoothing": smoothing}
        for pairs in amounts
        for smoothing in (0.0, SMOOTHING)
    ]
    return run_trials(trial, arms, budget, tick)


def judge(results: Results) -> Verdict:
    amounts = results.choices("pairs")
    worse, better = (
        [n for n in amounts if results.compare(quantity, *_arms(n)) == "more"]
        for quantity in (PERPLEXITY, BLEU)
    )
    evidence = {
        f"change of {quantity} by smoothing, {n} pairs": cell(
            results.difference(quantity, *_arms(n))
        )
        for n in amounts
        for quantity in (PERPLEXITY, BLEU)
    }
    if worse == better == amounts:
        return Verdict("supported", "Smoothing raises perplexity and improves BLEU.", evidence)
    if not better:
        reason = "Smoothing does not improve BLEU with any number of training pairs."
        return Verdict("not supported", reason, evidence)
    reason = (
        f"Smoothing raises perplexity with {_list(worse)} training pairs, and improves BLEU with "
        f"{_list(better)}."
    )
    return Verdict("depends", reason, evidence)


def _arms(pairs: Value) -> tuple[Arm, Arm]:
    """Return the arms with and without smoothing."""
    return {"pairs": pairs, "smoothing": SMOOTHING}, {"pairs": pairs, "smoothing": 0.0}


def _list(amounts: list[Value]) -> str:
    return " and ".join(map(str, amounts)) or "no"


def draw(results: Results, figure: Any) -> None:
    for axes, quantity in zip(figure.subplots(1, 2), (PERPLEXITY, BLEU), strict=True):
        for pairs, colour in zip(results.choices("pairs"), COLOURS, strict=False):
            line(axes, results, quantity, "smoothing", f"{pairs} pairs", colour, pairs=pairs)
        axes.set_xticks(results.choices("smoothing"))
        axes.set_xlabel("label smoothing ε")
        axes.set_ylabel(f"held-out {quantity}")
        axes.legend(fontsize=8)


EXPERIMENT = Experiment(
    name="label-smoothing",
    title="Label smoothing",
    claim="Label smoothing hurts perplexity, as the model learns to be more unsure, but improves "
    "accuracy and BLEU.",
    source="Attention Is All You Need, §5.4",
    varied=f"label smoothing of {SMOOTHING} or none; the number of training pairs of the built-in "
    "grammar",
    measured="on held-out sentences: perplexity without smoothing, BLEU and exact match of greedy "
    "translations",
    rule="Supported if, with every number of pairs, smoothing gives higher perplexity and higher "
    "BLEU (95% intervals of the paired differences); not supported if it gives higher BLEU with "
    "none; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    seeds=5,
)
