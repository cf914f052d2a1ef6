"""Validation: the scores of exactly these weights on exactly these examples."""

from dataclasses import replace
from math import exp, log

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from glassformer.checkpoint import weights_of
from glassformer.data.batch import IGNORE
from glassformer.data.ragged import Ragged
from glassformer.data.tasks import FIRST
from glassformer.data.tokenizer import BOS, EOS
from glassformer.model.build import build
from glassformer.train.validate import attention_entropy, validate
from train.runs import tiny

DATA = tiny()
SETTINGS = DATA.settings.model
LAYERS = (
    "encoder.layers.0.self_attention",
    "decoder.layers.0.self_attention",
    "decoder.layers.0.cross_attention",
)


def weights() -> dict[str, Tensor]:
    return weights_of(build(SETTINGS))


@pytest.mark.parametrize("batch_tokens", [1, 40, 10_000])
@pytest.mark.parametrize("kind", ["translator", "tagger"])
def test_the_scores_are_torchs_over_all_examples_at_once(kind: str, batch_tokens: int) -> None:
    data = tiny(model={"kind": kind})
    model = build(data.settings.model).eval()
    batch = data.valid.batch(torch.arange(len(data.valid)).numpy())
    logits, labels = model(*batch.inputs).flatten(0, 1), batch.labels.flatten()
    right = (logits.argmax(-1) == labels)[labels != IGNORE]
    expected = F.cross_entropy(logits, labels, ignore_index=IGNORE).item()
    scores = validate(data.settings.model, weights_of(model), data.valid, batch_tokens, None)
    assert scores.keys() == {"loss", "accuracy", "perplexity"}
    assert_close(scores["loss"], expected, rtol=1e-5, atol=0)
    assert_close(scores["perplexity"], exp(expected), rtol=1e-4, atol=0)
    assert_close(scores["accuracy"], 100 * float(right.double().mean()))


def test_what_evaluate_says_of_these_weights_comes_along() -> None:
    given = weights()
    seen = []

    def evaluate(model: torch.nn.Module) -> dict[str, float]:
        seen.append((model.training, weights_of(model)))
        return {"bleu": 12.5}

    scores = validate(SETTINGS, given, DATA.valid, 64, evaluate)
    ((training, used),) = seen
    assert scores["bleu"] == 12.5 and scores["loss"] > 0
    assert not training
    assert all(torch.equal(used[name], given[name]) for name in given)


def test_a_hopeless_loss_has_a_perplexity_nevertheless() -> None:
    huge = {name: 1e4 * tensor for name, tensor in weights().items()}
    scores = validate(SETTINGS, huge, DATA.valid, 64, None)
    assert scores["loss"] > 700 and scores["perplexity"] == exp(700)


def test_entropy_is_asked_for_and_then_there_is_one_for_each_head() -> None:
    scores = validate(SETTINGS, weights(), DATA.valid, 64, None, entropy=True)
    names = {f"entropy/{layer}/{head}" for layer in LAYERS for head in range(2)}
    assert {name for name in scores if name.startswith("entropy")} == names


def test_attention_that_looks_everywhere_alike_has_the_entropy_of_its_width() -> None:
    model = build(SETTINGS).eval()
    for name, parameter in model.named_parameters():
        if "attention" in name:
            parameter.data.zero_()
    source = torch.tensor([[FIRST, FIRST, FIRST, EOS], [FIRST + 1, FIRST, EOS, 0]])
    target = torch.tensor([[BOS, FIRST, FIRST]] * 2)
    entropies = attention_entropy(model, (source, target))
    expected = {
        LAYERS[0]: (log(4) + log(3)) / 2,
        LAYERS[1]: (log(1) + log(2) + log(3)) / 3,
        LAYERS[2]: (log(4) + log(3)) / 2,
    }
    for layer, value in expected.items():
        for head in range(2):
            assert_close(entropies[f"entropy/{layer}/{head}"], value, rtol=1e-5, atol=0)


def test_attention_to_a_single_place_has_none() -> None:
    model = build(SETTINGS).eval()
    entropies = attention_entropy(model, (torch.tensor([[EOS]]), torch.tensor([[BOS]])))
    assert set(entropies.values()) == {0.0}


def test_several_sets_are_scored_one_by_one_and_by_their_mean():
    given = weights()
    half = len(DATA.valid) // 3
    parts = {
        name: replace(
            DATA.valid, sides=tuple(Ragged.of([s[i] for i in rows]) for s in DATA.valid.sides)
        )
        for name, rows in {"a": range(half), "b": range(half, len(DATA.valid))}.items()
    }
    scores = validate(SETTINGS, given, parts, 64, None)
    for name, part in parts.items():
        alone = validate(SETTINGS, given, part, 64, None)
        assert scores[f"loss/{name}"] == pytest.approx(alone["loss"])
        assert scores[f"accuracy/{name}"] == pytest.approx(alone["accuracy"])
    assert scores["loss"] == pytest.approx((scores["loss/a"] + scores["loss/b"]) / 2)
    assert scores["perplexity"] == pytest.approx(exp(scores["loss"]))
