"""One head or many, at equal width: how well they translate, and whether they differ."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from glassformer.data.batch import Batch
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
from glassformer.lab.gates import diversity, gated, prune
from glassformer.lab.learning import accuracy, learn, say
from glassformer.lab.report import cell
from glassformer.lab.sentences import Lesson, bleu, lesson
from glassformer.lab.trials import over

SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)  # of the heads, as they are pruned
SEEN = 48  # sentences that tell where heads look and what they matter
SCORE, APART, RIGHT = "BLEU", "distance between heads", "labels right, %"


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    taught = lesson(quick)
    torch.manual_seed(seed)
    model, held_out = taught.translator(n_heads=arm["heads"]), taught.held_out()
    some = taught.task.held_out(SEEN)
    yield from _apart(arm, seed, model, some, "no")
    learn(model, taught.task, taught.plan, seed, held_out=held_out)
    yield Measurement(arm, seed, SCORE, bleu(say(model, held_out)))
    yield from _apart(arm, seed, model, some, "yes")
    for share, right in pruned(model, taught, seed):
        yield Measurement({**arm, "left": share}, seed, RIGHT, right)


def _apart(
    arm: Arm, seed: int, model: nn.Module, batch: Batch, trained: str
) -> Iterator[Measurement]:
    if arm["heads"] != 1:  # a single head has none to differ from
        yield Measurement({**arm, "trained": trained}, seed, APART, diversity(model, batch))


def pruned(model: nn.Module, taught: Lesson, seed: int) -> Iterator[tuple[float, float]]:
    """Percent of held-out labels right with each of SHARES of the heads.

    Which head matters least is found out on sentences that were trained on.
    """
    seen = taught.task.examples(seed, 0, taught.task.pairs).batch(np.arange(SEEN))
    stages = list(prune(model, seen))
    for share in SHARES:
        with gated(model, stages[round((1 - share) * (len(stages) - 1))]):
            yield share, accuracy(model, taught.held_out())


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    numbers = (1, 4) if budget.quick else (1, 2, 4, 8, 16)
    arms: list[Arm] = [{"heads": n} for n in numbers]
    return over(trial, arms, budget, tick)


def judge(results: Results) -> Verdict:
    many = [n for n in results.choices("heads") if n != 1]
    better = [n for n in many if results.compare(SCORE, {"heads": n}, {"heads": 1}) == "more"]
    apart = [n for n in many if _learn_to_differ(results, n)]
    because = (
        f"BLEU of one head {cell(results.summary(SCORE, heads=1))}; beyond it {_gains(results)}. "
        f"{_distances(results, many[-1])} {_pruning(results, many[-1])}"
    )
    if not better:
        return Verdict("not supported", f"{because} No number of heads is better than one.")
    if better == apart == many:
        return Verdict("supported", because)
    told = f"Better than one: {_list(better)}; farther apart than untrained: {_list(apart)}."
    return Verdict("depends", f"{because} {told}")


def _learn_to_differ(results: Results, n: Value) -> bool:
    trained, untrained = ({"heads": n, "trained": word} for word in ("yes", "no"))
    return results.compare(APART, trained, untrained) == "more"


def _gains(results: Results) -> str:
    numbers = [n for n in results.choices("heads") if n != 1]
    gains = {n: results.difference(SCORE, {"heads": n}, {"heads": 1}) for n in numbers}
    return ", ".join(f"{cell(gain)} ({n} heads)" for n, gain in gains.items())


def _distances(results: Results, n: Value) -> str:
    after, before = (results.summary(APART, heads=n, trained=word) for word in ("yes", "no"))
    return f"Distance between {n} heads: {cell(after)}, before training {cell(before)}."


def _pruning(results: Results, n: Value) -> str:
    full, half = (results.summary(RIGHT, heads=n, left=share) for share in (1.0, 0.5))
    return f"Labels right with all of {n} heads: {cell(full)}%, with half of them {cell(half)}%."


def _list(numbers: list[Value]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def draw(results: Results, figure: Any) -> None:
    score, apart, left = figure.subplots(1, 3)
    line(score, results, SCORE, "heads")
    score.set_ylabel("BLEU, greedy")
    for word, label, colour in (("yes", "trained", COLOURS[0]), ("no", "untrained", COLOURS[5])):
        line(apart, results, APART, "heads", label, colour, trained=word)
    apart.set_ylabel("Jensen–Shannon distance between heads")
    apart.legend(fontsize=8)
    for axes in (score, apart):
        doublings(axes, results.choices("heads"))
        axes.set_xlabel("heads, at equal width")
    for n, colour in zip(results.choices("heads"), COLOURS, strict=False):
        line(left, results, RIGHT, "left", f"of {n}", colour, heads=n)
    left.set_xlabel("share of the heads that is left")
    left.set_ylabel("held-out labels right, %")
    left.invert_xaxis()
    left.legend(fontsize=8)


EXPERIMENT = Experiment(
    name="heads",
    title="One head or many",
    claim="Several heads look at different things at once, where a single one must average; at "
    "equal width they translate better than one.",
    source="Attention Is All You Need, §3.2.2 and Table 3 (A); on pruning, Michel et al. (2019), "
    "Are Sixteen Heads Really Better than One?",
    varied="the number of heads at equal width, from 1 to 16; after training, heads are taken away "
    "one after another, the least important first",
    measured="BLEU of greedy translations of the embedded grammar; how far apart the heads of one "
    "attention look (mean Jensen–Shannon distance, 0 alike and 1 disjoint), before and after "
    "training; held-out labels that are right with a share of the heads left",
    rule="Supported if every number of heads above one has more BLEU than one head, and heads "
    "farther apart than before training (95% interval of the difference, seed by seed, above 0); "
    "not supported if none has more BLEU; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    seeds=4,
)
