"""One head or many at equal width: quality, diversity and pruning."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from glassformer.data.batch import Batch
from glassformer.inspect.masking import gated
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
from glassformer.lab.gates import diversity, prune
from glassformer.lab.learning import accuracy, greedy_decode, train
from glassformer.lab.report import cell
from glassformer.lab.sentences import Setup, bleu, translation_setup
from glassformer.lab.trials import run_trials

SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)  # of the heads that pruning keeps
# Sentences for diversity and importance: each of the up to 96 pruning steps needs one backward
# pass over them, and a full run must end in 5 minutes (glassformer lab run heads).
SENTENCES = 48
BLEU, DISTANCE, ACCURACY = "BLEU", "distance between heads", "accuracy, %"
KEPT = "heads kept, share"


def trial(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    setup = translation_setup(quick)
    torch.manual_seed(seed)
    model, held_out = setup.translator(n_heads=arm["heads"]), setup.held_out()
    some = setup.task.held_out(SENTENCES)
    yield from _distance(arm, seed, model, some, "no")
    train(model, setup.task, setup.plan, seed, held_out=held_out)
    yield Measurement(arm, seed, BLEU, bleu(greedy_decode(model, held_out)))
    yield from _distance(arm, seed, model, some, "yes")
    for share, percent in accuracy_after_pruning(model, setup, seed):
        yield Measurement({**arm, KEPT: share}, seed, ACCURACY, percent)


def _distance(
    arm: Arm, seed: int, model: nn.Module, batch: Batch, trained: str
) -> Iterator[Measurement]:
    if arm["heads"] != 1:  # a single head has no other
        yield Measurement({**arm, "trained": trained}, seed, DISTANCE, diversity(model, batch))


def accuracy_after_pruning(
    model: nn.Module, setup: Setup, seed: int
) -> Iterator[tuple[float, float]]:
    """Yield each of SHARES and the held-out accuracy with that share of the heads.

    Training sentences decide which head is the least important.
    """
    batch = setup.task.examples(seed, 0, setup.task.pairs).batch(np.arange(SENTENCES))
    stages = list(prune(model, batch))
    for share in SHARES:
        with gated(model, stages[round((1 - share) * (len(stages) - 1))]):
            yield share, accuracy(model, setup.held_out())


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    numbers = (1, 4) if budget.quick else (1, 2, 4, 8, 16)
    arms: list[Arm] = [{"heads": n} for n in numbers]
    return run_trials(trial, arms, budget, tick)


def judge(results: Results) -> Verdict:
    many = [n for n in results.choices("heads") if n != 1]
    better = [n for n in many if results.compare(BLEU, {"heads": n}, {"heads": 1}) == "more"]
    diverse = [n for n in many if results.compare(DISTANCE, *_trained(n)) == "more"]
    evidence = {}
    for n in many:
        gain = results.difference(BLEU, {"heads": n}, {"heads": 1})
        evidence[f"{n} heads − 1 head: BLEU"] = cell(gain)
        spread = results.difference(DISTANCE, *_trained(n))
        evidence[f"{n} heads, trained − untrained: {DISTANCE}"] = cell(spread)
    if not better:
        return Verdict("not supported", "No number of heads has higher BLEU than one.", evidence)
    if better == diverse == many:
        reason = "Several heads have higher BLEU than one, and learn to attend differently."
        return Verdict("supported", reason, evidence)
    reason = (
        f"Higher BLEU than one head: {_list(better)} heads; more diverse after training: "
        f"{_list(diverse)} heads."
    )
    return Verdict("depends", reason, evidence)


def _trained(n: Value) -> tuple[Arm, Arm]:
    """Return the arms after and before training."""
    return {"heads": n, "trained": "yes"}, {"heads": n, "trained": "no"}


def _list(numbers: list[Value]) -> str:
    return ", ".join(map(str, numbers)) or "no"


def draw(results: Results, figure: Any) -> None:
    score, distance, pruning = figure.subplots(1, 3)
    line(score, results, BLEU, "heads")
    score.set_ylabel("BLEU, greedy")
    for word, label, colour in (("yes", "trained", COLOURS[0]), ("no", "untrained", COLOURS[5])):
        line(distance, results, DISTANCE, "heads", label, colour, trained=word)
    distance.set_ylabel("Jensen–Shannon distance between heads")
    distance.legend(fontsize=8)
    for axes in (score, distance):
        log2_axis(axes, results.choices("heads"))
        axes.set_xlabel("heads, at equal width")
    for n, colour in zip(results.choices("heads"), COLOURS, strict=False):
        line(pruning, results, ACCURACY, KEPT, f"{n} heads", colour, heads=n)
    pruning.set_xlabel(KEPT)
    pruning.set_ylabel("held-out accuracy, %")
    pruning.invert_xaxis()
    pruning.legend(fontsize=8)


EXPERIMENT = Experiment(
    name="heads",
    title="One head or many",
    claim="Several heads attend to different things at once, where a single head must average. At "
    "equal width they translate better than one.",
    source="Attention Is All You Need, §3.2.2 and Table 3 (A); on pruning, Michel et al. (2019), "
    "Are Sixteen Heads Really Better than One?",
    varied="the number of heads at equal width, from 1 to 16; after training, heads are pruned one "
    "by one, the least important first",
    measured="BLEU of greedy translations of the built-in grammar; mean Jensen–Shannon distance "
    "between the heads of one attention (0 equal, 1 disjoint) before and after training; held-out "
    "accuracy with a share of the heads",
    rule="Supported if every number of heads above one has higher BLEU than one head and more "
    "distant heads than before training (95% interval of the paired difference above 0); not "
    "supported if none has higher BLEU; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    seeds=4,
)
