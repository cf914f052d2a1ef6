"""Export to CTranslate2's format."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.errors import InputError, MissingPackageError
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.feed_forward import (
    FeedForward,
    GELUFeedForward,
    SiLUFeedForward,
    SwiGLUFeedForward,
    TanhGEGLUFeedForward,
    TanhGELUFeedForward,
)
from glassformer.model.norm import LayerNorm, RMSNorm
from glassformer.model.positions import (
    BucketedRelativeBias,
    HalvesEncoding,
    LearnedPositions,
    NoPositions,
    PositionalEncoding,
    RotaryEmbedding,
    sinusoids,
    sinusoids_in_halves,
)
from glassformer.model.residual import PreNorm
from glassformer.model.stack import Stack
from glassformer.model.transformer import Transformer

ACTIVATIONS = {
    FeedForward: "RELU",
    GELUFeedForward: "GELU",
    TanhGELUFeedForward: "GELUTanh",
    SiLUFeedForward: "SWISH",
    SwiGLUFeedForward: "SWISH",
    TanhGEGLUFeedForward: "GELUTanh",
}
POSITIONS = {
    PositionalEncoding: "sinusoidal",
    HalvesEncoding: "sinusoidal-halves",
    LearnedPositions: "learned",
    RotaryEmbedding: "rope",
    BucketedRelativeBias: "relative-bucketed",
    NoPositions: "none",
}
MAX_LENGTH = 4_096  # tokens of a text where positions are a table


def to_ctranslate2(
    model: Transformer,
    folder: Path,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str] | None = None,
    max_length: int = 1_024,
    int8: bool = False,
) -> Path:
    """Write `model` to `folder` as CTranslate2 reads it, in fp32 or with its own INT8.

    CTranslate2 identifies ids by tokens, given in the order of the ids; the first four are padding,
    unknown, begin and end. A source must end with the end token, as in this package. `max_length`
    limits sequences where positions are a table.
    """
    specs = _specs()
    source = list(source_tokens)
    target = source if target_tokens is None else list(target_tokens)
    _check(model, source, target)
    choices = _choices(model.encoder)
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(len(model.encoder.layers), **choices),
        specs.TransformerDecoderSpec(len(model.decoder.layers), **choices),
    )
    _set_stack(spec.encoder, spec.encoder.embeddings[0], model.encoder, max_length)
    _set_stack(spec.decoder, spec.decoder.embeddings, model.decoder, max_length)
    _set_linear(spec.decoder.projection, model.output)
    spec.decoder.start_from_zero_embedding = model.decoder.zero_start
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    _, unknown, begin, end = target[:4]
    spec.config.bos_token = spec.config.decoder_start_token = begin
    spec.config.eos_token, spec.config.unk_token = end, unknown
    return _save(spec, model.encoder, folder, int8)


def encoder_to_ctranslate2(encoder: Stack, folder: Path, int8: bool = False) -> Path:
    """Write an encoder to `folder` as a model of `ctranslate2.Encoder`, which takes token ids.

    Where positions are a table, it has `MAX_LENGTH` rows.
    """
    specs = _specs()
    _check_positions(encoder)
    layers = specs.TransformerEncoderSpec(len(encoder.layers), **_choices(encoder))
    spec = specs.TransformerEncoderModelSpec(layers)
    _set_stack(spec.encoder, spec.encoder.embeddings[0], encoder, MAX_LENGTH)
    spec.register_vocabulary([str(i) for i in range(encoder.embedding.weight.size(0))])
    spec.config.unk_token = "1"
    return _save(spec, encoder, folder, int8)


def _specs() -> Any:
    try:
        import ctranslate2.specs as specs
    except ImportError:
        raise MissingPackageError("ctranslate2", "CTranslate2's format", "peers") from None
    return specs


def _save(spec: Any, encoder: Stack, folder: Path, int8: bool) -> Path:
    layer: Any = encoder.layers[0]
    spec.config.layer_norm_epsilon = layer.self_attention_residual.norm.eps
    spec.validate()
    spec.optimize(quantization="int8" if int8 else None)  # a tied table is written once
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    return folder


def _choices(encoder: Stack) -> dict[str, Any]:
    """Return the architecture as CTranslate2's options; encoder and decoder share them."""
    from ctranslate2.specs import common_spec

    layer: Any = encoder.layers[0]
    attention, positions = layer.self_attention, encoder.positions
    choices = {
        "num_heads": attention.n_heads,
        "pre_norm": isinstance(layer.self_attention_residual, PreNorm),
        "activation": common_spec.Activation[ACTIVATIONS[type(layer.feed_forward)]],
        "ffn_glu": isinstance(layer.feed_forward, SwiGLUFeedForward),
        "rms_norm": isinstance(layer.self_attention_residual.norm, RMSNorm),
        "relative_attention_bias": isinstance(positions, BucketedRelativeBias),
        "layernorm_embedding": not isinstance(encoder.embedding_norm, nn.Identity),
    }
    if attention.n_kv_heads != attention.n_heads:
        choices["num_heads_kv"] = attention.n_kv_heads
    if isinstance(positions, RotaryEmbedding):
        choices |= {"rotary_dim": positions.d_k, "rotary_base": positions.base}
        choices["rotary_interleave"] = not positions.halves
    return choices


