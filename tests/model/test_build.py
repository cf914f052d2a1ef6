"""Settings to modules: presets, tied weights, and refused combinations."""

from types import UnionType

import pytest
import torch
from torch import nn

from glassformer.config import PRESETS, ModelSettings, preset
from glassformer.errors import SettingsError
from glassformer.model.attention import (
    MultiHeadAttention,
    fused_attention,
    scaled_dot_product_attention,
)
from glassformer.model.build import build
from glassformer.model.classifier import (
    TransformerClassifier,
    TransformerTagger,
    first_pool,
    max_pool,
    mean_pool,
)
from glassformer.model.feed_forward import FeedForward, GELUFeedForward, SwiGLUFeedForward
from glassformer.model.norm import LayerNorm, RMSNorm
from glassformer.model.positions import (
    AlibiBias,
    BucketedRelativeBias,
    LearnedPositions,
    NoPositions,
    PositionalEncoding,
    RelativePositionBias,
    RotaryEmbedding,
    alibi_slopes,
)
from glassformer.model.residual import PostNorm, PreNorm
from glassformer.model.stack import Stack
from glassformer.model.transformer import LanguageModel, Transformer

SIZES = {"vocab_size": 11, "d_model": 8, "n_heads": 4, "d_ff": 16}
SIZES |= {"encoder_layers": 2, "decoder_layers": 2}
PAPER = ["vaswani2017-base", "vaswani2017-big"]
IDS = torch.tensor([[4, 1, 7], [2, 9, 0]])


def small(**changes: object):
    return build("tiny", **SIZES | changes)


def full(name: str) -> nn.Module:
    """Build a preset at full size on the meta device."""
    with torch.device("meta"):
        return build(name)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def parts(model: nn.Module, kind: type | UnionType) -> list:
    found = [module for module in model.modules() if isinstance(module, kind)]
    assert found, f"the model has no {kind}"
    return found


# Presets


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds_at_its_size_and_runs_when_shrunk(name):
    s = preset(name)
    for stack in parts(full(name), Stack):
        assert stack.embedding.weight.shape == (s.vocab_size, s.d_model)
        assert len(stack.layers) in (s.encoder_layers, s.decoder_layers)
    shrunk = build(name, **SIZES)
    logits = shrunk(IDS) if s.kind == "classifier" else shrunk(IDS, IDS)
    assert logits.isfinite().all()


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_models_have_the_parameters_of_its_equations(name):
    s = preset(name)
    attention = 4 * s.d_model**2
    feed_forward = 2 * s.d_model * s.d_ff + s.d_ff + s.d_model
    norm = 2 * s.d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    table = s.vocab_size * s.d_model  # one, for source, target and output
    expected = table + s.encoder_layers * encoder_layer + s.decoder_layers * decoder_layer
    assert count(full(name)) == expected


def test_the_papers_models_have_the_sizes_of_table_3():
    assert preset("vaswani2017-base").vocab_size == 37_000
    assert 63_000_000 <= count(full("vaswani2017-base")) <= 65_500_000
    assert 205_000_000 <= count(full("vaswani2017-big")) <= 220_000_000


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_models_have_the_papers_settings(name):
    width, heads, dropout = (512, 8, 0.1) if name.endswith("base") else (1_024, 16, 0.3)
    model = full(name)
    assert [len(stack.layers) for stack in parts(model, Stack)] == [6, 6]
    for stack in parts(model, Stack):
        assert type(stack.positions) is PositionalEncoding
        assert type(stack.final_norm) is nn.Identity
        assert stack.dropout.p == dropout
    for feed_forward in parts(model, FeedForward):
        assert type(feed_forward) is FeedForward
        assert feed_forward.expand.weight.shape == (4 * width, width)
        assert feed_forward.expand.bias is not None and feed_forward.contract.bias is not None
        assert feed_forward.dropout.p == 0.0
    for attention in parts(model, MultiHeadAttention):
        assert attention.n_heads == attention.n_kv_heads == heads
        assert (attention.d_k, attention.dropout) == (64, 0.0)
        assert all(linear.bias is None for linear in parts(attention, nn.Linear))
    residuals = parts(model, PostNorm | PreNorm)
    assert len(residuals) == 6 * 2 + 6 * 3
    assert {type(residual) for residual in residuals} == {PostNorm}
    assert {type(residual.norm) for residual in residuals} == {LayerNorm}
    assert {residual.dropout.p for residual in residuals} == {dropout}
    assert model.encoder.embedding.weight is model.decoder.embedding.weight is model.output.weight
    assert model.output.bias is None


