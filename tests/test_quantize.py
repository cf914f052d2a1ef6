"""INT8: how far it is from fp32 is known beforehand, and a row's answer is its own."""

from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from torch import nn
from torch.testing import assert_close

from decode.oracles import sources, toy
from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint, set_weights, weights_of
from glassformer.config import RunSettings, preset
from glassformer.data.batch import pad
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode import packed
from glassformer.decode.packed import keep_half
from glassformer.decode.search import SearchOptions, force_decode, search
from glassformer.errors import InputError
from glassformer.model.build import build
from glassformer.model.embedding import TokenEmbedding
from glassformer.pipeline import ready
from glassformer.quantize import (
    ENGINE,
    LEVELS,
    SCALE,
    Int8Embedding,
    Int8Linear,
    Int8Votes,
    dequantise_weights,
    is_available,
    is_quantised,
    quantise_rows,
    quantise_weights,
    quantize,
)

needs_kernel = pytest.mark.skipif(not is_available(), reason="no INT8 on this processor")
SIZES = {"d_model": 32, "n_heads": 2, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1}


@given(
    rows=st.integers(1, 5),
    width=st.integers(1, 40),
    size=st.sampled_from([1e-20, 1e-3, 1.0, 1e4]),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_each_weight_is_within_half_a_step_and_each_row_has_its_own_step(rows, width, size, seed):
    weight = size * torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))
    integers, scale = quantise_rows(weight)
    assert integers.dtype == torch.int8 and scale.shape == (rows,)
    assert (integers.abs().amax(1) == 127).all(), "the whole range is used"
    error = (integers * scale[:, None] - weight).abs()
    assert (error <= scale[:, None] * (0.5 + 1e-4)).all()


def test_a_row_of_zeros_stays_one():
    integers, scale = quantise_rows(torch.tensor([[0.0, 0.0], [1.0, -2.0]]))
    assert integers.tolist() == [[0, 0], [64, -127]]
    assert scale.isfinite().all() and (scale > 0).all()


def assert_within_bound(linear: nn.Linear, x: torch.Tensor) -> None:
    """Half a step of each weight and half a step of each input, and no more."""
    ours = Int8Linear(linear)
    scale = quantise_rows(linear.weight.detach())[1]
    step = x.abs().amax(-1, keepdim=True) / LEVELS
    from_weights = x.abs().sum(-1, keepdim=True) * scale / 2
    from_inputs = step / 2 * ours.weight.abs().sum(1)
    bound = (from_weights + from_inputs) * (1 + 1e-4) + 1e-6 * linear(x).abs() + 1e-30
    assert ((ours(x) - linear(x)).abs() <= bound).all()


