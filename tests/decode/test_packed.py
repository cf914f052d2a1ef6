"""Packed linear layers: the same numbers in another layout."""

import gc

import pytest
import torch
from torch import nn

from decode.oracles import assert_same, sources, toy
from glassformer.data.batch import pad
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode import packed
from glassformer.decode.packed import (
    PackedEmbedding,
    PackedLinear,
    blocks_of,
    can_pack,
    pack,
    rows_of,
)
from glassformer.decode.search import SearchOptions, search
from glassformer.errors import InputError
from glassformer.model.attention import (
    MultiHeadAttention,
    few_queries_attention,
    scaled_dot_product_attention,
)
from glassformer.model.embedding import TokenEmbedding

needs_onednn = pytest.mark.skipif(not can_pack(), reason="this torch has no oneDNN")
CLOSE = {"rtol": 0, "atol": 1e-5}


@pytest.fixture(autouse=True)
def _layers_of_a_toy_too(monkeypatch):
    monkeypatch.setattr(packed, "SMALL", 0)


@needs_onednn
@pytest.mark.parametrize("shape", [(1, 16), (5, 16), (2, 3, 16), (40, 16), (2, 1, 3, 16)])
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_the_linear_layer(shape, bias):
    linear = nn.Linear(16, 24, bias)
    x = torch.randn(shape)
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(linear)(x), linear(x), **CLOSE)


@needs_onednn
def test_its_weight_is_the_one_it_was_made_of():
    linear = nn.Linear(16, 24)
    ours = PackedLinear(linear)
    assert torch.equal(ours.weight, linear.weight)
    assert torch.equal(ours.bias, linear.bias)
    assert (ours.in_features, ours.out_features) == (16, 24)
    assert PackedLinear(nn.Linear(16, 24, bias=False)).bias is None


@needs_onednn
def test_who_looks_at_all_it_has_does_not_work_out_its_weight():
    """As recording does: it would take as much memory again."""
    ours = PackedLinear(nn.Linear(16, 24))
    assert "weight" not in dir(ours)
    assert {"bias", "forward", "in_features"} <= set(dir(ours))


@needs_onednn
@torch.inference_mode()
def test_it_reads_what_is_not_laid_out_in_order():
    linear, x = nn.Linear(16, 24), torch.randn(6, 5, 16)
    ours = PackedLinear(linear)
    for view in (x.transpose(0, 1), x[:, -1:], x[::2], x[:1].expand(3, -1, -1)):
        torch.testing.assert_close(ours(view), linear(view), **CLOSE)


@needs_onednn
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"feed_forward": "swiglu", "n_kv_heads": 1, "attention_bias": True},
        {"tie_target_output": True, "positions": "rope"},
        {"tie_source_target": True, "tie_target_output": True},
    ],
    ids=str,
)
@torch.inference_mode()
def test_a_packed_model_gives_the_same_logits_and_says_the_same(changes):
    plain, ours = toy(**changes), toy(**changes)
    ours.load_state_dict(plain.state_dict())
    assert pack(ours) is ours
    assert not any(isinstance(module, nn.Linear) for module in ours.modules())
    source, target = pad(sources(4, 7, 1)), torch.randint(EOS, 12, (3, 5))
    torch.testing.assert_close(ours(source, target), plain(source, target), **CLOSE)
    options = SearchOptions(beam_size=3, n_best=2, max_length=8)
    assert_same(*(search(model, source, BOS, EOS, options) for model in (ours, plain)))


@needs_onednn
@torch.inference_mode()
def test_layers_are_given_their_weights_as_they_are_packed():
    """One after the other, under their names."""
    model, filled = toy(), []

    def fill(module, name):
        filled.append(name)
        nn.init.constant_(module.weight, 0.5)

    pack(model, fill)
    assert "encoder.layers.0.self_attention.qkv" in filled and "output" in filled
    assert (
        len(set(filled)) == len(filled) == sum(isinstance(m, PackedLinear) for m in model.modules())
    )
    assert (model.output.weight == 0.5).all()


@needs_onednn
def test_small_layers_stay_as_they_are(monkeypatch):
    model = toy(vocab_size=40)
    monkeypatch.setattr(packed, "SMALL", 16 * 40 - 1)
    pack(model)
    large = [name for name, m in model.named_modules() if isinstance(m, PackedLinear)]
    kept = [m for m in model.modules() if isinstance(m, nn.Linear)]
    assert "output" in large and kept
    assert all(m.weight.numel() < 16 * 40 for m in kept)


