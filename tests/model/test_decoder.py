"""The decoder: causality, caching, and memory."""

import pytest
import torch
from torch import nn

from glassformer.errors import InputError
from glassformer.interop.links import send
from glassformer.interop.torch_nn import layer_links
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.build import build
from glassformer.model.decoder import DecoderLayer, TransformerDecoder
from glassformer.model.feed_forward import FeedForward
from glassformer.model.masks import causal_mask, padding_mask
from glassformer.model.norm import LayerNorm
from glassformer.model.residual import PostNorm, PreNorm

D, H, F = 8, 2, 16
SCHEMES = ["sinusoidal", "learned", "rope", "alibi", "relative", "relative-bucketed", "none"]
IDS = torch.tensor([[3, 5, 2, 9, 4, 1], [7, 1, 6, 8, 2, 2]])
exact = {"rtol": 0, "atol": 1e-12}


def decoder(kind: str = "translator", **changes: object) -> TransformerDecoder:
    sizes = {"vocab_size": 11, "d_model": D, "n_heads": H, "d_ff": F, "decoder_layers": 2}
    stack = build("tiny", kind=kind, **sizes, **changes).double().eval().decoder
    for weight in stack.positions.parameters():
        nn.init.normal_(weight)  # learned biases start at zero, which would hide them
    return stack


@pytest.fixture
def memory():
    return torch.randn(2, 4, D, dtype=torch.float64)


@pytest.mark.parametrize("residual", [PostNorm, PreNorm])
def test_a_layer_equals_torch(residual, memory):
    ours = DecoderLayer(
        MultiHeadAttention(D, H, bias=True),
        FeedForward(D, F),
        lambda: residual(LayerNorm(D)),
        MultiHeadAttention(D, H, cross=True, bias=True),
    ).double()
    theirs = nn.TransformerDecoderLayer(
        D, H, F, dropout=0.0, norm_first=residual is PreNorm, batch_first=True
    ).double()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    send(layer_links(ours, theirs), theirs)
    x, real = torch.randn(2, 5, D).double(), torch.tensor([[1] * 4, [1, 1, 0, 0]]).bool()
    mask = causal_mask(5)
    expected = theirs(x, memory, tgt_mask=~mask[0, 0], memory_key_padding_mask=~real)
    actual = ours(x, mask, memory=memory, memory_mask=real[:, None, None, :])
    torch.testing.assert_close(actual, expected, **exact)


@pytest.mark.parametrize("residual", ["post-norm", "pre-norm"])
def test_the_stack_is_its_layers_and_a_final_norm_if_pre_norm(residual, memory):
    stack, length = decoder(residual=residual), IDS.size(1)
    x = stack.embed(IDS, torch.arange(length))
    for layer in stack.layers:
        x = layer(x, causal_mask(length), memory=memory)
    if residual == "pre-norm":
        x = nn.functional.layer_norm(x, (D,))
    torch.testing.assert_close(stack(IDS, memory), x, **exact)


@pytest.mark.parametrize("positions", SCHEMES)
@pytest.mark.parametrize("kind", ["translator", "language-model"])
def test_future_tokens_do_not_change_earlier_outputs(kind, positions, memory):
    stack = decoder(kind, positions=positions)
    memory = memory if kind == "translator" else None
    before = stack(IDS, memory)
    torch.testing.assert_close(before, stack(IDS, memory, causal_mask(6)), **exact)
    for changed in range(6):
        other = IDS.clone()
        other[:, changed] = 10
        after = stack(other, memory)
        torch.testing.assert_close(after[:, :changed], before[:, :changed], **exact)
        assert (after[:, changed:] != before[:, changed:]).any(-1).all()


def test_a_given_mask_replaces_the_causal_mask(memory):
    stack, everywhere = decoder(), torch.ones(1, 1, 1, 6, dtype=torch.bool)
    other = torch.cat((IDS[:, :-1], torch.full((2, 1), 10)), dim=1)
    seeing = [stack(ids, memory, everywhere)[:, 0] for ids in (IDS, other)]
    assert not torch.allclose(*seeing)


def test_masked_memory_does_not_change_the_output(memory):
    stack, real = decoder(), padding_mask(torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]))
    hidden, seen = memory.clone(), memory.clone()
    hidden[1, 2:] += 1
    seen[:, 1] += 1
    outputs = [stack(IDS, m, memory_mask=real) for m in (memory, hidden, seen)]
    torch.testing.assert_close(outputs[0], outputs[1], **exact)
    assert (outputs[0] != outputs[2]).any(-1).all()


@pytest.mark.parametrize("steps", [[1] * 6, [3, 3], [4, 1, 1], [1, 5]], ids=str)
@pytest.mark.parametrize("positions", SCHEMES)
@pytest.mark.parametrize("kind", ["translator", "language-model"])
def test_cached_steps_equal_one_pass(kind, positions, steps, memory):
    stack = decoder(kind, positions=positions, n_kv_heads=1)
    memory = memory if kind == "translator" else None
    cache = stack.start_cache(6, memory, batch=2)
    pieces = [stack(ids, cache=cache) for ids in IDS.split(steps, dim=1)]
    assert cache.length == 6
    torch.testing.assert_close(torch.cat(pieces, dim=1), stack(IDS, memory), **exact)


def test_with_a_cache_memory_is_not_read(memory):
    stack = decoder()
    with_other = stack(IDS, memory + 1, cache=stack.start_cache(6, memory))
    torch.testing.assert_close(with_other, stack(IDS, memory), **exact)


@pytest.mark.parametrize(
    "start", [lambda s: s(IDS), lambda s: s.start_cache(6)], ids=["run", "cache"]
)
def test_a_decoder_with_cross_attention_needs_memory(start):
    with pytest.raises(InputError, match="given no memory") as caught:
        start(decoder())
    assert "attend to the encoder's output" in caught.value.why
    assert "memory=encoder(source)" in caught.value.remedy
    assert "language model" in caught.value.remedy


@pytest.mark.parametrize(
    "start", [lambda s, m: s(IDS, m), lambda s, m: s.start_cache(6, m)], ids=["run", "cache"]
)
def test_a_language_model_refuses_memory(start, memory):
    with pytest.raises(InputError, match="no cross-attention to read it") as caught:
        start(decoder("language-model"), memory)
    assert "language model" in caught.value.why
    assert "Leave memory out, or build a translator" in caught.value.remedy
