"""Grouped and multi-query attention: cache size, decoding speed and quality."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from time import thread_time
from typing import Any

import torch

from glassformer.data.tokenizer import EOS
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.lab.drawing import COLOURS, line, log2_axis
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
from glassformer.lab.learning import greedy_decode, train
from glassformer.lab.report import cell
from glassformer.lab.sentences import bleu, translation_setup
from glassformer.lab.trials import run_trials
from glassformer.measure import best_seconds
from glassformer.model.build import build
from glassformer.model.transformer import LanguageModel

HEADS = 8
GROUPS = {8: "MHA", 4: "GQA", 2: "GQA", 1: "MQA"}  # by the number of key-value heads
KV = "key-value heads"
BLEU, ACCURACY, CACHE, SPEED = "BLEU", "accuracy, %", "cache, bytes", "tokens/s"
CONTEXT = "context, tokens"
# Points of accuracy: a smaller loss counts as quality kept. It is about twice the half-width of the
# interval of the difference with 4 seeds (glassformer lab run grouped-heads).
MAX_LOSS = 3.0


def quality(arm: Arm, seed: int, quick: bool) -> Iterator[Measurement]:
    """Train a translator with these heads and score it."""
    setup = translation_setup(quick)
    torch.manual_seed(seed)
    model, held_out = setup.translator(n_heads=HEADS, n_kv_heads=arm[KV]), setup.held_out()
    run = train(model, setup.task, setup.plan, seed, held_out=held_out)
    yield Measurement(arm, seed, ACCURACY, run.accuracy)
    yield Measurement(arm, seed, BLEU, bleu(greedy_decode(model, held_out)))


@torch.inference_mode()
def speed(arm: Arm, seed: int, quick: bool) -> list[Measurement]:
    """Measure one decoding step of a batch after a long context; the models alternate.

    The models are wider than the trained ones, and untrained: weights do not change the speed.
    """
    context, (width, batch, steps) = int(arm[CONTEXT]), (128, 8, 4) if quick else (256, 16, 12)
    torch.manual_seed(seed)
    ids = torch.randint(EOS + 1, 1_000, (batch, context)).numpy()
    decodings = {}
    for groups in GROUPS:
        sizes = {"d_model": width, "d_ff": 2 * width, "vocab_size": 1_000, "decoder_layers": 2}
        kind = {"kind": "language-model", "n_heads": HEADS, "n_kv_heads": groups}
        model = build("tiny", **sizes, **kind)
        assert isinstance(model, LanguageModel)
        decodings[groups] = TorchDecoder(model.eval()).start(None, batch, 1, context + steps)
        decodings[groups].prefill(ids)
    runs = {groups: partial(d.step, ids[:, :1]) for groups, d in decodings.items()}
    spent = best_seconds(runs, steps, clock=thread_time)
    found = []
    for groups, decoding in decodings.items():
        of: Arm = {KV: groups, **arm}
        found.append(Measurement(of, seed, CACHE, float(decoding.cache.n_bytes)))
        found.append(Measurement(of, seed, SPEED, batch / spent[groups]))
    return found


def measure(budget: Budget, tick: Tick) -> list[Measurement]:
    groups = (8, 1) if budget.quick else tuple(GROUPS)
    arms: list[Arm] = [{KV: n} for n in groups]
    contexts: list[Arm] = [{CONTEXT: n} for n in ((64, 256) if budget.quick else (64, 512))]
    found = run_trials(quality, arms, budget, lambda share: tick(0.9 * share))
    alone = replace(budget, threads=1)  # a second process would disturb the timing
    return found + run_trials(speed, contexts, alone, lambda share: tick(0.9 + 0.1 * share))


def judge(results: Results) -> Verdict:
    context = max(results.choices(CONTEXT), key=float)
    fewer = [arm[KV] for arm in results.arms(BLEU) if arm[KV] != HEADS]
    failed = {n: _failed_parts(results, n, context) for n in fewer}
    evidence = {k: v for n in fewer for k, v in _evidence(results, n, context).items()}
    if not any(failed.values()):
        reason = "Fewer key-value heads shrink the cache, decode faster and keep the quality."
        return Verdict("supported", reason, evidence)
    listed = "; ".join(
        f"{', '.join(parts)} with {n} of {HEADS}" for n, parts in failed.items() if parts
    )
    outcome: Outcome = "not supported" if all(failed.values()) else "depends"
    return Verdict(outcome, f"Not shown: {listed} key-value heads.", evidence)


def _failed_parts(results: Results, n: Value, context: Value) -> list[str]:
    """Return the parts of the claim that do not hold for `n` key-value heads."""
    one: Arm = {KV: n, CONTEXT: context}
    all_heads: Arm = {KV: HEADS, CONTEXT: context}
    change = results.difference(ACCURACY, {KV: n}, {KV: HEADS})
    holds = {
        "a smaller cache": results.compare(CACHE, one, all_heads) == "less",
        "faster decoding": results.compare(SPEED, one, all_heads) == "more",
        "quality": change.above(-MAX_LOSS),
    }
    return [part for part, holds_here in holds.items() if not holds_here]


def _evidence(results: Results, n: Value, context: Value) -> dict[str, str]:
    """Return the changes from all heads to `n` key-value heads."""

    def ratio(quantity: str) -> str:
        one, all_heads = (
            results.summary(quantity, **{KV: k, CONTEXT: context}).mean for k in (n, HEADS)
        )
        return f"{one / all_heads:.3g}"

    changes = {q: results.difference(q, {KV: n}, {KV: HEADS}) for q in (ACCURACY, BLEU)}
    heads = f"{n} key-value heads against {HEADS}"
    return {
        f"{heads}: cache, ratio": ratio(CACHE),
        f"{heads}: tokens/s after {context} tokens, ratio": ratio(SPEED),
        f"{heads}: accuracy, points": cell(changes[ACCURACY]),
        f"{heads}: BLEU": cell(changes[BLEU]),
    }


def draw(results: Results, figure: Any) -> None:
    quality, size, fast = figure.subplots(1, 3)
    line(quality, results, ACCURACY, KV, ACCURACY)
    line(quality, results, BLEU, KV, "BLEU, greedy", COLOURS[1])
    for number, context in enumerate(results.choices(CONTEXT)):
        label, colour, arm = f"after {context} tokens", COLOURS[number], {CONTEXT: context}
        line(size, results, CACHE, KV, label, colour, "o-", **arm)
        line(fast, results, SPEED, KV, label, colour, "o-", **arm)
    for axes, label in ((quality, "quality"), (size, CACHE), (fast, "decoding, tokens/s")):
        log2_axis(axes, results.choices(KV))
        axes.set_xlabel(f"{KV} for {HEADS} query heads")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8)


EXPERIMENT = Experiment(
    name="grouped-heads",
    title="MHA, GQA and MQA",
    claim="Heads that share keys and values need a smaller cache, decode faster, and translate "
    "nearly as well.",
    source="Shazeer (2019), Fast Transformer Decoding: One Write-Head is All You Need; Ainslie et "
    "al. (2023), GQA: Training Generalized Multi-Query Transformer Models",
    varied=f"the number of key-value heads for {HEADS} query heads at equal width: all (MHA), some "
    "(GQA), one (MQA); the number of tokens before the next one",
    measured="accuracy and BLEU of translators of the built-in grammar; bytes of the cache and "
    "tokens per processor second of a wider, untrained decoder",
    rule="For a smaller number of key-value heads, three things must hold: the cache is smaller; "
    "decoding after the longer context is faster (95% interval of the paired difference); and the "
    f"95% interval of the change in accuracy lies above -{MAX_LOSS:g} points. Supported if they "
    "hold for every number; not supported if for none; otherwise it depends.",
    measure=measure,
    judge=judge,
    draw=draw,
    shown=(ACCURACY, BLEU, CACHE, SPEED),
    seeds=4,
)
