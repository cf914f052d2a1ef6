"""Every position scheme against its paper's formula."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.errors import InputError
from glassformer.model.build import build
from glassformer.model.positions import (
    AlibiBias,
    BucketedRelativeBias,
    HalvesEncoding,
    LearnedPositions,
    NoPositions,
    PositionalEncoding,
    RelativePositionBias,
    RotaryEmbedding,
    alibi_slopes,
    sinusoids,
)

D, H, K = 12, 4, 6

SCHEMES = {
    "none": NoPositions,
    "sinusoidal": partial(PositionalEncoding, D),
    "learned": partial(LearnedPositions, D, 64),
    "rope": partial(RotaryEmbedding, K),
    "alibi": partial(AlibiBias, H),
    "relative": partial(RelativePositionBias, H, 3),
    "relative-bucketed": partial(BucketedRelativeBias, H, 8, 20),
    "relative-bucketed, looking back": partial(BucketedRelativeBias, H, 8, 20, False),
}


def normal(*shape: int, **kwargs: object) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, **kwargs)


def close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


def trained(module: nn.Module) -> nn.Module:
    """Return the scheme in float64 with random tables."""
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module.double()


# All schemes


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("past", [1, 7, 19])
def test_positions_after_a_past_are_a_slice_of_all(name, past):
    scheme, every = trained(SCHEMES[name]()), torch.arange(20)
    late = every[past:]
    x, q, k = normal(2, 20, D), normal(2, H, 20, K), normal(2, 2, 20, K)
    close(scheme.embed(x[:, past:], late), scheme.embed(x, every)[:, past:], 1e-12)
    whole = scheme.rotate(q, k, every, every)
    part = scheme.rotate(q[:, :, past:], k[:, :, past:], late, late)
    for mine, all_of_it in zip(part, whole, strict=True):
        close(mine, all_of_it[:, :, past:], 1e-12)
    bias, full_bias = scheme.bias(late, every), scheme.bias(every, every)
    if full_bias is None:
        assert bias is None
    else:
        assert torch.equal(bias, full_bias[:, past:])


def test_without_positions_every_operation_is_the_identity():
    scheme, positions = NoPositions(), torch.arange(5)
    x, q, k = normal(2, 5, D), normal(2, H, 5, K), normal(2, 2, 5, K)
    assert scheme.embed(x, positions) is x
    turned_q, turned_k = scheme.rotate(q, k, positions, positions)
    assert turned_q is q and turned_k is k
    assert scheme.bias(positions, positions) is None


def encoder_with(positions: str) -> nn.Module:
    model = build(
        "tiny", positions=positions, kind="classifier", vocab_size=20, d_model=16, encoder_layers=2
    )
    trained(model.encoder.positions)
    return model.encoder.double().eval()


@pytest.mark.parametrize(
    "positions",
    ["none", "sinusoidal", "learned", "rope", "alibi", "relative", "relative-bucketed"],
)
def test_an_encoder_ignores_order_only_without_positions(positions):
    encoder = encoder_with(positions)
    ids = torch.tensor([[3, 1, 4, 7, 5, 9]])
    order = torch.tensor([2, 0, 3, 1, 5, 4])  # not a mirror image, which ALiBi cannot tell apart
    gap = (encoder(ids[:, order]) - encoder(ids)[:, order]).abs().max()
    if positions == "none":
        assert gap < 1e-12
    else:
        assert gap > 1e-2


@pytest.mark.parametrize("positions", ["rope", "alibi", "relative", "relative-bucketed"])
def test_relative_positions_do_not_depend_on_the_origin(positions):
    encoder, q, k = encoder_with(positions), normal(1, 4, 6, 4), normal(1, 4, 6, 4)

    def scores(start: int) -> Tensor:
        here = torch.arange(start, start + 6)
        rotate, bias = encoder.geometry(here, here)
        turned_q, turned_k = rotate(q, k)
        return turned_q @ turned_k.mT + (0 if bias is None else bias)

    close(scores(100), scores(0))


# Sinusoids


def paper_sinusoid(position: int, column: int, d_model: int) -> float:
    angle = position / 10_000 ** (2 * (column // 2) / d_model)
    return math.cos(angle) if column % 2 else math.sin(angle)


FAR = [0, 1, 2, 17, 1_000, 100_000]


@pytest.mark.parametrize("d_model", [1, 2, 7, 12, 65])
def test_sinusoids_equal_the_formula_of_the_paper(d_model):
    expected = [[paper_sinusoid(p, column, d_model) for column in range(d_model)] for p in FAR]
    close(sinusoids(torch.tensor(FAR), d_model), torch.tensor(expected, dtype=torch.float64), 1e-9)


@pytest.mark.parametrize("offset", [1, 7, 500])
def test_a_step_is_the_same_linear_map_at_every_position(offset):
    """§3.5: PE(pos + k) is a linear function of PE(pos): each pair turns by its own angle."""
    angles = [offset / 10_000 ** (i / D) for i in range(0, D, 2)]
    turns = [[[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]] for a in angles]
    step = torch.block_diag(*(torch.tensor(turn, dtype=torch.float64) for turn in turns))
    positions = torch.arange(200)
    close(sinusoids(positions + offset, D), sinusoids(positions, D) @ step.T)


def test_positional_encoding_is_added_at_any_length():
    encoding, x = PositionalEncoding(D), normal(1, 3_000, D)
    y = encoding(x)
    assert torch.equal(y, encoding.embed(x, torch.arange(3_000)))
    close(y - x, sinusoids(torch.arange(3_000), D)[None])
    close(y[:, :10], encoding(x[:, :10]), 1e-12)


def test_positional_encoding_is_rounded_only_once_to_the_precision_of_its_input():
    far = torch.tensor(FAR)
    y = PositionalEncoding(D).embed(torch.zeros(1, len(FAR), D), far)
    assert torch.equal(y[0], sinusoids(far, D).float())


# Learned positions


def test_learned_positions_add_a_row_of_the_table():
    scheme, x = trained(LearnedPositions(D, 10)), normal(2, 4, D)
    positions = torch.tensor([3, 0, 9, 3])
    assert torch.equal(scheme.embed(x, positions), x + scheme.weight[positions])


def test_a_position_beyond_the_learned_table_is_refused():
    scheme = trained(LearnedPositions(D, 10))
    with pytest.raises(InputError, match="Position 10 is beyond") as error:
        scheme.embed(normal(1, 2, D), torch.tensor([9, 10]))
    assert "0 to 9" in error.value.why
    assert "max_positions" in error.value.remedy


# RoPE


def turn_as_complex(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """Multiply each pair, as a complex number, by e^(i·m·θ)."""
    angles = [[m * base ** (-i / K) for i in range(0, K, 2)] for m in positions.tolist()]
    angles = torch.tensor(angles, dtype=torch.float64)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


@pytest.mark.parametrize("base", [10_000.0, 500.0])
def test_rope_is_multiplication_by_complex_numbers(base):
    rope = RotaryEmbedding(K, base)
    q_positions, k_positions = torch.tensor([4, 0, 99]), torch.tensor([7, 12_345])
    q, k = normal(2, H, 3, K), normal(2, 2, 2, K)
    turned_q, turned_k = rope.rotate(q, k, q_positions, k_positions)
    close(turned_q, turn_as_complex(q, q_positions, base))
    close(turned_k, turn_as_complex(k, k_positions, base))


def rope_scores(q_positions: list[int], k_positions: list[int]) -> Tensor:
    """Return the scores of one query and one key at all their positions."""
    vectors = torch.linspace(-1, 2, 2 * K, dtype=torch.float64).view(2, 1, 1, 1, K)
    positions = torch.tensor(q_positions), torch.tensor(k_positions)
    q, k = (x.expand(-1, -1, len(p), -1) for x, p in zip(vectors, positions, strict=True))
    turned_q, turned_k = RotaryEmbedding(K).rotate(q, k, *positions)
    return (turned_q @ turned_k.mT)[0, 0]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1_000), st.integers(0, 1_000), st.integers(0, 100_000))
def test_rope_scores_depend_on_distance_only(m, n, shift):
    close(rope_scores([m + shift], [n + shift]), rope_scores([m], [n]), 1e-8)


def test_rope_scores_depend_on_the_sign_of_the_distance():
    near = list(range(10))
    scores = rope_scores(near, near)
    assert scores[0].diff().abs().min() > 1e-3
    assert abs(scores[0, 3] - scores[3, 0]) > 1e-3


def test_rope_keeps_norms_and_leaves_position_0():
    rope, x = RotaryEmbedding(K), normal(2, H, 5, K)
    turned = rope.turn(x, torch.arange(5))
    close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[:, :, 0], x[:, :, 0])
    assert not torch.allclose(turned[:, :, 1], x[:, :, 1])


def test_rope_gradients_equal_finite_differences():
    positions = torch.tensor([0, 3, 50])
    x = normal(1, 2, 3, K, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: RotaryEmbedding(K).turn(x, positions), x)


def test_rope_refuses_an_odd_width():
    with pytest.raises(InputError, match="width 5") as error:
        RotaryEmbedding(5)
    assert "even" in error.value.why
    assert "even quotient" in error.value.remedy


# ALiBi


def paper_slopes(n: int) -> list[float]:
    """Powers of two: a geometric sequence that starts at its own ratio, 2^(-8/n). In between: the
    sequence for the power below, then every second one of the sequence for the power above."""
    if math.log2(n).is_integer():
        return [(2 ** (-8 / n)) ** (i + 1) for i in range(n)]
    below = 2 ** math.floor(math.log2(n))
    return paper_slopes(below) + paper_slopes(2 * below)[::2][: n - below]


@pytest.mark.parametrize("n_heads", [1, 2, 3, 4, 6, 8, 12, 16])
def test_alibi_is_minus_slope_times_distance(n_heads):
    slopes = paper_slopes(n_heads)
    assert alibi_slopes(n_heads) == pytest.approx(slopes, rel=1e-12)
    q_positions, k_positions = [3, 4, 70], [0, 3, 5, 100]
    expected = [[[-s * abs(m - n) for n in k_positions] for m in q_positions] for s in slopes]
    bias = AlibiBias(n_heads).bias(torch.tensor(q_positions), torch.tensor(k_positions))
    torch.testing.assert_close(bias, torch.tensor(expected, dtype=torch.float64))


def test_alibi_has_no_parameters_and_no_state():
    assert not AlibiBias(H).state_dict()


# Relative biases


@pytest.mark.parametrize("max_distance", [1, 3, 16])
def test_relative_bias_is_a_learned_value_per_clipped_distance(max_distance):
    scheme = trained(RelativePositionBias(H, max_distance))
    q_positions, k_positions = [0, 20, 50], list(range(60))
    bias = scheme.bias(torch.tensor(q_positions), torch.tensor(k_positions))
    for i, m in enumerate(q_positions):
        for n in k_positions:
            clipped = max(-max_distance, min(max_distance, n - m))
            assert torch.equal(bias[:, i, n], scheme.weight[clipped + max_distance])


DISTANCES = torch.arange(-300, 301)[None]


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    ("n_buckets", "max_distance"), [(32, 128), (32, 300), (16, 64), (8, 20), (10, 50), (64, 256)]
)
def test_buckets_equal_those_of_t5(n_buckets, max_distance, bidirectional):
    from transformers.models.t5.modeling_t5 import T5Attention

    scheme = trained(BucketedRelativeBias(H, n_buckets, max_distance, bidirectional))
    theirs = T5Attention._relative_position_bucket(
        DISTANCES, bidirectional, n_buckets, max_distance
    )
    assert torch.equal(scheme.buckets(DISTANCES), theirs)
    bias = scheme.bias(torch.tensor([300]), torch.arange(601))
    assert torch.equal(bias, scheme.weight[theirs].permute(2, 0, 1))


@pytest.mark.parametrize(
    ("n_buckets", "max_distance", "bidirectional", "what"),
    [
        (32, 8, True, "max_distance = 8"),
        (32, 4, True, "max_distance = 4"),
        (32, 16, False, "max_distance = 16"),
        (2, 128, True, "n_buckets = 2"),
    ],
)
def test_buckets_with_too_small_max_distance_are_refused(
    n_buckets, max_distance, bidirectional, what
):
    """Half of a side's buckets are for single distances; max_distance must exceed them."""
    with pytest.raises(InputError, match=what):
        BucketedRelativeBias(H, n_buckets, max_distance, bidirectional)


@pytest.mark.parametrize("width", [8, 7])
def test_sines_before_cosines_are_the_same_features_in_another_order(width):
    interleaved = sinusoids(torch.arange(5), width)
    expected = torch.cat((interleaved[:, 0::2], interleaved[:, 1::2]), dim=1)
    x = torch.zeros(1, 5, width, dtype=torch.float64)
    assert torch.equal(HalvesEncoding(width).embed(x, torch.arange(5))[0], expected)


def test_rope_of_halves_turns_the_pairs_that_neighbours_would_be():
    q, positions, order = torch.randn(2, 3, 5, 8), torch.arange(5), [0, 2, 4, 6, 1, 3, 5, 7]
    neighbours, halves = RotaryEmbedding(8, 50.0), RotaryEmbedding(8, 50.0, halves=True)
    turned = neighbours.turn(q, positions)[..., order]
    torch.testing.assert_close(halves.turn(q[..., order], positions), turned)
