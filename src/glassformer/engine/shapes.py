"""Shapes of a model: its matrices and norms by number and by name, and how large each is.

Matrices and norms are numbered: tables of tokens and output first, then layer by layer.
"""

from collections.abc import Iterator
from math import sqrt
from typing import Any

from glassformer.config import ModelSettings
from glassformer.engine.sizes import (
    ATTENTION_OUTPUT,
    CONTRACT,
    CROSS_KV,
    CROSS_OUTPUT,
    CROSS_Q,
    EXPAND,
    GELU,
    GELU_TANH,
    MATRICES,
    NORMS,
    QKV,
    RELU,
    SILU,
    SWIGLU,
    f32,
)

FIRST_LAYER = 3  # number of the first matrix of a layer, behind two tables and the output
MAX_DISTANCE = 16  # of relative positions, where the settings say nothing
BUCKETS = 32  # of relative positions in buckets
PARTS = {
    "self_attention.qkv": QKV,
    "self_attention.output": ATTENTION_OUTPUT,
    "feed_forward.expand": EXPAND,
    "feed_forward.contract": CONTRACT,
    "cross_attention.q": CROSS_Q,
    "cross_attention.kv": CROSS_KV,
    "cross_attention.output": CROSS_OUTPUT,
}
RESIDUALS = {"self_attention": 0, "feed_forward": 1, "cross_attention": 2}
ACTIVATIONS = {
    "relu": RELU,
    "gelu": GELU,
    "gelu-tanh": GELU_TANH,
    "silu": SILU,
    "swiglu": SWIGLU,
}


def sizes_of(s: ModelSettings) -> dict[str, Any]:
    """Return what the struct MODEL says of a model's shape."""
    encoder, decoder = has_encoder(s), has_decoder(s)
    separate = s.kind == "translator" and not s.tie_source_target
    encoder_layers = s.encoder_layers if encoder else 0
    n_kv_heads, d_k = s.n_kv_heads or s.n_heads, s.d_model // s.n_heads
    decoder_layers = s.decoder_layers if decoder else 0
    decoder_norm = NORMS * encoder_layers + 1 if encoder else 0
    embedding_norms = decoder_norm + NORMS * decoder_layers + 1  # numbered behind all others
    return {
        "d_model": s.d_model,
        "n_heads": s.n_heads,
        "n_kv_heads": n_kv_heads,
        "d_k": d_k,
        "d_ff": s.d_ff,
        "encoder_layers": encoder_layers,
        "decoder_layers": decoder_layers,
        "pre_norm": s.residual == "pre-norm",
        "rms": s.norm == "rms-norm",
        "activation": ACTIVATIONS[s.feed_forward],
        "cross": encoder and decoder,
        "source_table": 1 if separate else 0,
        "target_table": 0,
        "output": 0 if is_tied(s) else 2,
        "encoder": FIRST_LAYER,
        "decoder": FIRST_LAYER + MATRICES * encoder_layers,
        "encoder_norm": 0,
        "decoder_norm": decoder_norm,
        "source_norm": embedding_norms if s.embedding_norm else -1,
        "target_norm": embedding_norms + 1 if s.embedding_norm else -1,
        "zero_start": s.start_vector == "zeros",
        "embedding_scale": f32(1 if s.embedding_scale == "none" else sqrt(s.d_model)),
        "eps": f32(s.norm_eps),
    }


def has_encoder(s: ModelSettings) -> bool:
    return s.kind != "language-model"


def has_decoder(s: ModelSettings) -> bool:
    return s.kind in ("translator", "language-model")


def is_tied(s: ModelSettings) -> bool:
    """Return whether the output projection is the embedding's table; an embedder has none."""
    tied = s.tie_target_output and s.kind not in ("classifier", "tagger")
    return tied or s.kind == "embedder"


def has_output_bias(s: ModelSettings) -> bool:
    biased = s.output_bias and s.kind != "embedder"
    return biased or s.kind in ("classifier", "tagger")


