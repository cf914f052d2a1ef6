"""Attention by kind, forced and in search, in every variant."""

import pytest
import torch

from decode.oracles import sources, toy
from equivalence.variants import PAIRS, variants
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.search import SearchOptions, search
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.inspect.maps import by_kind, decode, kind_of, read
from glassformer.model.attention import record_attention

SIZES = {"d_model": 8, "n_heads": 4, "encoder_layers": 2, "decoder_layers": 2}


@pytest.mark.parametrize("variant", variants(PAIRS, "translator", "language-model"))
def test_forced_attention_equals_that_of_the_search(variant) -> None:
    """Compare row by row with the steps of the search, which use the cache."""
    model = toy(**SIZES | variant | {"max_positions": 16})
    source = sources(5)[0] if variant["kind"] == "translator" else None
    options = SearchOptions(beam_size=1, max_length=6, min_length=4)
    with record_attention(model) as steps:
        given = None if source is None else [source]
        ((found,),) = search(TorchDecoder(model), given, BOS, EOS, options, [[]])
    inputs = [BOS, *found.ids][: len(found.ids) + found.complete]
    _, attention = decode([model], source, inputs)
    for layer in range(2):
        rows = steps[f"decoder.layers.{layer}.self_attention"]
        assert len(rows) == len(inputs)
        for t, row in enumerate(rows):
            own = attention["decoder"][layer, :, t]
            torch.testing.assert_close(own[:, : t + 1], row[0, :, 0], atol=1e-5, rtol=1e-4)
            assert not own[:, t + 1 :].any()  # the future: exactly 0
        if source is not None:
            rows = torch.cat(steps[f"decoder.layers.{layer}.cross_attention"], 2)[0]
            torch.testing.assert_close(attention["cross"][layer], rows, atol=1e-5, rtol=1e-4)
            (whole,) = steps[f"encoder.layers.{layer}.self_attention"]
            torch.testing.assert_close(attention["encoder"][layer], whole[0])
    for weights in attention.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))


def test_log_probabilities_equal_those_of_the_model() -> None:
    model, (source,), target = toy(), sources(4), [BOS, 5, 6]
    log_probs, attention = decode([model], source, target)
    with torch.no_grad():
        logits = model(torch.tensor([source]), torch.tensor([target]))[0]
    torch.testing.assert_close(log_probs, logits.log_softmax(-1))
    assert {k: tuple(v.shape) for k, v in attention.items()} == {
        "encoder": (1, 4, 5, 5), "decoder": (1, 4, 3, 3), "cross": (1, 4, 3, 5),
    }  # fmt: skip


def test_an_ensemble_has_the_attention_of_its_first_model() -> None:
    one, other = toy(), toy()
    (source,), target = sources(4), [BOS, 5, 6]
    log_probs, attention = decode([one, other], source, target)
    alone, its = decode([one], source, target)
    assert all(torch.equal(attention[kind], its[kind]) for kind in its)
    mean = (alone.exp() + decode([other], source, target)[0].exp()) / 2
    torch.testing.assert_close(log_probs.exp(), mean)


def test_an_encoder_pass_returns_output_and_attention() -> None:
    model, ids = toy(kind="classifier"), torch.tensor([[BOS, 5, 6, 7]])
    logits, attention = read(model, ids)
    with record_attention(model) as maps, torch.no_grad():
        assert torch.equal(logits, model(ids))
    assert list(attention) == ["encoder"]
    assert torch.equal(attention["encoder"], by_kind(maps)["encoder"])


def test_the_kind_of_attention_follows_from_its_name() -> None:
    names = ["encoder.layers.0.self_attention", "decoder.layers.1.self_attention"]
    names += ["decoder.layers.1.cross_attention"]
    assert [kind_of(name) for name in names] == ["encoder", "decoder", "cross"]
