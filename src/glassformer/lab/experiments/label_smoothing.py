"""Label smoothing: a worse perplexity for a better translation?"""

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
from glassformer.lab.learning import learn, loss, say
from glassformer.lab.report import cell
from glassformer.lab.sentences import Sentences, bleu, lesson
from glassformer.lab.trials import over

SMOOTHING = 0.1  # the paper's ε
PERPLEXITY, SCORE, EXACT = "perplexity", "BLEU", "translations to the letter, %"


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    taught = lesson(quick)
    taught = replace(
        taught,
        task=Sentences(pairs=int(arm["pairs"])),
        plan=replace(taught.plan, smoothing=float(arm["smoothing"])),
    )
    torch.manual_seed(seed)
    model, held_out = taught.translator(n_heads=4), taught.held_out()
    learn(model, taught.task, taught.plan, seed, held_out=held_out)
    said = say(model, held_out)
    yield Measurement(arm, seed, PERPLEXITY, exp(loss(model, held_out)))
    yield Measurement(arm, seed, SCORE, bleu(said))
    yield Measurement(arm, seed, EXACT, said.sequences)


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    """Few pairs are learned by heart, many are not."""
    amounts = (500,) if budget.quick else (2_000, 8_000)
    arms: list[Arm] = [
        {"pairs": pairs, "smoothing": smoothing}
        for pairs in amounts
        for smoothing in (0.0, SMOOTHING)
    ]
    return over(trial, arms, budget, tick)


def judge(results: Results) -> Verdict:
    amounts = results.choices("pairs")
    worse = [n for n in amounts if _change(results, PERPLEXITY, n) == "more"]
    better = [n for n in amounts if _change(results, SCORE, n) == "more"]
    because = f"With ε = {SMOOTHING}, " + "; ".join(_told(results, n) for n in amounts) + "."
    if worse == better == amounts:
        return Verdict("supported", because)
    if not better:
        return Verdict("not supported", f"{because} BLEU is nowhere better by more than chance.")
    told = f"Perplexity is worse with {_list(worse)} pairs, BLEU better with {_list(better)}."
    return Verdict("depends", f"{because} {told}")


def _sides(pairs: Value) -> tuple[Arm, Arm]:
    return {"pairs": pairs, "smoothing": SMOOTHING}, {"pairs": pairs, "smoothing": 0.0}


def _change(results: Results, quantity: str, pairs: Value) -> str:
    return results.compare(quantity, *_sides(pairs))


def _told(results: Results, pairs: Value) -> str:
    changes = (
        f"{name} {cell(results.difference(name, *_sides(pairs)))} (without it "
        f"{cell(results.summary(name, **_sides(pairs)[1]))})"
        for name in (PERPLEXITY, SCORE)
    )
    return f"{pairs} pairs to learn from: change of {', of '.join(changes)}"


def _list(amounts: list[Value]) -> str:
    return " and ".join(map(str, amounts)) or "no"


def draw(results: Results, figure: Any) -> None:
    for axes, quantity in zip(figure.subplots(1, 2), (PERPLEXITY, SCORE), strict=True):
        for pairs, colour in zip(results.choices("pairs"), COLOURS, strict=False):
            line(axes, results, quantity, "smoothing", f"{pairs} pairs", colour, pairs=pairs)
        axes.set_xticks(results.choices("smoothing"))
        axes.set_xlabel("label smoothing ε")
        axes.set_ylabel(f"{quantity} of held-out sentences")
        axes.legend(fontsize=8)


EXPERIMENT = Experiment(
    name="label-smoothing",
    title="Label smoothing",
    claim="Label smoothing hurts perplexity, as the model learns to be more unsure, but improves "
    "accuracy and BLEU.",
    source="Attention Is All You Need, §5.4",
    varied=f"label smoothing of {SMOOTHING} or none; few pairs of the embedded grammar to learn "
    "from, or many",
    measured="of held-out sentences, perplexity (without smoothing), BLEU of greedy translations, "
    "and how many of these are right to the letter",
    rule="Supported if with every number of pairs smoothing has the higher perplexity and the "
    "higher BLEU (95% intervals of the differences, seed by seed); not supported if it has the "
    "higher BLEU with none; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    seeds=5,
)