def matrix_names(s: ModelSettings) -> Iterator[tuple[int, str]]:
    """Yield the number of each matrix and its name in a checkpoint."""
    sizes = sizes_of(s)
    if sizes["source_table"]:
        yield 0, "decoder.embedding"
        yield 1, "encoder.embedding"
    else:
        yield 0, "encoder.embedding" if has_encoder(s) else "decoder.embedding"
    if sizes["output"]:
        yield sizes["output"], "output"
    for stack in ("encoder", "decoder"):
        for layer in range(sizes[f"{stack}_layers"]):
            for part, i in PARTS.items():
                if not part.startswith("cross") or (stack == "decoder" and sizes["cross"]):
                    yield sizes[stack] + MATRICES * layer + i, f"{stack}.layers.{layer}.{part}"


def norm_names(s: ModelSettings) -> Iterator[tuple[int, str]]:
    """Yield the number of each norm and its name in a checkpoint."""
    sizes = sizes_of(s)
    for stack in ("encoder", "decoder"):
        first, layers = sizes[f"{stack}_norm"], sizes[f"{stack}_layers"]
        for layer in range(layers):
            for part, n in RESIDUALS.items():
                if not part.startswith("cross") or (stack == "decoder" and sizes["cross"]):
                    yield first + NORMS * layer + n, f"{stack}.layers.{layer}.{part}_residual.norm"
        if layers and sizes["pre_norm"]:
            yield first + NORMS * layers, f"{stack}.final_norm"
        embedding = sizes["source_norm" if stack == "encoder" else "target_norm"]
        if layers and embedding >= 0:
            yield embedding, f"{stack}.embedding_norm"


def bias_name(s: ModelSettings, name: str) -> str:
    """Return the name of the bias of a matrix; nothing where it has none.

    The bias of a tied output is that of the table, where no look-up sees it.
    """
    tables = {number: table for number, table in matrix_names(s) if number < FIRST_LAYER}
    if name in tables.values():
        is_output = name == tables[sizes_of(s)["output"]]
        return "output.bias" if is_output and has_output_bias(s) else ""
    biased = s.feed_forward_bias if "feed_forward" in name else s.attention_bias
    return f"{name}.bias" if biased else ""


def expected_shape(s: ModelSettings, name: str) -> tuple[int, int]:
    """Return outputs and inputs of a matrix by its name."""
    d, kv = s.d_model, 2 * (s.n_kv_heads or s.n_heads) * (s.d_model // s.n_heads)
    if name == "output":
        return (s.n_classes if s.kind in ("classifier", "tagger") else s.vocab_size), d
    if name.endswith("embedding"):
        source = name.startswith("encoder") and s.kind == "translator" and not s.tie_source_target
        return (s.source_vocab_size or s.vocab_size) if source else s.vocab_size, d
    return {
        "self_attention.qkv": (d + kv, d),
        "self_attention.output": (d, d),
        "cross_attention.q": (d, d),
        "cross_attention.kv": (kv, d),
        "cross_attention.output": (d, d),
        "feed_forward.expand": (s.d_ff * (2 if s.feed_forward == "swiglu" else 1), d),
        "feed_forward.contract": (d, s.d_ff),
    }[name.split(".", 3)[3]]


def expected_shapes(s: ModelSettings) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a model by its name in a checkpoint."""
    shapes: dict[str, tuple[int, ...]] = {}
    for _, name in matrix_names(s):
        outputs, inputs = expected_shape(s, name)
        shapes[f"{name}.weight"] = outputs, inputs
        if bias_name(s, name):
            shapes[bias_name(s, name)] = (outputs,)
    for _, name in norm_names(s):
        parts = ("gain", "bias") if s.norm == "layer-norm" else ("gain",)
        shapes |= {f"{name}.{part}": (s.d_model,) for part in parts}
    positions = {
        "learned": (s.max_positions, s.d_model),
        "relative": (2 * (s.max_distance or MAX_DISTANCE) + 1, s.n_heads),
        "relative-bucketed": (BUCKETS, s.n_heads),
    }
    if s.positions in positions:
        stacks = {"encoder": has_encoder(s), "decoder": has_decoder(s)}
        for stack in (name for name, there in stacks.items() if there):
            shapes[f"{stack}.positions.weight"] = positions[s.positions]
    return shapes
