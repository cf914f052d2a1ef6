"""Keys and values shared among heads: a smaller cache and quicker steps, at what price?"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from time import thread_time
from typing import Any

import torch

from glassformer.data.tokenizer import EOS
from glassformer.decode.torch_decoder import TorchDecoder
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
    Value,
    Verdict,
)
from glassformer.lab.judging import above
from glassformer.lab.learning import learn, say
from glassformer.lab.report import cell
from glassformer.lab.sentences import bleu, lesson
from glassformer.lab.trials import over
from glassformer.measure import best_seconds
from glassformer.model.build import build
from glassformer.model.transformer import LanguageModel

HEADS = 8
GROUPS = {8: "MHA", 4: "GQA", 2: "GQA", 1: "MQA"}  # heads of keys and values
KV = "key-value heads"
SCORE, RIGHT, CACHE, SPEED = "BLEU", "labels right, %", "cache, bytes", "tokens/s"
KEPT = 3.0  # points of labels right: less than this lost is little


def quality(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    """Of a translator that is trained with these heads."""
    taught = lesson(quick)
    torch.manual_seed(seed)
    model, held_out = taught.translator(n_heads=HEADS, n_kv_heads=arm[KV]), taught.held_out()
    learned = learn(model, taught.task, taught.plan, seed, held_out=held_out)
    yield Measurement(arm, seed, RIGHT, learned.accuracy)
    yield Measurement(arm, seed, SCORE, bleu(say(model, held_out)))


@torch.inference_mode()
def speed(arm: Arm, seed: int, quick: bool) -> list[Measurement]:
    """Of one more token for each of 16 texts, behind many others; the models take turns.

    Wider than what is trained here: it takes no training to be slow.
    """
    behind, (width, batch, steps) = int(arm["behind"]), (128, 8, 4) if quick else (256, 16, 12)
    torch.manual_seed(seed)
    ids = torch.randint(EOS + 1, 1_000, (batch, behind)).numpy()
    decodings = {}
    for groups in GROUPS:
        sizes = {"d_model": width, "d_ff": 2 * width, "vocab_size": 1_000, "decoder_layers": 2}
        kind = {"kind": "language-model", "n_heads": HEADS, "n_kv_heads": groups}
        model = build("tiny", **sizes, **kind)
        assert isinstance(model, LanguageModel), "what was asked for"
        decodings[groups] = TorchDecoder(model.eval()).start(None, batch, 1, behind + steps)
        decodings[groups].prefill(ids)
    runs = {groups: partial(d.step, ids[:, :1]) for groups, d in decodings.items()}
    spent = best_seconds(runs, steps, clock=thread_time)
    found = []
    for groups, decoding in decodings.items():
        of: Arm = {KV: groups, **arm}
        kept = float(decoding.cache.n_bytes)
        found.append(Measurement(of, seed, CACHE, kept))
        found.append(Measurement(of, seed, SPEED, batch / spent[groups]))
    return found


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    groups = (8, 1) if budget.quick else tuple(GROUPS)
    arms: list[Arm] = [{KV: n} for n in groups]
    contexts: list[Arm] = [{"behind": n} for n in ((64, 256) if budget.quick else (64, 512))]
    found = over(quality, arms, budget, lambda share: tick(0.9 * share))
    alone = replace(budget, threads=1)  # what runs beside a clock is measured by it
    return found + over(speed, contexts, alone, lambda share: tick(0.9 + 0.1 * share))


def judge(results: Results) -> Verdict:
    behind = max(results.choices("behind"), key=float)
    fewer = [arm[KV] for arm in results.arms(SCORE) if arm[KV] != HEADS]
    held = {n: _holds(results, n, behind) for n in fewer}
    because = "; ".join(_told(results, n, behind) for n in fewer)
    because = f"Changes from {HEADS} key-value heads: {because}."
    if all(all(parts.values()) for parts in held.values()):
        return Verdict("supported", because)
    missing = "; ".join(
        f"{n}: {', '.join(part for part, holds in parts.items() if not holds)}"
        for n, parts in held.items()
        if not all(parts.values())
    )
    nowhere = not any(all(parts.values()) for parts in held.values())
    outcome: Outcome = "not supported" if nowhere else "depends"
    return Verdict(outcome, f"{because} Not shown with {missing}.")


def _holds(results: Results, n: Value, behind: Value) -> dict[str, bool]:
    one: Arm = {KV: n, "behind": behind}
    all_heads: Arm = {KV: HEADS, "behind": behind}
    lost = results.difference(RIGHT, {KV: n}, {KV: HEADS})
    return {
        "a smaller cache": results.compare(CACHE, one, all_heads) == "less",
        "faster decoding": results.compare(SPEED, one, all_heads) == "more",
        "quality kept": above(lost, -KEPT),
    }


def _told(results: Results, n: Value, behind: Value) -> str:
    def ratio(quantity: str) -> float:
        one, all_heads = (
            results.summary(quantity, **{KV: k, "behind": behind}).mean for k in (n, HEADS)
        )
        return one / all_heads

    lost = results.difference(RIGHT, {KV: n}, {KV: HEADS})
    bleus = results.difference(SCORE, {KV: n}, {KV: HEADS})
    return (
        f"with {n}, {ratio(CACHE):.3g} times the cache and {ratio(SPEED):.3g} times the tokens/s "
        f"behind {behind} tokens, labels right {cell(lost)} points, BLEU {cell(bleus)}"
    )


def draw(results: Results, figure: Any) -> None:
    quality, size, fast = figure.subplots(1, 3)
    line(quality, results, RIGHT, KV, RIGHT)
    line(quality, results, SCORE, KV, "BLEU, greedy", COLOURS[1])
    for number, behind in enumerate(results.choices("behind")):
        label, colour = f"behind {behind} tokens", COLOURS[number]
        line(size, results, CACHE, KV, label, colour, behind=behind)
        line(fast, results, SPEED, KV, label, colour, behind=behind)
    for axes, label in ((quality, "quality"), (size, CACHE), (fast, "tokens/s, in decoding")):
        doublings(axes, results.choices(KV))
        axes.set_xlabel(f"{KV} for {HEADS} heads")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8)


EXPERIMENT = Experiment(
    name="grouped-heads",
    title="MHA, GQA and MQA",
    claim="Heads that share keys and values need a smaller cache and decode faster, and translate "
    "nearly as well.",
    source="Shazeer (2019), Fast Transformer Decoding: One Write-Head is All You Need; Ainslie et "
    "al. (2023), GQA: Training Generalized Multi-Query Transformer Models",
    varied=f"how many heads of keys and values serve {HEADS} heads of queries, at equal width: "
    "all (MHA), some (GQA), one (MQA); how many tokens the next one comes behind",
    measured="labels right and BLEU of translators of the embedded grammar; bytes of the cache and "
    "tokens per processor second of a wider, untrained decoder",
    rule="Three things must hold of a smaller number: the cache is smaller; decoding is faster "
    "behind the longer text (95% interval of the difference); quality is kept, which is that the "
    f"95% interval of the change in labels right lies above -{KEPT:g} points. Supported if they "
    "hold of every number; not supported if of none; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    shown=(RIGHT, SCORE, CACHE, SPEED),
    seeds=4,
)
