"""The same weights in torch.nn's modules give the same outputs and the same gradients."""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from equivalence.variants import PAD, TOY, batch, randomised, toy
from glassformer.interop.links import Link, receive, send
from glassformer.interop.torch_nn import attention_links, layer_links, transformer_links
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.masks import causal_mask, padding_mask, target_mask
from glassformer.model.norm import LayerNorm

CLOSE = {"atol": 1e-10, "rtol": 1e-10}
SIZES = {"d_model": TOY.d_model, "nhead": TOY.n_heads, "dim_feedforward": TOY.d_ff}
THEIRS = {"dropout": 0.0, "batch_first": True, "dtype": torch.float64}

SOURCE, TARGET = batch("translator")
LENGTH = TARGET.size(1)
FUTURE = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
MASKS: dict[str, tuple[Tensor | None, dict[str, Tensor]]] = {  # ours, and the same to torch.nn
    "no mask": (None, {}),
    "padding": (padding_mask(TARGET, PAD), {"key_padding_mask": TARGET == PAD}),
    "causal": (causal_mask(LENGTH), {"attn_mask": FUTURE}),
    "both": (target_mask(TARGET, PAD), {"key_padding_mask": TARGET == PAD, "attn_mask": FUTURE}),
}

Copy = Callable[[list[Link], nn.Module], None]
either_way = pytest.mark.parametrize(
    "copy", [send, lambda links, _: receive(links)], ids=["send", "receive"]
)
each_residual = pytest.mark.parametrize("residual", ["post-norm", "pre-norm"])
each_activation = pytest.mark.parametrize("activation", ["relu", "gelu"])


def linked(
    copy: Copy,
    links: Iterable[Link],
    ours: nn.Module,
    theirs: nn.Module,
    apart: Iterable[Tensor] = (),
) -> list[Link]:
    """Give both models the same weights, and see that none but those `apart` are left out."""
    links, apart = list(links), {id(parameter) for parameter in apart}
    copy(links, theirs)
    for side, model in enumerate((ours, theirs)):
        expected = sum(p.numel() for p in model.parameters() if id(p) not in apart)
        assert sum(link.values()[side].numel() for link in links) == expected
    return links


