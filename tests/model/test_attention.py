"""Equation 1 in both kernels, multi-head attention, and the recording of its weights."""

from contextlib import suppress
from math import log, sqrt

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from glassformer.errors import InputError
from glassformer.model.attention import (
    MultiHeadAttention,
    fused_attention,
    record_attention,
    scaled_dot_product_attention,
)
from glassformer.model.build import build
from glassformer.model.masks import causal_mask, padding_mask, target_mask

B, H, T, S, K = 2, 4, 3, 5, 6
D = H * K


all_kernels = pytest.mark.parametrize(
    "kernel",
    [scaled_dot_product_attention, fused_attention],
    ids=["readable", "fused"],
)
grouped = pytest.mark.parametrize("n_kv_heads", [H, 2, 1], ids=["MHA", "GQA", "MQA"])


def normal(*shape: int, **kwargs: object) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, **kwargs)


def close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


def queries_keys_values(n_kv_heads: int = H) -> list[Tensor]:
    shapes = (B, H, T, K), (B, n_kv_heads, S, K), (B, n_kv_heads, S, K)
    return [normal(*shape, requires_grad=True) for shape in shapes]


def random_mask(*shape: int) -> Tensor:
    """Return a mask that allows about half of the cells, and key 1 in every row."""
    mask = torch.rand(*shape) < 0.5
    mask[..., 1] = True
    return mask


def mask_with_an_empty_row() -> Tensor:
    mask = random_mask(B, 1, T, S)
    mask[0, :, 1] = False
    return mask


def output_and_gradients(kernel, q, k, v, mask=None, bias=None, scale=None) -> list[Tensor]:
    """Return the output and the gradients of q, k, v and the bias."""
    output = kernel(q, k, v, mask, bias, 0.0, scale)[0]
    above = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return [
        output,
        *torch.autograd.grad(output, [q, k, v, *([] if bias is None else [bias])], above),
    ]


def torch_attention(q, k, v, mask, bias, dropout_p, scale) -> tuple[Tensor, None]:
    """Run torch's unfused kernel with repeated heads and a mask of 0 and -inf."""
    k, v = (x.repeat_interleave(q.size(1) // x.size(1), dim=1) for x in (k, v))
    added = q.new_zeros(B, H, T, S)
    if mask is not None:
        added = added.masked_fill(~mask, -torch.inf)
    if bias is not None:
        added = added + bias
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v, added, dropout_p, scale=scale), None


@all_kernels
@grouped
@pytest.mark.parametrize("scale", [None, 0.7])
@pytest.mark.parametrize("bias", [None, (H, T, S), (B, H, T, S)], ids=str)
@pytest.mark.parametrize("mask", [None, (B, 1, T, S), (B, 1, 1, S), (1, 1, T, S)], ids=str)
def test_output_and_gradients_equal_torch(kernel, n_kv_heads, scale, bias, mask):
    q, k, v = queries_keys_values(n_kv_heads)
    mask = None if mask is None else random_mask(*mask)
    bias = None if bias is None else normal(*bias, requires_grad=True)
    ours = output_and_gradients(kernel, q, k, v, mask, bias, scale)
    theirs = output_and_gradients(torch_attention, q, k, v, mask, bias, scale)
    for mine, other in zip(ours, theirs, strict=True):
        close(mine, other)


@grouped
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("make_mask", [lambda: None, mask_with_an_empty_row])
def test_the_two_kernels_agree(n_kv_heads, biased, make_mask):
    q, k, v = queries_keys_values(n_kv_heads)
    mask, bias = make_mask(), normal(H, T, S, requires_grad=True) if biased else None
    readable = output_and_gradients(scaled_dot_product_attention, q, k, v, mask, bias)
    fused = output_and_gradients(fused_attention, q, k, v, mask, bias)
    for one, other in zip(readable, fused, strict=True):
        close(one, other)


@all_kernels
def test_a_bias_of_another_dtype_is_cast_to_that_of_the_queries(kernel):
    q, k, v = (x.float() for x in queries_keys_values())
    bias = normal(H, T, S)
    close(kernel(q, k, v, bias=bias)[0], kernel(q, k, v, bias=bias.float())[0], 1e-6)


@all_kernels
def test_scores_too_large_for_exp_select_the_largest_allowed_value(kernel):
    q, k, v = queries_keys_values()
    mask = random_mask(B, 1, T, S)
    best = (q @ k.mT).masked_fill(~mask, -torch.inf).argmax(-1, keepdim=True)
    close(kernel(q * 1e6, k, v, mask)[0], v.take_along_dim(best, dim=2))


def test_weights_are_a_distribution_over_the_allowed_cells():
    q, k, v = queries_keys_values()
    mask = random_mask(B, 1, T, S)
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    open_cells = mask.expand_as(weights)
    close(weights.sum(-1), torch.ones(B, H, T, dtype=torch.float64))
    assert (weights[open_cells] > 0).all()
    assert (weights[~open_cells] == 0).all()
    close(output, weights @ v)


@all_kernels
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_a_row_that_may_attend_nowhere_gives_zeros(kernel, dtype, biased):
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in queries_keys_values())
    bias = torch.randn(H, T, S, dtype=dtype, requires_grad=True) if biased else None
    with torch.autograd.set_detect_anomaly(True):
        output, *gradients = output_and_gradients(kernel, q, k, v, mask_with_an_empty_row(), bias)
    assert (output[0, :, 1] == 0).all()
    assert (output[1].abs().amax(-1) > 0).all()
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[0][0, :, 1] == 0).all()


