"""Removing a head equals zeros in W^O, in one pass and in every step of a search."""

import pytest
import torch

from decode.oracles import assert_same, sources, toy
from equivalence.variants import PAIRS, variants
from glassformer.data.batch import pad
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.search import SearchOptions, search
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.errors import InputError
from glassformer.inspect.masking import (
    attention_names,
    head_indices,
    without_each,
    without_head,
)
from glassformer.model.attention import MultiHeadAttention, attentions, record_attention

SIZES = {"d_model": 8, "n_heads": 4, "encoder_layers": 2, "decoder_layers": 2}


def attention_of(model, kind: str, layer: int) -> MultiHeadAttention:
    return model.get_submodule(attention_names(model)[kind, layer])


def zeroed(model, kind: str, layer: int, head: int) -> torch.Tensor:
    """Zero the head's columns of the output projection; return the weights before."""
    attention = attention_of(model, kind, layer)
    own = slice(head * attention.d_k, (head + 1) * attention.d_k)
    before = attention.output.weight.data.clone()
    attention.output.weight.data[:, own] = 0
    return before


@pytest.mark.parametrize("variant", variants(PAIRS, "translator"))
def test_removing_a_head_equals_zeros_in_the_output_projection(variant) -> None:
    model = toy(**SIZES | variant, attention_bias=True)
    ids = torch.randint(4, 12, (2, 5)), torch.randint(4, 12, (2, 3))
    with torch.no_grad():
        whole = model(*ids)
        for place in [("encoder", 0, 0), ("decoder", 1, 2), ("cross", 1, 3)]:
            with without_head(model, *place):
                found = model(*ids)
            before = zeroed(model, *place)
            torch.testing.assert_close(found, model(*ids), atol=1e-5, rtol=1e-5)
            attention_of(model, *place[:2]).output.weight.data = before
            assert not torch.allclose(found, whole)
        assert torch.equal(model(*ids), whole)


def test_a_search_runs_without_the_head_at_every_step() -> None:
    model, source = toy(**SIZES), sources(5, 3)
    decoder, options = TorchDecoder(model), SearchOptions(beam_size=3, max_length=6, n_best=2)
    for place in [("encoder", 0, 0), ("decoder", 0, 2), ("cross", 1, 3)]:
        with without_head(model, *place):
            found = search(decoder, source, BOS, EOS, options)
        before = zeroed(model, *place)
        assert_same(found, search(decoder, source, BOS, EOS, options))
        attention_of(model, *place[:2]).output.weight.data = before


def test_the_kernels_are_restored_even_after_an_error() -> None:
    model = toy(**SIZES)
    kernels = [attention.kernel for attention in attentions(model).values()]
    with pytest.raises(RuntimeError), without_head(model, "cross", 0, 1):
        raise RuntimeError
    assert [attention.kernel for attention in attentions(model).values()] == kernels


def test_attention_can_be_recorded_while_a_head_is_removed() -> None:
    model, ids = toy(kind="classifier", **SIZES), torch.tensor([[BOS, 5, 6]])
    second = "encoder.layers.1.self_attention"

    def recorded() -> torch.Tensor:
        model(ids)
        return maps[second].pop()

    with torch.no_grad(), record_attention(model) as maps:
        whole = recorded()
        with without_head(model, "encoder", 0, 1):
            found = recorded()
        zeroed(model, "encoder", 0, 1)
        torch.testing.assert_close(found, recorded())
    assert not torch.allclose(found, whole)


def test_every_head_has_one_index() -> None:
    model = toy(**SIZES)
    found = head_indices(model)
    heads = [m.n_heads for m in model.modules() if isinstance(m, MultiHeadAttention)]
    assert len(found) == len(set(found)) == sum(heads) == 24
    assert {kind for kind, _, _ in found} == {"encoder", "decoder", "cross"}
    assert attention_of(model, "cross", 1) is model.decoder.layers[1].cross_attention
    assert head_indices(toy(kind="language-model", **SIZES))[-1] == ("decoder", 1, 3)


@pytest.mark.parametrize("place", [("cross", 2, 0), ("cross", 0, 4), ("encoder", 0, -1)])
def test_a_missing_head_is_an_error_that_names_it(place) -> None:
    message = f"no head {place[2]} in layer {place[1]}"
    with pytest.raises(InputError, match=message), without_head(toy(**SIZES), *place):
        pass


def test_without_each_removes_one_head_at_a_time() -> None:
    model, source, target = toy(**SIZES), pad(sources(4)), torch.tensor([[BOS, 5, 6]])

    @torch.no_grad()
    def score() -> float:
        return float(model(source, target)[0, -1, 7])

    ticks: list[int] = []
    whole, found = score(), without_each(model, score, lambda: ticks.append(1))
    assert score() == whole and list(found) == head_indices(model) and len(ticks) == 24
    for place in [("encoder", 1, 1), ("cross", 0, 2)]:
        with without_head(model, *place):
            assert found[place] == score() != whole