@needs_onednn
@pytest.mark.parametrize("shape", [(16,), (1, 16), (1, 1, 16), (2, 16), (1, 3, 16)])
@torch.inference_mode()
def test_a_row_is_what_one_of_its_copies_is(shape):
    linear, x = nn.Linear(16, 24), torch.randn(shape)
    torch.testing.assert_close(PackedLinear(linear, copies=4)(x), linear(x), **CLOSE)


@needs_onednn
@pytest.mark.parametrize(
    "cache, capability, copies",
    [(0, "AVX512", packed.COPIES), (0, "AVX2", 1), (packed.CACHE, "AVX512", 1)],
)
def test_rows_are_copied_where_weights_are_read_from_memory(cache, capability, copies, monkeypatch):
    monkeypatch.setattr(packed, "CACHE", cache)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert pack(toy()).output.copies == copies


def is_known_order() -> bool:
    """Of packed weights, on this processor."""
    linear = nn.Linear(32, 200)
    return (
        can_pack() and blocks_of(PackedLinear(linear)._packed, linear.weight.detach()) is not None
    )


needs_known_order = pytest.mark.skipif(not is_known_order(), reason="oneDNN's order is another")
TIED = {"tie_source_target": True, "tie_target_output": True}


@needs_known_order
@pytest.mark.parametrize("shape", [(64, 16), (200, 32), (77, 20), (5, 130)])
def test_packed_weights_are_read_where_they_lie(shape):
    linear = nn.Linear(*reversed(shape), bias=False)
    weight = linear.weight.detach()
    ours = PackedLinear(linear)
    blocks = blocks_of(ours._packed, weight)
    assert blocks is not None and blocks.data_ptr() == torch.ops.mkldnn.data_ptr(ours._packed)
    assert torch.equal(rows_of(blocks, torch.arange(len(weight))), weight)
    del ours, linear
    gc.collect()
    PackedLinear(nn.Linear(*reversed(shape)))  # where the others were, had they been let go
    assert torch.equal(rows_of(blocks, torch.arange(len(weight))), weight)


@needs_onednn
def test_an_order_that_is_not_known_is_not_guessed():
    linear = nn.Linear(16, 70, bias=False)
    assert blocks_of(PackedLinear(linear)._packed, linear.weight.detach() + 1) is None


@needs_known_order
@torch.inference_mode()
def test_one_table_serves_both_embeddings_and_the_output():
    plain, ours = toy(**TIED), toy(**TIED)
    ours.load_state_dict(plain.state_dict())
    pack(ours)
    embedding = ours.encoder.embedding
    assert isinstance(embedding, PackedEmbedding) and embedding is ours.decoder.embedding
    assert not any(p.numel() >= plain.output.weight.numel() for p in ours.parameters())
    assert embedding.vocab_size == plain.encoder.embedding.vocab_size
    assert torch.equal(embedding.weight, plain.output.weight)
    ids = torch.tensor([[3, 1, 3], [2, 0, 11]])
    assert torch.equal(embedding(ids), plain.encoder.embedding(ids))
    with pytest.raises(InputError, match="Token id 12 is outside"):
        embedding(ids + 1)


@needs_onednn
@pytest.mark.parametrize(
    "changes, order", [(TIED, ()), ({**TIED, "tie_target_output": False}, packed.BLOCKS)], ids=str
)
@torch.inference_mode()
def test_a_table_that_cannot_be_shared_stays(changes, order, monkeypatch):
    """In an order that nobody knows, or of other numbers than the output's."""
    monkeypatch.setattr(packed, "BLOCKS", order)
    model = pack(toy(**changes))
    assert isinstance(model.encoder.embedding, TokenEmbedding)
    assert model.encoder.embedding is model.decoder.embedding


def test_without_onednn_the_model_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(packed, "can_pack", lambda: False)
    model = toy().train()
    assert pack(model) is model
    assert not model.training
    assert any(isinstance(module, nn.Linear) for module in model.modules())


@pytest.mark.parametrize(
    ("asked", "used"),
    [("fused", few_queries_attention), ("readable", scaled_dot_product_attention)],
)
def test_attention_has_a_kernel_for_few_queries_unless_the_readable_one_was_asked_for(asked, used):
    model = pack(toy(attention=asked))
    kernels = {m.kernel for m in model.modules() if isinstance(m, MultiHeadAttention)}
    assert kernels == {used}
