"""Build modules from settings. Only this file reads setting strings; modules get arguments."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from glassformer.config import ModelSettings, check_together, preset
from glassformer.model import init
from glassformer.model.attention import (
    Kernel,
    MultiHeadAttention,
    fused_attention,
    scaled_dot_product_attention,
)
from glassformer.model.classifier import (
    Pooling,
    TransformerClassifier,
    TransformerTagger,
    first_pool,
    max_pool,
    mean_pool,
)
from glassformer.model.decoder import DecoderLayer, TransformerDecoder
from glassformer.model.embedding import TokenEmbedding
from glassformer.model.encoder import EncoderLayer, TransformerEncoder
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
)
from glassformer.model.residual import PostNorm, PreNorm, Residual
from glassformer.model.stack import Stack
from glassformer.model.transformer import LanguageModel, Transformer

Model = Transformer | LanguageModel | TransformerClassifier | TransformerTagger

KERNELS: dict[str, Kernel] = {
    "fused": fused_attention,
    "readable": scaled_dot_product_attention,
}
NORMS = {"layer-norm": LayerNorm, "rms-norm": RMSNorm}
RESIDUALS: dict[str, type[Residual]] = {"post-norm": PostNorm, "pre-norm": PreNorm}
FEED_FORWARDS = {"relu": FeedForward, "gelu": GELUFeedForward, "swiglu": SwiGLUFeedForward}
POOLINGS: dict[str, Pooling] = {"mean": mean_pool, "first": first_pool, "max": max_pool}
INITS: dict[str, Callable[[nn.Module], None]] = {
    "xavier": init.xavier,
    "depth-scaled": init.depth_scaled,
}


def build(settings: ModelSettings | str = "tiny", **changes: Any) -> Model:
    """Build a model from settings or a preset, with changes: build("tiny", n_kv_heads=1)."""
    s = preset(settings) if isinstance(settings, str) else settings
    s = s.replace(**changes)
    check_together(s)
    model = _MODELS[s.kind](s)
    INITS[s.init](model)
    for module in model.modules():
        if isinstance(module, Stack):
            module.activation_checkpointing = s.activation_checkpointing
    return model


def _translator(s: ModelSettings) -> Transformer:
    target = TokenEmbedding(s.vocab_size, s.d_model)
    source = target
    if not s.tie_source_target:
        source = TokenEmbedding(s.source_vocab_size or s.vocab_size, s.d_model)
    return Transformer(_encoder(s, source), _decoder(s, target), _output(s, target), s.pad_id)


def _language_model(s: ModelSettings) -> LanguageModel:
    embedding = TokenEmbedding(s.vocab_size, s.d_model)
    return LanguageModel(_decoder(s, embedding), _output(s, embedding), s.pad_id)


def _classifier(s: ModelSettings) -> TransformerClassifier:
    encoder = _encoder(s, TokenEmbedding(s.vocab_size, s.d_model))
    output = nn.Linear(s.d_model, s.n_classes)
    return TransformerClassifier(encoder, output, POOLINGS[s.pooling], s.dropout, s.pad_id)


def _masked_language_model(s: ModelSettings) -> TransformerTagger:
    embedding = TokenEmbedding(s.vocab_size, s.d_model)
    return TransformerTagger(_encoder(s, embedding), _output(s, embedding), s.dropout, s.pad_id)


def _tagger(s: ModelSettings) -> TransformerTagger:
    encoder = _encoder(s, TokenEmbedding(s.vocab_size, s.d_model))
    return TransformerTagger(encoder, nn.Linear(s.d_model, s.n_classes), s.dropout, s.pad_id)


_MODELS: dict[str, Callable[[ModelSettings], Model]] = {
    "translator": _translator,
    "language-model": _language_model,
    "masked-language-model": _masked_language_model,
    "classifier": _classifier,
    "tagger": _tagger,
}


def _encoder(s: ModelSettings, embedding: TokenEmbedding) -> TransformerEncoder:
    layers = [
        EncoderLayer(_attention(s), _feed_forward(s), partial(_residual, s))
        for _ in range(s.encoder_layers)
    ]
    positions = _positions(s, bidirectional=True)
    return TransformerEncoder(embedding, positions, layers, _final_norm(s), s.dropout)


def _decoder(s: ModelSettings, embedding: TokenEmbedding) -> TransformerDecoder:
    has_source = s.kind == "translator"
    layers = [
        DecoderLayer(
            _attention(s),
            _feed_forward(s),
            partial(_residual, s),
            cross_attention=_attention(s, cross=True) if has_source else None,
        )
        for _ in range(s.decoder_layers)
    ]
    positions = _positions(s, bidirectional=False)
    return TransformerDecoder(embedding, positions, layers, _final_norm(s), s.dropout)


def _attention(s: ModelSettings, cross: bool = False) -> MultiHeadAttention:
    return MultiHeadAttention(
        s.d_model,
        s.n_heads,
        s.n_kv_heads,
        cross=cross,
        bias=s.attention_bias,
        dropout=s.attention_dropout,
        kernel=KERNELS[s.attention],
    )


def _feed_forward(s: ModelSettings) -> nn.Module:
    kind = FEED_FORWARDS[s.feed_forward]
    return kind(s.d_model, s.d_ff, s.feed_forward_bias, s.feed_forward_dropout)


def _residual(s: ModelSettings) -> Residual:
    return RESIDUALS[s.residual](NORMS[s.norm](s.d_model), s.dropout)


def _final_norm(s: ModelSettings) -> nn.Module | None:
    """A pre-norm stack adds up unnormalised branches; post-norm's last layer has normed already."""
    return NORMS[s.norm](s.d_model) if s.residual == "pre-norm" else None


def _positions(s: ModelSettings, bidirectional: bool) -> NoPositions:
    if s.positions == "sinusoidal":
        return PositionalEncoding(s.d_model)
    if s.positions == "learned":
        return LearnedPositions(s.d_model, s.max_positions)
    if s.positions == "rope":
        return RotaryEmbedding(s.d_model // s.n_heads)
    if s.positions == "alibi":
        return AlibiBias(s.n_heads)
    distance = {} if s.max_distance is None else {"max_distance": s.max_distance}
    if s.positions == "relative":
        return RelativePositionBias(s.n_heads, **distance)
    if s.positions == "relative-bucketed":
        return BucketedRelativeBias(s.n_heads, bidirectional=bidirectional, **distance)
    return NoPositions()


def _output(s: ModelSettings, embedding: TokenEmbedding) -> nn.Linear:
    output = nn.Linear(s.d_model, s.vocab_size, bias=False)
    if s.tie_target_output:
        output.weight = embedding.weight
    return output
