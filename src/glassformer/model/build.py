"""Build modules from settings. Only this file reads setting strings; modules get arguments."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

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
    TransformerEmbedder,
    TransformerTagger,
    first_pool,
    max_pool,
    mean_pool,
)
from glassformer.model.decoder import DecoderLayer, TransformerDecoder
from glassformer.model.embedding import TokenEmbedding
from glassformer.model.encoder import EncoderLayer, TransformerEncoder
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
    AlibiBias,
    BucketedRelativeBias,
    HalvesEncoding,
    LearnedPositions,
    NoPositions,
    PositionalEncoding,
    RelativePositionBias,
    RotaryEmbedding,
)
from glassformer.model.residual import PostNorm, PreNorm, Residual
from glassformer.model.stack import Stack
from glassformer.model.transformer import LanguageModel, Transformer
from glassformer.registry import call, find, registered

Model = (
    Transformer | LanguageModel | TransformerClassifier | TransformerTagger | TransformerEmbedder
)

KERNELS: dict[str, Kernel] = {
    "fused": fused_attention,
    "readable": scaled_dot_product_attention,
}
NORMS = {"layer-norm": LayerNorm, "rms-norm": RMSNorm}
RESIDUALS: dict[str, type[Residual]] = {"post-norm": PostNorm, "pre-norm": PreNorm}
FEED_FORWARDS = {
    "relu": FeedForward,
    "gelu": GELUFeedForward,
    "gelu-tanh": TanhGELUFeedForward,
    "silu": SiLUFeedForward,
    "swiglu": SwiGLUFeedForward,
    "geglu-tanh": TanhGEGLUFeedForward,
}
EMBEDDING_SCALES = {"sqrt-d_model": None, "none": 1.0}
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
    target = source = _embedding(s, s.vocab_size)
    if not s.tie_source_target:
        source = _embedding(s, s.source_vocab_size or s.vocab_size)
    decoder = _decoder(s, target)
    decoder.zero_start = s.start_vector == "zeros"
    return Transformer(_encoder(s, source), decoder, _output(s, target), s.pad_id)


def _language_model(s: ModelSettings) -> LanguageModel:
    embedding = _embedding(s, s.vocab_size)
    return LanguageModel(_decoder(s, embedding), _output(s, embedding), s.pad_id)


def _classifier(s: ModelSettings) -> TransformerClassifier:
    encoder = _encoder(s, _embedding(s, s.vocab_size))
    output = nn.Linear(s.d_model, s.n_classes)
    return TransformerClassifier(encoder, output, POOLINGS[s.pooling], s.dropout, s.pad_id)


def _masked_language_model(s: ModelSettings) -> TransformerTagger:
    embedding = _embedding(s, s.vocab_size)
    return TransformerTagger(_encoder(s, embedding), _output(s, embedding), s.dropout, s.pad_id)


def _tagger(s: ModelSettings) -> TransformerTagger:
    encoder = _encoder(s, _embedding(s, s.vocab_size))
    return TransformerTagger(encoder, nn.Linear(s.d_model, s.n_classes), s.dropout, s.pad_id)


def _embedder(s: ModelSettings) -> TransformerEmbedder:
    encoder = _encoder(s, _embedding(s, s.vocab_size))
    return TransformerEmbedder(encoder, POOLINGS[s.pooling], s.pad_id, s.unit_length)


_MODELS: dict[str, Callable[[ModelSettings], Model]] = {
    "translator": _translator,
    "language-model": _language_model,
    "masked-language-model": _masked_language_model,
    "classifier": _classifier,
    "tagger": _tagger,
    "embedder": _embedder,
}


def _embedding(s: ModelSettings, vocab_size: int) -> TokenEmbedding:
    return TokenEmbedding(vocab_size, s.d_model, EMBEDDING_SCALES[s.embedding_scale])


def _encoder(s: ModelSettings, embedding: TokenEmbedding) -> TransformerEncoder:
    layers = [
        EncoderLayer(_attention(s), _feed_forward(s), partial(_residual, s))
        for _ in range(s.encoder_layers)
    ]
    positions = _positions(s, bidirectional=True)
    norms = _final_norm(s), _embedding_norm(s)
    return TransformerEncoder(embedding, positions, layers, norms[0], s.dropout, norms[1])


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
    norms = _final_norm(s), _embedding_norm(s)
    return TransformerDecoder(embedding, positions, layers, norms[0], s.dropout, norms[1])


def _attention(s: ModelSettings, cross: bool = False) -> MultiHeadAttention:
    return MultiHeadAttention(
        s.d_model,
        s.n_heads,
        s.n_kv_heads,
        cross=cross,
        bias=s.attention_bias,
        dropout=s.attention_dropout,
        kernel=find("attention", s.attention, KERNELS),
    )


def _feed_forward(s: ModelSettings) -> nn.Module:
    kind = find("feed_forward", s.feed_forward, FEED_FORWARDS)
    bias, dropout = s.feed_forward_bias, s.feed_forward_dropout
    made: nn.Module = call(kind, d_model=s.d_model, d_ff=s.d_ff, bias=bias, dropout=dropout)
    return _marked(made, s.feed_forward not in FEED_FORWARDS)


def _residual(s: ModelSettings) -> Residual:
    return RESIDUALS[s.residual](_norm(s), s.dropout)


def _final_norm(s: ModelSettings) -> nn.Module | None:
    """A pre-norm stack adds up unnormalised branches; post-norm's last layer has normed already."""
    return _norm(s) if s.residual == "pre-norm" else None