def test_the_weights_of_a_row_that_may_attend_nowhere_are_zeros():
    _, weights = scaled_dot_product_attention(*queries_keys_values(), mask_with_an_empty_row())
    assert (weights[0, :, 1] == 0).all()


@all_kernels
@pytest.mark.parametrize("n_kv_heads", [2, 1])
def test_gradients_equal_finite_differences(kernel, n_kv_heads):
    shapes = (1, 2, 2, 2), (1, n_kv_heads, 3, 2), (1, n_kv_heads, 3, 2), (2, 2, 3)
    inputs = [normal(*shape, requires_grad=True) for shape in shapes]
    mask = torch.tensor([[True, False, True], [False, False, False]])[None, None]

    def attend(q, k, v, bias):
        return kernel(q, k, v, mask, bias)[0]

    assert torch.autograd.gradcheck(attend, inputs)


def test_the_weights_returned_are_those_before_dropout():
    q, k, v = queries_keys_values()
    plain, weights = scaled_dot_product_attention(q, k, v)
    dropped, same = scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    assert torch.equal(weights, same)
    assert not torch.allclose(plain, dropped)


@all_kernels
def test_dropout_keeps_the_mean_output(kernel):
    draws = 4_000
    q, k, v = (x[:1].detach() for x in queries_keys_values())
    truth = kernel(q, k, v)[0][0]
    many = [x.expand(draws, -1, -1, -1) for x in (q, k, v)]
    samples = kernel(*many, dropout_p=0.4)[0]
    spread = samples.std(0)
    assert (spread > 0.05).all()
    assert ((samples.mean(0) - truth).abs() < 5 * spread / sqrt(draws)).all()


def test_at_width_512_the_unscaled_softmax_saturates_and_the_scaled_does_not():
    """§3.2.1's reason for 1/√d_k, as entropy, largest weight, and gradient of the scores."""
    n = 32
    q, k, v = (normal(1, 8, n, 512) for _ in range(3))

    def measure(scale: float | None) -> tuple[float, float, float]:
        scores = torch.zeros(1, 8, n, n, dtype=torch.float64, requires_grad=True)  # a bias of 0
        output, weights = scaled_dot_product_attention(q, k, v, bias=scores, scale=scale)
        (gradient,) = torch.autograd.grad(output, scores, torch.ones_like(output))
        weights = weights.detach()
        entropy = -torch.special.xlogy(weights, weights).sum(-1) / log(n)
        measures = entropy, weights.amax(-1), gradient.norm(dim=-1)
        return tuple(float(x.median()) for x in measures)

    entropy, largest, gradient = measure(None)
    raw_entropy, raw_largest, raw_gradient = measure(1.0)
    assert entropy > 0.8 and raw_entropy < 0.1
    assert largest < 0.3 and raw_largest > 0.95
    assert raw_gradient < gradient / 20