def test_modern_has_current_components():
    model = full("modern")
    for stack in parts(model, Stack):
        assert type(stack.positions) is RotaryEmbedding
        assert {type(layer.feed_forward) for layer in stack.layers} == {SwiGLUFeedForward}
    assert {type(residual.norm) for residual in parts(model, PreNorm)} == {RMSNorm}
    assert {(a.n_heads, a.n_kv_heads) for a in parts(model, MultiHeadAttention)} == {(8, 2)}


def test_the_classifier_is_four_layers_of_width_256():
    model = full("classifier")
    assert type(model) is TransformerClassifier
    assert len(model.encoder.layers) == 4
    assert model.encoder.embedding.weight.size(1) == 256
    assert model.output.weight.shape == (2, 256)


# Arguments and settings


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("translator", Transformer),
        ("language-model", LanguageModel),
        ("masked-language-model", TransformerTagger),
        ("classifier", TransformerClassifier),
        ("tagger", TransformerTagger),
    ],
)
def test_each_kind_builds_its_class(kind, expected):
    model = small(kind=kind, pad_id=3)
    assert type(model) is expected and model.pad_id == 3


def test_build_takes_settings_or_a_preset_with_changes():
    s = ModelSettings(**SIZES)
    assert count(build(s)) == count(build("tiny", **SIZES)) == count(small())
    assert build(s, n_kv_heads=1).encoder.layers[0].self_attention.n_kv_heads == 1
    assert s.n_kv_heads is None
    with pytest.raises(SettingsError, match="did you mean 'd_model'"):
        build(s, d_modle=8)
    with pytest.raises(SettingsError, match="Unknown preset 'tinny'"):
        build("tinny")


def test_the_same_seed_draws_the_same_weights():
    models = []
    for _ in range(2):
        torch.manual_seed(5)
        models.append(small())
    assert all(map(torch.equal, *(model.parameters() for model in models)))