def _embedding_norm(s: ModelSettings) -> nn.Module | None:
    return _norm(s) if s.embedding_norm else None


def _norm(s: ModelSettings) -> nn.Module:
    made: nn.Module = call(find("norm", s.norm, NORMS), d_model=s.d_model, eps=s.norm_eps)
    return _marked(made, s.norm not in NORMS)


def _marked(module: nn.Module, is_own: bool) -> nn.Module:
    """Mark a registered variant, whose constructor has initialised it."""
    if is_own:
        module.initialises_itself = True  # type: ignore[assignment]
    return module


def _positions(s: ModelSettings, bidirectional: bool) -> NoPositions:
    if own := registered("positions").get(s.positions):
        return _own_positions(own, s, bidirectional)
    if s.positions == "sinusoidal":
        return PositionalEncoding(s.d_model)
    if s.positions == "sinusoidal-halves":
        return HalvesEncoding(s.d_model)
    if s.positions == "learned":
        return LearnedPositions(s.d_model, s.max_positions)
    if s.positions == "rope":
        return RotaryEmbedding(s.d_model // s.n_heads, s.rope_base, s.rope_pairs == "halves")
    if s.positions == "alibi":
        return AlibiBias(s.n_heads)
    distance = {} if s.max_distance is None else {"max_distance": s.max_distance}
    if s.positions == "relative":
        return RelativePositionBias(s.n_heads, **distance)
    if s.positions == "relative-bucketed":
        return BucketedRelativeBias(s.n_heads, bidirectional=bidirectional, **distance)
    return NoPositions()


def _own_positions(own: Callable[..., NoPositions], s: ModelSettings, both: bool) -> NoPositions:
    made = call(
        own,
        d_model=s.d_model,
        n_heads=s.n_heads,
        d_k=s.d_model // s.n_heads,
        max_positions=s.max_positions,
        max_distance=s.max_distance,
        bidirectional=both,
    )
    made.initialises_itself = True
    return cast(NoPositions, made)


def _output(s: ModelSettings, embedding: TokenEmbedding) -> nn.Linear:
    output = nn.Linear(s.d_model, s.vocab_size, bias=s.output_bias)
    if s.tie_target_output:
        output.weight = embedding.weight
    return output