# Multi-head attention


def attention_of(n_kv_heads: int | None = None, **arguments: object) -> MultiHeadAttention:
    return MultiHeadAttention(D, H, n_kv_heads, **arguments).double()


def inputs(cross: bool) -> tuple[Tensor, Tensor | None]:
    return normal(B, T, D), normal(B, S, D) if cross else None


def separate_projections(attention: MultiHeadAttention) -> list[tuple[Tensor, Tensor | None]]:
    """Return (W^Q, b^Q), (W^K, b^K), (W^V, b^V) from the packed matrices."""
    packed = (attention.q, attention.kv) if attention.cross else (attention.qkv,)
    kv = attention.n_kv_heads * K
    weights = torch.cat([linear.weight for linear in packed]).split([D, kv, kv])
    if attention.output.bias is None:
        return [(weight, None) for weight in weights]
    biases = torch.cat([linear.bias for linear in packed]).split([D, kv, kv])
    return list(zip(weights, biases, strict=True))


def by_hand(attention, x, memory=None, mask=None) -> tuple[Tensor, Tensor]:
    """Compute §3.2.2 one head at a time: the output and the weights (B, H, T, S)."""
    memory = x if memory is None else memory
    (w_q, b_q), (w_k, b_k), (w_v, b_v) = separate_projections(attention)
    heads, maps = [], []
    for i in range(H):
        group = i // (H // attention.n_kv_heads)
        own, shared = slice(i * K, (i + 1) * K), slice(group * K, (group + 1) * K)
        q = x @ w_q[own].T + (0 if b_q is None else b_q[own])
        k = memory @ w_k[shared].T + (0 if b_k is None else b_k[shared])
        v = memory @ w_v[shared].T + (0 if b_v is None else b_v[shared])
        odds = (q @ k.mT / sqrt(K)).exp()
        if mask is not None:
            odds = odds * mask[:, 0]
        maps.append(odds / odds.sum(-1, keepdim=True))
        heads.append(maps[-1] @ v)
    output = torch.cat(heads, dim=-1) @ attention.output.weight.T
    if attention.output.bias is not None:
        output = output + attention.output.bias
    return output, torch.stack(maps, dim=1)


@all_kernels
@grouped
@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
def test_multi_head_attention_equals_its_heads_one_by_one(kernel, n_kv_heads, cross, bias):
    attention = attention_of(n_kv_heads, cross=cross, bias=bias, kernel=kernel)
    x, memory = inputs(cross)
    mask = random_mask(B, 1, T, S if cross else T)
    close(attention(x, memory, mask), by_hand(attention, x, memory, mask)[0])


@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
def test_multi_head_attention_equals_torch(cross):
    attention = attention_of(H, cross=cross, bias=True)
    theirs = nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64)
    weights, biases = zip(*separate_projections(attention), strict=True)
    theirs.in_proj_weight.data = torch.cat(weights).detach()
    theirs.in_proj_bias.data = torch.cat(biases).detach()
    theirs.out_proj.load_state_dict(attention.output.state_dict())
    x, memory = inputs(cross)
    memory_of_theirs = x if memory is None else memory
    close(attention(x, memory), theirs(x, memory_of_theirs, memory_of_theirs)[0])


def test_n_kv_heads_defaults_to_n_heads():
    one, other = attention_of(), attention_of(H)
    other.load_state_dict(one.state_dict())
    x, _ = inputs(cross=False)
    assert torch.equal(one(x), other(x))