@needs_kernel
@pytest.mark.parametrize("shape", [(1, 24), (7, 24), (2, 3, 24), (2, 1, 3, 24)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
@torch.inference_mode()
def test_the_error_is_at_most_what_the_steps_say(shape, bias):
    linear = nn.Linear(24, 40, bias)
    nn.init.normal_(linear.weight)
    linear.weight[3] = 0.0  # an output that is only its bias
    linear.weight[5] *= 1_000
    x = torch.randn(shape)
    ours = Int8Linear(linear)
    assert ours(x).shape == linear(x).shape and ours(x).dtype == torch.float32
    assert_close(ours(x)[..., 3], linear(x)[..., 3], rtol=0, atol=0)
    for size in (1e-6, 1.0, 1e5):
        assert_within_bound(linear, size * x)
    assert float((ours(x) - linear(x)).norm() / linear(x).norm()) < 0.02


@needs_kernel
@torch.inference_mode()
def test_the_largest_products_do_not_overflow():
    """Everything at its extreme. Without VNNI a pair of products is summed in sixteen bits."""
    assert 2 * 127 * (2 * LEVELS + 1) < 2**15
    for sign in (1.0, -1.0):
        linear = nn.Linear(64, 32, bias=False)
        linear.weight.fill_(sign)
        for x in (torch.ones(3, 64), -torch.ones(3, 64)):
            assert_close(Int8Linear(linear)(x), linear(x), rtol=1e-5, atol=0)


@needs_kernel
@pytest.mark.parametrize("inputs", [8, 17, 24, 100])
@pytest.mark.parametrize("outputs", [16, 17, 33, 100])
@pytest.mark.parametrize("bias", [True, False])
@torch.inference_mode()
def test_a_row_has_the_same_bits_alone_and_beside_any_others(inputs, outputs, bias):
    ours = Int8Linear(nn.Linear(inputs, outputs, bias))
    x = torch.randn(9, inputs) * torch.logspace(-3, 3, 9)[:, None]  # neighbours of every size
    together = ours(x)
    for row in range(9):
        assert torch.equal(ours(x[row : row + 1]), together[row : row + 1])
    assert torch.equal(ours(x.flip(0)), together.flip(0))
    assert torch.equal(ours(x.unflatten(0, (3, 3))), together.unflatten(0, (3, 3)))


@needs_kernel
@torch.inference_mode()
def test_a_row_of_zeros_gives_the_bias():
    linear = nn.Linear(24, 40)
    x = torch.zeros(2, 24)
    x[1, 0] = 5.0
    assert torch.equal(Int8Linear(linear)(x)[0], linear.bias)
    assert not Int8Linear(nn.Linear(24, 40, bias=False))(x)[0].any()


@needs_kernel
def test_its_weight_is_what_the_integers_say():
    linear = nn.Linear(24, 40)
    integers, scale = quantise_rows(linear.weight.detach())
    ours = Int8Linear(linear)
    assert_close(ours.weight, integers * scale[:, None], rtol=1e-6, atol=0)
    assert (ours.in_features, ours.out_features) == (24, 40)
    assert torch.equal(ours.bias, linear.bias)


@needs_kernel
def test_the_users_choice_of_engine_is_given_back():
    others = [e for e in torch.backends.quantized.supported_engines if e not in ("none", ENGINE)]
    before = torch.backends.quantized.engine
    try:
        for engine in others:
            torch.backends.quantized.engine = engine
            Int8Linear(nn.Linear(16, 16))
            assert torch.backends.quantized.engine == engine
    finally:
        torch.backends.quantized.engine = before


def test_a_processor_without_the_kernel_is_told(monkeypatch):
    class Without:
        supported_engines = ("none",)
        engine = "none"

    monkeypatch.setattr(torch.backends, "quantized", Without)
    with pytest.raises(InputError, match="INT8 is not available") as caught:
        Int8Linear(nn.Linear(16, 16))
    assert "AVX2" in caught.value.why and "int8" in caught.value.remedy


def test_an_embedding_is_within_half_a_step_of_each_tokens_own():
    embedding = TokenEmbedding(20, 16)
    nn.init.normal_(embedding.weight)
    with torch.no_grad():
        embedding.weight[7] = 0.0
        embedding.weight[8] *= 100
    ours, ids = Int8Embedding(embedding), torch.arange(20).view(4, 5)
    step = quantise_rows(embedding.weight.detach())[1] * embedding.scale
    error = (ours(ids) - embedding(ids)).abs()
    assert (error <= step[ids][..., None] * (0.5 + 1e-4)).all()
    assert not ours(torch.tensor([[7]])).any()
    assert ours.integers.dtype == torch.int8
    assert ours.weight.dtype == torch.float32
    assert_close(ours.weight[ids] * ours.scale, ours(ids), rtol=1e-5, atol=0)
    with pytest.raises(InputError, match="outside the vocabulary"):
        ours(torch.tensor([[20]]))


@needs_kernel
@pytest.mark.parametrize("tied", [True, False])
@torch.inference_mode()
def test_a_model_has_no_large_matrix_left_and_says_nearly_the_same(tied):
    model = build(
        "tiny", vocab_size=50, **SIZES, tie_target_output=tied, tie_source_target=tied
    ).eval()
    source, target = torch.randint(4, 50, (3, 6)), torch.randint(4, 50, (3, 5))
    expected = model(source, target)
    assert quantize(model.train()) is model and not model.training
    assert not any(isinstance(m, nn.Linear | TokenEmbedding) for m in model.modules())
    assert (model.encoder.embedding is model.decoder.embedding) == tied, "shared, it stays so"
    output = model(source, target)
    assert float((output - expected).norm() / expected.norm()) < 0.05


@needs_kernel
@pytest.mark.parametrize("kind", ["translator", "language-model"])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("half", [False, True], ids=["fp32 cache", "fp16 cache"])
def test_a_quantised_model_decodes_and_an_answer_does_not_hang_on_its_neighbours(
    kind, width, half, monkeypatch
):
    model = quantize(toy(vocab_size=24, d_model=32, kind=kind))
    monkeypatch.setattr(packed, "LARGE", 0 if half else packed.LARGE)
    keep_half(model)
    cache = model.decoder.start_cache(4, torch.zeros(1, 2, 32) if kind == "translator" else None)
    assert {x.dtype for x in cache.tensors} == {torch.float16 if half else torch.float32}
    prefixes = [[], [5], [6, 7], [8]]
    options = SearchOptions(beam_size=width, max_length=8)
    source = pad(sources(1, 6, 3, 8, vocab_size=24)) if kind == "translator" else None
    found = search(model, source, BOS, EOS, options, prefixes)
    for i in range(4):
        own = None if source is None else source[i : i + 1]
        ((alone,),) = search(model, own, BOS, EOS, options, prefixes[i : i + 1])
        assert alone.ids == found[i][0].ids
        assert alone.score == pytest.approx(found[i][0].score, abs=1e-4)


@needs_kernel
@torch.inference_mode()
def test_keys_and_values_in_half_change_scores_by_less_than_eight_bits_do(monkeypatch):
    plain = toy(vocab_size=24, d_model=32, decoder_layers=2)
    eight_bits, halved = quantize(deepcopy(plain)), deepcopy(plain)
    monkeypatch.setattr(packed, "LARGE", 0)
    keep_half(halved)  # of a model in fp32: in eight bits it may move a value over a level
    source, target = pad(sources(6, 3, 8, vocab_size=24)), torch.randint(4, 24, (3, 7))
    truth, *others = (force_decode(m, source, target, BOS) for m in (plain, eight_bits, halved))
    by_eight_bits, by_half = ((told - truth).abs() for told in others)
    assert 0 < 10 * by_half.mean() < by_eight_bits.mean()


@needs_kernel
def test_what_comes_from_behind_a_relu_is_known_to_be_positive():
    relu, gelu = (quantize(toy(feed_forward=kind)) for kind in ("relu", "gelu"))
    positive = {n for n, m in relu.named_modules() if isinstance(m, Int8Linear) and m.positive}
    assert positive == {n for n, _ in relu.named_modules() if n.endswith("feed_forward.contract")}
    assert positive
    assert not any(m.positive for m in gelu.modules() if isinstance(m, Int8Linear))


@needs_kernel
@torch.inference_mode()
def test_of_positive_rows_the_layer_says_the_same_whether_it_knows_or_not():
    linear, x = nn.Linear(24, 16), torch.rand(7, 24)
    assert torch.equal(Int8Linear(linear)(x), Int8Linear(linear, positive=True)(x))


@needs_kernel
@pytest.mark.parametrize("kind", ["classifier", "tagger"])
@torch.inference_mode()
def test_a_head_over_a_few_classes_stays_as_it_is(kind):
    model = build("tiny", kind=kind, vocab_size=50, n_classes=5, **SIZES)
    head = model.output
    weights = quantise_weights(model, weights_of(model))
    assert weights["output.weight"] is not None and "output.weight" + SCALE not in weights
    assert torch.equal(weights["output.weight"], head.weight)
    quantize(model)
    assert model.output is head
    assert isinstance(model.encoder.embedding, Int8Embedding)
    assert isinstance(model.encoder.layers[0].self_attention.qkv, Int8Linear)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tie_target_output": False, "tie_source_target": False},
        {"positions": "learned", "norm": "rms-norm", "feed_forward": "swiglu"},
        {"positions": "relative", "attention_bias": True},
        {"kind": "language-model"},
        {"kind": "classifier"},
        {"kind": "masked-language-model"},
        {"kind": "masked-language-model", "tie_target_output": False},
    ],
    ids=str,
)
def test_quantised_weights_come_back_as_weights_and_quantise_to_the_same_integers(changes):
    model = build("tiny", vocab_size=50, **SIZES, **changes)
    weights = weights_of(model)
    assert not is_quantised(weights)
    small = quantise_weights(model, weights)
    assert is_quantised(small)
    back = dequantise_weights(small)
    assert back.keys() == weights.keys()
    assert dequantise_weights(weights) == weights
    for name, tensor in weights.items():
        scale = small[name + SCALE][:, None] if name + SCALE in small else torch.tensor(0.0)
        assert back[name].dtype == tensor.dtype
        assert ((back[name] - tensor).abs() <= scale * (0.5 + 1e-4)).all()
    again = quantise_weights(model, back)
    assert again.keys() == small.keys()
    for name, tensor in small.items():
        if not name.endswith(SCALE):
            assert torch.equal(again[name], tensor)
    set_weights(model, back)  # which checks names and shapes


