"""Saliency: finite differences agree, and padding has none."""

from math import log

import numpy as np
import pytest
import torch

from equivalence.variants import PAIRS, variants
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.inspect import saliency
from glassformer.inspect.saliency import (
    differentiable,
    label_saliency,
    left_out,
    log_odds,
    output_saliency,
)
from glassformer.inspect.words import side
from glassformer.ngrams import NgramVotes, ngram_shapes
from glassformer.pipeline import Translator

SOURCE, OUTPUTS = [10, 11, 12, EOS], [13, 14, 15, EOS]
INPUTS = [BOS, *OUTPUTS[:-1]]
STEP = 1e-5


class Louder:
    """An embedding scaled by `factor` at one position of one call."""

    def __init__(self, embedding, call: int, place: int) -> None:
        self.embedding, self.call, self.place = embedding, call, place

    def answer(self, factor: float, ask):
        calls = []

        def change(module, args, output):
            calls.append(output)
            if len(calls) - 1 != self.call:
                return output
            scale = torch.ones(output.size(1), dtype=output.dtype)
            scale[self.place] = factor
            return output * scale[:, None]

        handle = self.embedding.register_forward_hook(change)
        with torch.no_grad():
            answers = ask()
        handle.remove()
        return answers

    def slope(self, ask):
        return (self.answer(1 + STEP, ask) - self.answer(1 - STEP, ask)) / (2 * STEP)


def read(classifier, text: str):
    (ids,) = classifier.tokenizer.encode([text])
    return side(classifier.tokenizer, text, [BOS, *ids])


def test_log_odds_compare_one_class_with_all_others() -> None:
    logits = torch.randn(3, 5, dtype=torch.double)
    odds = log_odds(logits, torch.tensor([0, 4, 2]))
    p = logits.softmax(-1)
    expected = [log(p[i, c] / (1 - p[i, c])) for i, c in enumerate([0, 4, 2])]
    assert odds.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("variant", variants(PAIRS, "translator"))
def test_gradient_times_input_is_the_derivative_by_the_scale_of_a_token(untrained, variant) -> None:
    translator = untrained(**variant | {"n_heads": 4})
    translator.model.double()
    found = output_saliency(translator, SOURCE, INPUTS, OUTPUTS)
    assert found["source"].shape == (4, 4) and found["target"].shape == (4, 4)

    def ask():
        logits = translator.model(torch.tensor([SOURCE]), torch.tensor([INPUTS]))[0]
        return log_odds(logits, torch.tensor(OUTPUTS))

    embedding = translator.model.encoder.embedding
    assert embedding is translator.model.decoder.embedding
    for call, rows in enumerate((found["source"], found["target"])):
        for place in range(4):
            slope = Louder(embedding, call, place).slope(ask)
            torch.testing.assert_close(rows[:, place], slope, atol=1e-5, rtol=1e-4)
    assert not found["target"].triu(1).any()  # future tokens
    assert found["target"].diagonal().abs().min() > 0 and found["source"].abs().min() > 0


def test_untied_vocabularies_and_language_models_have_saliency(untrained) -> None:
    found = output_saliency(untrained(sides=("source", "target")), SOURCE, INPUTS, OUTPUTS)
    assert found["source"].abs().min() > 0 and not found["target"].triu(1).any()
    found = output_saliency(untrained("language-model"), None, INPUTS, OUTPUTS)
    assert list(found) == ["target"] and not found["target"].triu(1).any()