@pytest.mark.parametrize(
    ("changes", "kind", "attribute", "expected"),
    [
        ({"residual": "post-norm"}, PostNorm, "norm.eps", 1e-5),
        ({"residual": "pre-norm", "norm": "rms-norm"}, PreNorm, "norm.__class__", RMSNorm),
        ({"norm": "layer-norm"}, PreNorm, "norm.__class__", LayerNorm),
        ({"feed_forward": "relu"}, FeedForward, "__class__", FeedForward),
        ({"feed_forward": "gelu"}, FeedForward, "__class__", GELUFeedForward),
        ({"feed_forward": "swiglu"}, SwiGLUFeedForward, "contract.in_features", 16),
        ({"feed_forward_bias": False}, FeedForward, "expand.bias", None),
        ({"feed_forward_dropout": 0.25}, FeedForward, "dropout.p", 0.25),
        ({"dropout": 0.25}, PreNorm, "dropout.p", 0.25),
        ({"dropout": 0.25}, Stack, "dropout.p", 0.25),
        ({"dropout": 0.25, "kind": "classifier"}, TransformerClassifier, "dropout.p", 0.25),
        ({"dropout": 0.25, "kind": "tagger"}, TransformerTagger, "dropout.p", 0.25),
        ({"attention_dropout": 0.25}, MultiHeadAttention, "dropout", 0.25),
        ({"attention": "fused"}, MultiHeadAttention, "kernel", fused_attention),
        ({"attention": "readable"}, MultiHeadAttention, "kernel", scaled_dot_product_attention),
        ({"n_heads": 2}, MultiHeadAttention, "d_k", 4),
        ({"n_kv_heads": 2}, MultiHeadAttention, "n_kv_heads", 2),
        ({"positions": "sinusoidal"}, Stack, "positions.__class__", PositionalEncoding),
        ({"positions": "learned", "max_positions": 9}, LearnedPositions, "weight.shape", (9, 8)),
        ({"positions": "rope"}, RotaryEmbedding, "d_k", 2),
        ({"positions": "alibi"}, AlibiBias, "slopes", alibi_slopes(4)),
        ({"positions": "relative"}, RelativePositionBias, "max_distance", 16),
        ({"positions": "relative", "max_distance": 3}, RelativePositionBias, "max_distance", 3),
        ({"positions": "relative-bucketed"}, BucketedRelativeBias, "max_distance", 128),
        (
            {"positions": "relative-bucketed", "max_distance": 64},
            BucketedRelativeBias,
            "max_distance",
            64,
        ),
        ({"positions": "none"}, Stack, "positions.__class__", NoPositions),
        ({"kind": "classifier", "pooling": "mean"}, TransformerClassifier, "pool", mean_pool),
        ({"kind": "classifier", "pooling": "first"}, TransformerClassifier, "pool", first_pool),
        ({"kind": "classifier", "pooling": "max"}, TransformerClassifier, "pool", max_pool),
        ({"kind": "classifier", "n_classes": 5}, TransformerClassifier, "output.out_features", 5),
        ({"kind": "tagger", "n_classes": 5}, TransformerTagger, "output.out_features", 5),
        (
            {"kind": "masked-language-model", "n_classes": 5, "dropout": 0.25},
            TransformerTagger,
            "dropout.p",
            0.25,
        ),
        ({"kind": "masked-language-model"}, TransformerTagger, "output.out_features", 11),
        ({"activation_checkpointing": True}, Stack, "activation_checkpointing", True),
        ({"activation_checkpointing": False}, Stack, "activation_checkpointing", False),
    ],
)
def test_a_setting_reaches_every_module_it_is_for(changes, kind, attribute, expected):
    for module in parts(small(**changes), kind):
        value = module
        for name in attribute.split("."):
            value = getattr(value, name)
        assert value == expected


@pytest.mark.parametrize("attention_bias", [True, False])
def test_attention_has_biases_by_setting_only(attention_bias):
    for attention in parts(small(attention_bias=attention_bias), MultiHeadAttention):
        for linear in parts(attention, nn.Linear):
            assert (linear.bias is not None) == attention_bias


def test_bucketed_positions_are_bidirectional_in_the_encoder_only():
    model = small(positions="relative-bucketed")
    assert model.encoder.positions.bidirectional and not model.decoder.positions.bidirectional


def test_only_a_pre_norm_stack_has_a_final_norm():
    for norm, kind in (("layer-norm", LayerNorm), ("rms-norm", RMSNorm)):
        ends = [type(s.final_norm) for s in parts(small(residual="pre-norm", norm=norm), Stack)]
        assert ends == [kind, kind]
    assert {type(s.final_norm) for s in parts(small(residual="post-norm"), Stack)} == {nn.Identity}


def test_encoder_and_decoder_have_their_own_depths():
    model = small(encoder_layers=3, decoder_layers=1)
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (3, 1)


# Tying


@pytest.mark.parametrize("source", [True, False])
@pytest.mark.parametrize("output", [True, False])
def test_embeddings_are_tied_by_settings(source, output):
    model = small(tie_source_target=source, tie_target_output=output)
    target = model.decoder.embedding.weight
    assert (model.encoder.embedding.weight is target) == source
    assert (model.output.weight is target) == output
    tables = [p for p in model.parameters() if p.shape == (11, 8)]
    assert len(tables) == 3 - source - output
    pointers = {p.data_ptr() for p in model.double().parameters()}  # still tied after a conversion
    assert len(pointers) == len(list(model.parameters()))


@pytest.mark.parametrize("tied", [True, False])
def test_a_language_model_ties_its_output_to_its_only_table(tied):
    model = small(kind="language-model", tie_target_output=tied)
    assert (model.output.weight is model.decoder.embedding.weight) == tied