@needs_kernel
@torch.inference_mode()
def test_a_model_of_quantised_weights_is_the_quantised_model():
    """What is saved small and read again answers as what was quantised in place."""
    one = toy(vocab_size=24, d_model=32)
    other = toy(vocab_size=24, d_model=32)
    set_weights(other, dequantise_weights(quantise_weights(one, weights_of(one))))
    source, target = torch.randint(4, 24, (3, 6)), torch.randint(4, 24, (3, 5))
    assert_close(quantize(other)(source, target), quantize(one)(source, target))


def test_every_large_matrix_of_a_checkpoint_is_quantised():
    model = build("tiny", vocab_size=50, **SIZES, positions="learned")
    small = quantise_weights(model, weights_of(model))
    integers = {name for name, tensor in small.items() if tensor.dtype == torch.int8}
    matrices = {
        f"{name}.weight"
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | TokenEmbedding)
    }
    assert integers == matrices & small.keys()
    assert {n + SCALE for n in integers} == {n for n in small if n.endswith(SCALE)}


def test_the_file_of_a_small_model_is_less_than_a_third():
    model = build("small")
    weights = weights_of(model)
    assert len(save(quantise_weights(model, weights))) <= 0.30 * len(save(weights))


VOTER = preset("tiny", kind="classifier", vocab_size=40, **SIZES, ngrams=2, ngram_places=300)