def test_saliency_in_several_batches_equals_one_batch(
    untrained, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = untrained()
    whole = output_saliency(translator, SOURCE, INPUTS, OUTPUTS)
    monkeypatch.setattr(saliency, "BATCH_CELLS", 24)  # three rows, then one
    parts = output_saliency(translator, SOURCE, INPUTS, OUTPUTS)
    for name, rows in whole.items():
        torch.testing.assert_close(parts[name], rows)


@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
def test_label_saliency_is_the_derivative_by_the_scale_of_a_token(
    untrained, texts, pooling: str
) -> None:
    classifier = untrained("classifier", pooling=pooling)
    classifier.model.double()
    text = read(classifier, texts[1])
    found = label_saliency(classifier, text)["source"]

    def ask():
        logits = classifier.model(torch.tensor([text.ids]))
        return log_odds(logits.expand(3, -1), torch.arange(3))

    for place in range(len(text.ids)):
        slope = Louder(classifier.model.encoder.embedding, 0, place).slope(ask)
        torch.testing.assert_close(found[:, place], slope, atol=1e-5, rtol=1e-4)


def test_left_out_equals_classifying_the_text_without_the_word(
    untrained, texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = untrained("classifier")
    text = read(classifier, texts[1])
    found = left_out(classifier, text)
    assert found.shape == (3, len(text.words)) == (3, 7)
    monkeypatch.setattr(saliency, "BATCH_CELLS", 1)
    torch.testing.assert_close(left_out(classifier, text), found)

    def odds(ids):
        with torch.no_grad():
            p = classifier.model(torch.tensor([ids]))[0].softmax(-1).tolist()
        return [log(one / (1 - one)) for one in p]

    whole = odds(text.ids)
    for n, word in enumerate(text.words):
        without = odds([*text.ids[: word.start], *text.ids[word.end :]])
        expected = [a - b for a, b in zip(whole, without, strict=True)]
        assert found[:, n].tolist() == pytest.approx(expected, abs=1e-4)


def test_ngrams_count_where_a_word_is_left_out_and_have_no_gradient(untrained, texts) -> None:
    plain = untrained("classifier")
    classifier = untrained("classifier", ngrams=2, ngram_buckets=50, ngram_share=0.4)
    numbers, shapes = np.random.default_rng(0), ngram_shapes(classifier.settings.model)
    weights = {n: numbers.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    classifier.votes = NgramVotes.of(classifier.settings.model, weights)
    text = read(classifier, texts[1])
    rows = [list(text.ids), [*text.ids[: text.words[0].start], *text.ids[text.words[0].end :]]]
    odds = [
        log_odds(torch.from_numpy(classifier.logits([row])).expand(3, -1), torch.arange(3))
        for row in rows
    ]
    torch.testing.assert_close(
        left_out(classifier, text)[:, 0], odds[0] - odds[1], atol=1e-4, rtol=0
    )
    by_token = [label_saliency(one, text)["source"] for one in (classifier, plain)]
    assert not torch.allclose(*by_token), "the share of the encoder scales its gradient"


def test_two_labels_have_opposite_saliencies(untrained, texts) -> None:
    classifier = untrained("classifier", n_classes=2)
    classifier.labels = ("bad", "good")
    found = label_saliency(classifier, read(classifier, texts[0]))
    for rows in found.values():
        torch.testing.assert_close(rows[0], -rows[1])


def test_the_differentiable_copy_shares_weights_and_leaves_the_model_unchanged(untrained) -> None:
    model = untrained().model
    before = {name: id(module) for name, module in model.named_modules()}
    twin, leaves = differentiable(model)
    ids = torch.tensor([SOURCE]), torch.tensor([INPUTS])
    torch.testing.assert_close(twin(*ids), model(*ids), atol=0, rtol=0)
    assert [leaf.shape[1] for leaf in leaves] == [4, 4]
    assert {name: id(module) for name, module in model.named_modules()} == before
    shared = [twin.encoder.layers[0], model.encoder.layers[0]]
    assert shared[0] is not shared[1]
    assert shared[0].self_attention.qkv.weight is shared[1].self_attention.qkv.weight


def test_saliency_of_an_ensemble_is_that_of_its_first_model(untrained) -> None:
    """Members may have different sizes; the settings of an ensemble are those of one."""
    small, large = untrained(), untrained(d_model=32, encoder_layers=3)
    decoders = [TorchDecoder(large.model), TorchDecoder(small.model)]
    both = Translator(decoders, {"joint": small.tokenizer}, small.settings)
    found = output_saliency(both, SOURCE, INPUTS, OUTPUTS)
    for name, rows in output_saliency(large, SOURCE, INPUTS, OUTPUTS).items():
        assert torch.equal(found[name], rows)