@pytest.mark.parametrize("tied", [True, False])
def test_a_masked_language_model_is_an_encoder_with_a_tied_output(tied):
    model = small(kind="masked-language-model", tie_target_output=tied)
    assert (model.output.weight is model.encoder.embedding.weight) == tied
    assert model.output.bias is None and model.output.weight.shape == (11, 8)
    assert not hasattr(model, "decoder") and len(model.encoder.layers) == 2
    assert model(IDS).shape == (2, 3, 11)


def test_a_masked_language_model_has_the_encoder_of_a_classifier():
    """Equal names and shapes let a classifier start from a masked language model."""
    shapes = [
        {n: p.shape for n, p in small(kind=kind).named_parameters() if n.startswith("encoder.")}
        for kind in ("masked-language-model", "classifier", "translator")
    ]
    assert shapes[0] == shapes[1] == shapes[2]


def test_vocabularies_may_differ():
    model = small(source_vocab_size=13, tie_source_target=False)
    assert model.encoder.embedding.weight.shape == (13, 8)
    assert model.decoder.embedding.weight.shape == model.output.weight.shape == (11, 8)
    assert model(torch.tensor([[12]]), torch.tensor([[10]])).shape == (1, 1, 11)


def test_vocabularies_of_equal_size_may_be_tied_or_not():
    assert count(small(source_vocab_size=11)) == count(small())
    assert count(small(source_vocab_size=11, tie_source_target=False)) == count(small()) + 11 * 8


# Refused combinations


@pytest.mark.parametrize(
    ("changes", "name", "other", "rule", "valid"),
    [
        ({"n_heads": 3}, "n_heads", "d_model", "width d_model / n_heads", [1, 2, 4, 8]),
        ({"n_kv_heads": 3}, "n_kv_heads", "n_heads", "n_heads / n_kv_heads", [1, 2, 4]),
        (
            {"d_model": 12, "positions": "rope"},
            "n_heads",
            "positions",
            "an even width d_model / n_heads",
            [1, 2, 3, 6],
        ),
        *(
            (
                {"kind": kind, "source_vocab_size": 11},
                "source_vocab_size",
                "kind",
                "Only a translator",
                [None],
            )
            for kind in ("language-model", "masked-language-model", "classifier", "tagger")
        ),
        (
            {"source_vocab_size": 13},
            "tie_source_target",
            "source_vocab_size",
            "one vocabulary for both",
            [False],
        ),
        *(
            (
                {"positions": scheme, "max_distance": 32},
                "positions",
                "max_distance",
                "Only relative positions",
                ["relative", "relative-bucketed"],
            )
            for scheme in ("sinusoidal", "learned", "rope", "alibi", "none")
        ),
        ({"pad_id": 11}, "pad_id", "vocab_size", "an id from 0 to 10", [0]),
        (
            {"pad_id": 5, "source_vocab_size": 4, "tie_source_target": False},
            "pad_id",
            "source_vocab_size",
            "an id from 0 to 3",
            [0],
        ),
    ],
)
def test_a_bad_combination_is_an_error_with_both_names_rule_and_remedy(
    changes, name, other, rule, valid
):
    with pytest.raises(SettingsError) as caught:
        small(**changes)
    s = preset("tiny", **SIZES | changes)
    first, second = (f"{setting} = {getattr(s, setting)!r}" for setting in (name, other))
    assert caught.value.what == f"{first} does not go with {second}."
    assert rule in caught.value.why
    assert caught.value.remedy == f"Set {name} = {' or '.join(map(repr, valid))}."
    for value in valid:
        small(**changes | {name: value})


def test_rope_with_an_odd_head_width_is_an_error_whose_remedy_works():
    with pytest.raises(SettingsError) as caught:
        small(d_model=9, n_heads=3, positions="rope")
    assert "an even width" in caught.value.why
    assert not caught.value.remedy.endswith("= .")


def test_a_bucketed_bias_with_too_small_max_distance_is_refused():
    with pytest.raises(
        SettingsError, match="max_distance = 8 does not go with positions"
    ) as caught:
        build("tiny", positions="relative-bucketed", max_distance=8)
    assert "nearest 16 distances" in caught.value.why
    assert "17" in caught.value.remedy