def twins(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Random vectors for `ids`, twice: for our model and for theirs."""
    x = torch.randn(*ids.shape, TOY.d_model, dtype=torch.float64)
    return x.clone().requires_grad_(), x.clone().requires_grad_()


def assert_alike(
    ours: Tensor, theirs: Tensor, links: list[Link], *inputs: tuple[Tensor, Tensor]
) -> None:
    """In value, in the gradient of every weight and in that of every input."""
    assert_close(ours, theirs, **CLOSE)
    weights = torch.randn_like(ours)
    for output in (ours, theirs):
        (output * weights).sum().backward()
    for mine, other in chain(map(Link.gradients, links), ((x.grad, y.grad) for x, y in inputs)):
        assert_close(mine, other, **CLOSE)


def attentions(cross: bool, bias: bool, their_bias: bool) -> tuple[MultiHeadAttention, Any]:
    ours = MultiHeadAttention(TOY.d_model, TOY.n_heads, cross=cross, bias=bias).double()
    theirs = nn.MultiheadAttention(TOY.d_model, TOY.n_heads, bias=their_bias, **THEIRS)
    return randomised(ours), randomised(theirs)


@either_way
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("mask", MASKS)
def test_self_attention_equals_torch_s(copy: Copy, bias: bool, mask: str) -> None:
    ours, theirs = attentions(False, bias, bias)
    links = linked(copy, attention_links(ours, theirs), ours, theirs)
    our_mask, their_masks = MASKS[mask]
    x, y = twins(TARGET)
    assert_alike(ours(x, mask=our_mask), theirs(y, y, y, **their_masks)[0], links, (x, y))


@either_way
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("mask", ["no mask", "padding"])
def test_cross_attention_equals_torch_s(copy: Copy, bias: bool, mask: str) -> None:
    ours, theirs = attentions(True, bias, bias)
    links = linked(copy, attention_links(ours, theirs), ours, theirs)
    our_mask, their_masks = MASKS[mask]
    (x, y), (memory, their_memory) = twins(TARGET[:, :3]), twins(TARGET)
    output = theirs(y, their_memory, their_memory, **their_masks)[0]
    assert_alike(ours(x, memory, our_mask), output, links, (x, y), (memory, their_memory))


@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
def test_biases_that_our_attention_lacks_are_zero_in_torch_s(cross: bool) -> None:
    ours, theirs = attentions(cross, False, True)
    biases = (theirs.in_proj_bias, theirs.out_proj.bias)
    links = linked(send, attention_links(ours, theirs), ours, theirs, apart=biases)
    (x, y), (memory, their_memory) = twins(TARGET), twins(SOURCE)
    if cross:
        output = theirs(y, their_memory, their_memory)[0]
        assert_alike(ours(x, memory), output, links, (x, y), (memory, their_memory))
    else:
        assert_alike(ours(x), theirs(y, y, y)[0], links, (x, y))


@either_way
@each_residual
@each_activation
def test_an_encoder_layer_equals_torch_s(copy: Copy, residual: str, activation: str) -> None:
    model = toy(residual=residual, feed_forward=activation, attention_bias=True)
    ours, norm_first = model.encoder.layers[0], residual == "pre-norm"
    theirs = nn.TransformerEncoderLayer(
        **SIZES, **THEIRS, activation=activation, norm_first=norm_first
    )
    links = linked(copy, layer_links(ours, randomised(theirs)), ours, theirs)
    x, y = twins(SOURCE)
    output = theirs(y, src_key_padding_mask=SOURCE == PAD)
    assert_alike(ours(x, padding_mask(SOURCE, PAD)), output, links, (x, y))


@either_way
@each_residual
@each_activation
def test_a_decoder_layer_equals_torch_s(copy: Copy, residual: str, activation: str) -> None:
    model = toy(residual=residual, feed_forward=activation, attention_bias=True)
    ours, norm_first = model.decoder.layers[0], residual == "pre-norm"
    theirs = nn.TransformerDecoderLayer(
        **SIZES, **THEIRS, activation=activation, norm_first=norm_first
    )
    links = linked(copy, layer_links(ours, randomised(theirs)), ours, theirs)
    (x, y), (memory, their_memory) = twins(TARGET), twins(SOURCE)
    masks = {"mask": target_mask(TARGET, PAD), "memory_mask": padding_mask(SOURCE, PAD)}
    output = theirs(
        y,
        their_memory,
        tgt_mask=FUTURE,
        tgt_key_padding_mask=TARGET == PAD,
        memory_key_padding_mask=SOURCE == PAD,
    )
    assert_alike(ours(x, memory=memory, **masks), output, links, (x, y), (memory, their_memory))


@either_way
@pytest.mark.parametrize(
    ("residual", "final_norms"),
    [("pre-norm", True), ("post-norm", True), ("post-norm", False)],
    ids=["pre-norm", "post-norm", "post-norm without final norms, as in the paper"],
)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
def test_the_whole_transformer_equals_torch_s(copy: Copy, residual: str, final_norms: bool) -> None:
    ours = toy(residual=residual, attention_bias=True, encoder_layers=2)
    theirs = nn.Transformer(
        **SIZES,
        **THEIRS,
        num_encoder_layers=2,
        num_decoder_layers=2,
        norm_first=residual == "pre-norm",
    )
    for stack, other in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        if final_norms:
            stack.final_norm = LayerNorm(TOY.d_model).double()
        else:
            other.norm = None
    randomised(ours)
    links = transformer_links(ours, randomised(theirs))
    links = linked(copy, links, ours, theirs, apart=[ours.output.weight])  # tied: the embeddings

    (source, their_source), (target, their_target) = twins(SOURCE), twins(TARGET)
    ours.encoder.embed = lambda ids, positions: source
    ours.decoder.embed = lambda ids, positions: target
    mask = padding_mask(SOURCE, PAD)
    output = ours.decode(TARGET, ours.encoder(SOURCE, mask), mask)
    expected = theirs(
        their_source,
        their_target,
        tgt_mask=FUTURE,
        src_key_padding_mask=SOURCE == PAD,
        tgt_key_padding_mask=TARGET == PAD,
        memory_key_padding_mask=SOURCE == PAD,
    )
    assert_alike(output, expected, links, (source, their_source), (target, their_target))