@pytest.mark.parametrize("n_kv_heads", [1, 2])
def test_grouped_query_attention_equals_repeated_key_value_weights(n_kv_heads):
    grouped_queries, repeated = attention_of(n_kv_heads), attention_of(H)
    (w_q, _), *kv = separate_projections(grouped_queries)
    heads = [w.view(n_kv_heads, K, D).repeat_interleave(H // n_kv_heads, 0) for w, _ in kv]
    repeated.qkv.weight.data = torch.cat([w_q, *(w.flatten(0, 1) for w in heads)]).detach()
    repeated.output.weight.data = grouped_queries.output.weight.data
    x, _ = inputs(cross=False)
    mask = causal_mask(T)
    close(grouped_queries(x, mask=mask), repeated(x, mask=mask))


def test_cross_attention_does_not_depend_on_the_order_of_memory():
    attention = attention_of(cross=True)
    x, memory = inputs(cross=True)
    output = attention(x, memory)
    assert (attention(x, memory + 1) - output).abs().amax(-1).min() > 1e-3
    close(attention(x, memory.flip(1)), output)
    others = x.clone()
    others[:, 1:] += 1
    close(attention(others, memory)[:, 0], output[:, 0])


def test_cross_attention_without_memory_or_cache_is_refused():
    with pytest.raises(InputError, match="neither memory nor a cache") as error:
        attention_of(cross=True)(normal(B, T, D))
    assert "encoder's output" in error.value.why
    assert "memory=encoder(source)" in error.value.remedy


def test_self_attention_given_memory_is_refused():
    with pytest.raises(InputError, match="memory"):
        attention_of()(*inputs(cross=True))


class Spy:
    """A kernel that records its arguments."""

    def __call__(self, q, k, v, mask=None, bias=None, dropout_p=0.0, scale=None):
        self.q, self.k, self.v, self.mask, self.bias = q, k, v, mask, bias
        self.dropout_p, self.scale = dropout_p, scale
        return fused_attention(q, k, v, mask, bias, dropout_p, scale)


@grouped
@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
def test_packed_projections_equal_three_separate_ones(n_kv_heads, cross):
    spy = Spy()
    attention = attention_of(n_kv_heads, cross=cross, bias=True, kernel=spy)
    x, memory = inputs(cross)
    attention(x, memory)
    read = (x, x, x) if memory is None else (x, memory, memory)
    for packed, projection, source in zip(
        (spy.q, spy.k, spy.v), separate_projections(attention), read, strict=True
    ):
        close(packed.transpose(1, 2).flatten(2), F.linear(source, *projection))


def test_the_kernel_gets_mask_bias_scale_and_rotated_queries_and_keys():
    spy = Spy()
    attention = attention_of(2, scale=0.3, kernel=spy)
    x, _ = inputs(cross=False)
    mask, bias = causal_mask(T), normal(H, T, T)
    attention(x)
    q, k, v = spy.q, spy.k, spy.v
    attention(x, mask=mask, bias=bias, rotate=lambda q, k: (2 * q, 3 * k))
    assert spy.mask is mask and spy.bias is bias and spy.scale == 0.3
    for seen, expected in ((spy.q, 2 * q), (spy.k, 3 * k), (spy.v, v)):
        assert torch.equal(seen, expected)


def test_attention_dropout_is_active_in_training_only():
    spy = Spy()
    attention = attention_of(dropout=0.5, kernel=spy)
    x, _ = inputs(cross=False)
    attention(x)
    assert spy.dropout_p == 0.5
    close(attention.eval()(x), by_hand(attention, x)[0])
    assert spy.dropout_p == 0.0


@pytest.mark.parametrize(
    ("arguments", "what", "why", "remedy"),
    [
        (
            (30, 4),
            "d_model = 30 is not divisible by n_heads = 4",
            "d_model / n_heads",
            "[1, 2, 3, 5",
        ),
        (
            (30, 0),
            "d_model = 30 is not divisible by n_heads = 0",
            "d_model / n_heads",
            "[1, 2, 3, 5",
        ),
        ((12, 4, 3), "n_heads = 4 is not divisible by n_kv_heads = 3", "n_kv_heads", "[1, 2, 4]"),
        ((12, 4, 8), "n_heads = 4 is not divisible by n_kv_heads = 8", "n_kv_heads", "[1, 2, 4]"),
        ((12, 4, 0), "n_heads = 4 is not divisible by n_kv_heads = 0", "n_kv_heads", "[1, 2, 4]"),
    ],
)
def test_heads_that_do_not_divide_are_refused(arguments, what, why, remedy):
    with pytest.raises(InputError, match=what) as error:
        MultiHeadAttention(*arguments)
    assert why in error.value.why
    assert remedy in error.value.remedy


# Recording


def translator(**changes: object):
    settings = {"d_model": D, "n_heads": H, "encoder_layers": 2, "decoder_layers": 2, "d_ff": 8}
    return build("tiny", vocab_size=20, **(settings | changes)).double()


SOURCE = torch.tensor([[5, 6, 7, 8, 9], [4, 3, 2, 0, 0]])
TARGET = torch.tensor([[1, 2, 3], [9, 8, 0]])
MASKS = {
    "encoder.layers.0.self_attention": padding_mask(SOURCE),
    "encoder.layers.1.self_attention": padding_mask(SOURCE),
    "decoder.layers.0.self_attention": target_mask(TARGET),
    "decoder.layers.1.self_attention": target_mask(TARGET),
    "decoder.layers.0.cross_attention": padding_mask(SOURCE),
    "decoder.layers.1.cross_attention": padding_mask(SOURCE),
}


@pytest.mark.parametrize("n_kv_heads", [H, 2])
def test_recording_gives_the_weights_of_every_attention_by_name(n_kv_heads):
    """The weights are those before dropout, also in training."""
    model = translator(n_kv_heads=n_kv_heads, attention_dropout=0.5)
    seen = {}

    def keep_inputs(name):
        def hook(module, args, kwargs):
            seen[name] = args[0], kwargs.get("memory")

        return hook

    for name in MASKS:
        model.get_submodule(name).register_forward_pre_hook(keep_inputs(name), with_kwargs=True)
    with record_attention(model) as maps:
        model(SOURCE, TARGET)
    assert maps.keys() == MASKS.keys()
    for name, mask in MASKS.items():
        x, memory = seen[name]
        (weights,) = maps[name]
        close(weights, by_hand(model.get_submodule(name), x, memory, mask)[1])


def test_recording_adds_one_entry_per_call():
    attention = attention_of()
    batches = [normal(B, length, D) for length in (3, 4, 5)]
    with record_attention(attention) as maps:
        for x in batches:
            attention(x)
    assert [tuple(weights.shape) for weights in maps[""]] == [(B, H, n, n) for n in (3, 4, 5)]
    attention(batches[0])
    assert len(maps[""]) == 3


def test_recording_changes_neither_output_nor_gradients_and_keeps_no_graph():
    model = translator().eval()

    def run() -> list[Tensor]:
        output = model(SOURCE, TARGET)
        return [output, *torch.autograd.grad(output.square().sum(), list(model.parameters()))]

    plain = run()
    with record_attention(model) as maps:
        recorded = run()
    for one, other in zip(plain, recorded, strict=True):
        close(one, other, 1e-9)
    assert not any(weights.requires_grad for entries in maps.values() for weights in entries)


@all_kernels
@pytest.mark.parametrize("raises", [False, True])
def test_recording_restores_the_kernels(kernel, raises):
    attentions = nn.ModuleList([attention_of(kernel=kernel), attention_of(kernel=Spy())])
    before = [attention.kernel for attention in attentions]
    with suppress(ZeroDivisionError), record_attention(attentions):
        assert all(a.kernel is not b for a, b in zip(attentions, before, strict=True))
        assert 1 / (not raises)
    assert all(a.kernel is b for a, b in zip(attentions, before, strict=True))