def voter():
    model = build(VOTER)
    nn.init.normal_(model.votes.weight, std=0.3)
    return model.eval()


@needs_kernel
def test_votes_are_off_by_half_a_step_each_at_most_and_keep_a_scale_per_class():
    model, ids = voter(), torch.randint(1, 40, (5, 12))
    exact = model.votes(ids)
    _, scale = quantise_rows(model.votes.weight)
    votes = quantize(model).votes
    assert isinstance(votes, Int8Votes) and votes.integers.dtype == torch.int8
    assert scale.shape == (2,)
    assert ((votes(ids) - exact).abs() <= 23 * scale * (0.5 + 1e-4)).all()  # 12 and 11 n-grams


@needs_kernel
def test_votes_lie_in_a_quantised_checkpoint_in_eight_bits(tmp_path):
    model, ids = voter(), torch.randint(1, 40, (5, 12))
    weights = quantise_weights(model, weights_of(model))
    assert weights["votes.weight"].dtype == torch.int8
    saved = Checkpoint(RunSettings(model=VOTER), weights)
    checkpoint.write(saved, tmp_path / "small")
    loaded = ready(checkpoint.read(tmp_path / "small"))
    assert isinstance(loaded.votes, Int8Votes)
    assert_close(loaded.votes(ids), quantize(model).votes(ids))
    plain = ready(Checkpoint(RunSettings(model=VOTER), dequantise_weights(weights)))
    assert_close(plain.votes(ids), loaded.votes(ids))