def _set_stack(spec: Any, embeddings: Any, stack: Stack, max_length: int) -> None:
    embeddings.weight = _values(stack.embedding.weight)
    spec.scale_embeddings = float(stack.embedding.scale)
    if not isinstance(stack.embedding_norm, nn.Identity):
        _set_norm(spec.layernorm_embedding, stack.embedding_norm)
    _set_positions(spec, stack.positions, max_length, stack.embedding.weight.size(1))
    if not isinstance(stack.final_norm, nn.Identity):
        _set_norm(spec.layer_norm, stack.final_norm)
    for theirs, ours in zip(spec.layer, stack.layers, strict=True):
        _set_layer(theirs, ours)


def _set_positions(spec: Any, positions: NoPositions, max_length: int, d_model: int) -> None:
    if isinstance(positions, LearnedPositions):
        spec.position_encodings.encodings = _values(positions.weight)
    elif isinstance(positions, PositionalEncoding):  # its default has other wavelengths
        halves = isinstance(positions, HalvesEncoding)
        table = (sinusoids_in_halves if halves else sinusoids)(torch.arange(max_length), d_model)
        spec.position_encodings.encodings = _values(table)
    elif isinstance(positions, BucketedRelativeBias):
        for layer in spec.layer:
            layer.self_attention.relative_attention_bias = _values(positions.weight)
            distance = np.int32(positions.max_distance)
            layer.self_attention.relative_attention_max_distance = distance
    elif not isinstance(positions, RotaryEmbedding):  # without a table CTranslate2 adds sinusoids
        spec.position_encodings.encodings = _values(torch.zeros(max_length, d_model))


def _set_layer(spec: Any, layer: Any) -> None:
    _set_attention(spec.self_attention, layer.self_attention)
    _set_norm(spec.self_attention.layer_norm, layer.self_attention_residual.norm)
    if hasattr(layer, "cross_attention"):
        _set_attention(spec.attention, layer.cross_attention)
        _set_norm(spec.attention.layer_norm, layer.cross_attention_residual.norm)
    expand = layer.feed_forward.expand
    if isinstance(layer.feed_forward, SwiGLUFeedForward):
        half = expand.out_features // 2
        _set_linear(spec.ffn.linear_0, expand, slice(0, half))
        _set_linear(spec.ffn.linear_0_noact, expand, slice(half, None))
    else:
        _set_linear(spec.ffn.linear_0, expand)
    _set_linear(spec.ffn.linear_1, layer.feed_forward.contract)
    _set_norm(spec.ffn.layer_norm, layer.feed_forward_residual.norm)


def _set_attention(spec: Any, attention: MultiHeadAttention) -> None:
    projections = (attention.q, attention.kv) if attention.cross else (attention.qkv,)
    for theirs, ours in zip(spec.linear, (*projections, attention.output), strict=True):
        _set_linear(theirs, ours)
    if attention.scale is not None:
        spec.queries_scale = float(attention.scale)


def _set_linear(spec: Any, linear: nn.Linear, rows: slice = slice(None)) -> None:
    spec.weight = _values(linear.weight[rows])
    if linear.bias is not None:
        spec.bias = _values(linear.bias[rows])


def _set_norm(spec: Any, norm: Any) -> None:
    spec.gamma = _values(norm.gain)
    if isinstance(norm, LayerNorm):
        spec.beta = _values(norm.bias)


def _values(tensor: Tensor) -> Any:
    """Return a copy: CTranslate2 quantises in place."""
    return tensor.detach().float().numpy().copy()


def _check(model: Transformer, source: list[str], target: list[str]) -> None:
    _check_positions(model.encoder)
    sides = (("source", source, model.encoder), ("target", target, model.decoder))
    for side, tokens, stack in sides:
        rows, names = stack.embedding.weight.size(0), len(set(tokens))
        if not len(tokens) == names == rows:
            raise InputError(
                f"{len(tokens)} {side} tokens were given, {names} of them distinct.",
                f"CTranslate2 identifies ids by tokens, and the model has {rows} ids on that side.",
                "Give one distinct token for each id, in the order of the ids.",
            )
    if source[:4] != target[:4]:
        raise InputError(
            f"The special tokens are {source[:4]} in the source, {target[:4]} in the target.",
            "CTranslate2 has one name for each special token.",
            "Give the first four ids the same tokens on both sides.",
        )


def _check_positions(encoder: Stack) -> None:
    scheme = type(encoder.positions)
    if scheme not in POSITIONS:
        raise InputError(
            f"{scheme.__name__} cannot be written for CTranslate2.",
            "Its encoder-decoder models have no such positions.",
            f"Build with positions = {' or '.join(map(repr, POSITIONS.values()))}.",
        )
