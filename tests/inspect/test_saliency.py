"""Saliency: finite differences agree, and tokens that were not read have none."""

from math import log

import pytest
import torch

from equivalence.variants import PAIRS, variants
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.inspect import saliency
from glassformer.inspect.saliency import (
    differentiable,
    left_out,
    log_odds,
    of_answer,
    of_labels,
)
from glassformer.inspect.words import side
from glassformer.pipeline import Translator

SOURCE, OUTPUTS = [10, 11, 12, EOS], [13, 14, 15, EOS]
INPUTS = [BOS, *OUTPUTS[:-1]]
STEP = 1e-5


class Louder:
    """An embedding that is `factor` times as large at one place of one call."""

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


def test_log_odds_are_of_one_against_all_others() -> None:
    logits = torch.randn(3, 5, dtype=torch.double)
    odds = log_odds(logits, torch.tensor([0, 4, 2]))
    p = logits.softmax(-1)
    expected = [log(p[i, c] / (1 - p[i, c])) for i, c in enumerate([0, 4, 2])]
    assert odds.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("variant", variants(PAIRS, "translator"))
def test_gradient_times_input_is_the_slope_of_making_a_token_louder(untrained, variant) -> None:
    translator = untrained(**variant | {"n_heads": 4})
    translator.model.double()
    found = of_answer(translator, SOURCE, INPUTS, OUTPUTS)
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
    assert not found["target"].triu(1).any()  # what had not been read
    assert found["target"].diagonal().abs().min() > 0 and found["source"].abs().min() > 0


def test_sides_with_subwords_of_their_own_and_language_models_have_it_too(untrained) -> None:
    found = of_answer(untrained(sides=("source", "target")), SOURCE, INPUTS, OUTPUTS)
    assert found["source"].abs().min() > 0 and not found["target"].triu(1).any()
    found = of_answer(untrained("language-model"), None, INPUTS, OUTPUTS)
    assert list(found) == ["target"] and not found["target"].triu(1).any()


def test_rows_asked_in_turns_are_the_same(untrained, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = untrained()
    whole = of_answer(translator, SOURCE, INPUTS, OUTPUTS)
    monkeypatch.setattr(saliency, "CELLS", 24)  # three rows, then one
    parts = of_answer(translator, SOURCE, INPUTS, OUTPUTS)
    for name, rows in whole.items():
        torch.testing.assert_close(parts[name], rows)


@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
def test_of_labels_it_is_the_slope_as_well(untrained, texts, pooling: str) -> None:
    classifier = untrained("classifier", pooling=pooling)
    classifier.model.double()
    text = read(classifier, texts[1])
    found = of_labels(classifier, text)["source"]

    def ask():
        logits = classifier.model(torch.tensor([text.ids]))
        return log_odds(logits.expand(3, -1), torch.arange(3))

    for place in range(len(text.ids)):
        slope = Louder(classifier.model.encoder.embedding, 0, place).slope(ask)
        torch.testing.assert_close(found[:, place], slope, atol=1e-5, rtol=1e-4)


def test_a_word_left_out_is_the_text_without_it(
    untrained, texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = untrained("classifier")
    text = read(classifier, texts[1])
    found = left_out(classifier.model, text)
    assert found.shape == (3, len(text.words)) == (3, 7)
    monkeypatch.setattr(saliency, "CELLS", 1)
    torch.testing.assert_close(left_out(classifier.model, text), found)

    def odds(ids):
        with torch.no_grad():
            p = classifier.model(torch.tensor([ids]))[0].softmax(-1).tolist()
        return [log(one / (1 - one)) for one in p]

    whole = odds(text.ids)
    for n, word in enumerate(text.words):
        without = odds([*text.ids[: word.start], *text.ids[word.end :]])
        expected = [a - b for a, b in zip(whole, without, strict=True)]
        assert found[:, n].tolist() == pytest.approx(expected, abs=1e-4)


def test_two_labels_have_opposite_saliencies(untrained, texts) -> None:
    classifier = untrained("classifier", n_classes=2)
    classifier.labels = ("bad", "good")
    found = of_labels(classifier, read(classifier, texts[0]))
    for rows in found.values():
        torch.testing.assert_close(rows[0], -rows[1])


def test_a_twin_shares_its_weights_and_leaves_the_model_alone(untrained) -> None:
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


def test_of_an_ensemble_it_is_the_first_whatever_the_settings_say(untrained) -> None:
    """Members may have other sizes, and an ensemble's settings are of one of them."""
    small, large = untrained(), untrained(d_model=32, encoder_layers=3)
    decoders = [TorchDecoder(large.model), TorchDecoder(small.model)]
    both = Translator(decoders, {"joint": small.tokenizer}, small.settings)
    found = of_answer(both, SOURCE, INPUTS, OUTPUTS)
    for name, rows in of_answer(large, SOURCE, INPUTS, OUTPUTS).items():
        assert torch.equal(found[name], rows)
