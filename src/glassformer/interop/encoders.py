"""Models of Hugging Face with an encoder: BERT, BART and Marian."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.interop.foreign import MAX_LAYERS, Config, Tensors

Weights = dict[str, NDArray[Any]]
Settings = dict[str, Any]
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "silu": "silu",
    "swish": "silu",
}
BART_OFFSET = 2  # rows of BART's table of positions in front of position 0


def bert_settings(c: Config) -> Settings:
    c.require("position_embedding_type", "absolute", "absolute")
    c.require("is_decoder", False, False)
    return {
        "kind": "embedder",
        "vocab_size": c.count("vocab_size", most=10_000_000),
        "d_model": c.count("hidden_size"),
        "n_heads": c.count("num_attention_heads"),
        "d_ff": c.count("intermediate_size"),
        "encoder_layers": c.count("num_hidden_layers", most=MAX_LAYERS),
        "positions": "learned",
        "max_positions": c.count("max_position_embeddings"),
        "residual": "post-norm",
        "norm_eps": c.number("layer_norm_eps", 1e-12),
        "feed_forward": c.choice("hidden_act", ACTIVATIONS, "gelu"),
        "embedding_scale": "none",
        "embedding_norm": True,
        "attention_bias": True,
        "dropout": 0.0,
    }


BERT_SUBLAYERS = {
    "self_attention.output": "attention.output.dense",
    "feed_forward.expand": "intermediate.dense",
    "feed_forward.contract": "output.dense",
}
BERT_NORMS = {"self_attention": "attention.output.LayerNorm", "feed_forward": "output.LayerNorm"}


def bert_weights(s: Settings, t: Tensors, token_types: int) -> Weights:
    """Return the weights of BERT. The vector of the first token type is added to all positions."""
    top = "bert." if "bert.embeddings.word_embeddings.weight" in t else ""
    d, below = s["d_model"], f"{top}embeddings"
    positions = t.take(f"{below}.position_embeddings.weight", s["max_positions"], d)
    types = t.take(f"{below}.token_type_embeddings.weight", token_types, d)
    weights: Weights = {
        "encoder.embedding.weight": t.take(f"{below}.word_embeddings.weight", s["vocab_size"], d),
        "encoder.positions.weight": positions + types[0],
        **_norm(t, "encoder.embedding_norm", f"{below}.LayerNorm", d),
    }
    for i in range(s["encoder_layers"]):
        ours, theirs = f"encoder.layers.{i}", f"{top}encoder.layer.{i}"
        parts = [f"{theirs}.attention.self.{p}" for p in ("query", "key", "value")]
        qkv = f"{ours}.self_attention.qkv"
        weights[f"{qkv}.weight"] = t.stacked([f"{part}.weight" for part in parts], d, d)
        weights[f"{qkv}.bias"] = t.stacked([f"{part}.bias" for part in parts], d)
        shapes = {"feed_forward.expand": (s["d_ff"], d), "feed_forward.contract": (d, s["d_ff"])}
        for part, name in BERT_SUBLAYERS.items():
            weights |= _linear(t, f"{ours}.{part}", f"{theirs}.{name}", shapes.get(part, (d, d)))
        for part, name in BERT_NORMS.items():
            weights |= _norm(t, f"{ours}.{part}_residual.norm", f"{theirs}.{name}", d)
    unused = ("pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids")
    t.ignore(*(f"{top}{name}" for name in unused))
    return weights


def bart_settings(c: Config) -> Settings:
    """Return the settings of BART or Marian, which have one configuration."""
    marian = c.values["model_type"] == "marian"
    d_model, heads = c.count("d_model"), c.count("encoder_attention_heads")
    d_ff, v = c.count("encoder_ffn_dim"), c.count("vocab_size", most=10_000_000)
    c.require("decoder_attention_heads", heads)
    c.require("decoder_ffn_dim", d_ff)
    for key in ("normalize_before", "add_final_layer_norm"):
        c.require(key, False, False)
    shared = c.flag("share_encoder_decoder_embeddings", True)
    return {
        "kind": "translator",
        "vocab_size": c.count("decoder_vocab_size", v) if marian else v,
        "source_vocab_size": None if shared else v,
        "tie_source_target": shared,
        "tie_target_output": c.flag("tie_word_embeddings", True),
        "pad_id": c.identity("pad_token_id"),
        "d_model": d_model,
        "n_heads": heads,
        "d_ff": d_ff,
        "encoder_layers": c.count("encoder_layers", most=MAX_LAYERS),
        "decoder_layers": c.count("decoder_layers", most=MAX_LAYERS),
        "positions": "sinusoidal-halves" if marian else "learned",
        "max_positions": c.count("max_position_embeddings"),
        "residual": "post-norm",
        "feed_forward": c.choice("activation_function", ACTIVATIONS, "gelu"),
        "embedding_scale": "sqrt-d_model" if c.flag("scale_embedding", False) else "none",
        "embedding_norm": not marian,
        "attention_bias": True,
        "output_bias": True,
        "dropout": 0.0,
    }


def bart_weights(s: Settings, t: Tensors) -> Weights:
    d, v = s["d_model"], s["vocab_size"]
    source = s["source_vocab_size"] or v
    top = "model." if any(name.startswith("model.") for name in t.shapes) else ""
    weights: Weights = {}
    tables = {"encoder.embedding": source, "decoder.embedding": v}
    shared = "shared.weight"
    for ours, size in tables.items():
        name = f"{top}{ours.partition('.')[0]}.embed_tokens.weight"
        chosen = name if name in t else f"{top}{shared}"
        if ours == "encoder.embedding" or not s["tie_source_target"]:
            weights[f"{ours}.weight"] = t.take(chosen, size, d)
        t.ignore(name)
    t.ignore(f"{top}{shared}")
    if s["tie_target_output"]:
        t.ignore("lm_head.weight")
    else:
        weights["output.weight"] = t.take("lm_head.weight", v, d)
    bias = "final_logits_bias"
    weights["output.bias"] = t.take(bias, 1, v)[0] if bias in t else np.zeros(v, np.float32)
    for stack in ("encoder", "decoder"):
        weights |= _bart_stack(s, t, stack, f"{top}{stack}")
    return weights


def _bart_stack(s: Settings, t: Tensors, stack: str, theirs: str) -> Weights:
    d, rows = s["d_model"], s["max_positions"]
    weights: Weights = {}
    if s["positions"] == "learned":
        table = t.take(f"{theirs}.embed_positions.weight", rows + BART_OFFSET, d)
        weights[f"{stack}.positions.weight"] = np.ascontiguousarray(table[BART_OFFSET:])
    else:  # Marian computes its table
        t.ignore(f"{theirs}.embed_positions.weight")
    if s["embedding_norm"]:
        weights |= _norm(t, f"{stack}.embedding_norm", f"{theirs}.layernorm_embedding", d)
    for i in range(s[f"{stack}_layers"]):
        weights |= _bart_layer(s, t, f"{stack}.layers.{i}", f"{theirs}.layers.{i}")
    return weights


def _bart_layer(s: Settings, t: Tensors, ours: str, theirs: str) -> Weights:
    d, d_ff = s["d_model"], s["d_ff"]
    sublayers: Mapping[str, tuple[str, tuple[str, ...]]] = {
        "self_attention.qkv": ("self_attn", ("q", "k", "v")),
    }
    norms = {"self_attention": "self_attn_layer_norm", "feed_forward": "final_layer_norm"}
    if ours.startswith("decoder"):
        sublayers = {
            **sublayers,
            "cross_attention.q": ("encoder_attn", ("q",)),
            "cross_attention.kv": ("encoder_attn", ("k", "v")),
        }
        norms["cross_attention"] = "encoder_attn_layer_norm"
    weights: Weights = {}
    for part, (name, projections) in sublayers.items():
        names = [f"{theirs}.{name}.{p}_proj" for p in projections]
        weights[f"{ours}.{part}.weight"] = t.stacked([f"{n}.weight" for n in names], d, d)
        weights[f"{ours}.{part}.bias"] = t.stacked([f"{n}.bias" for n in names], d)
        output = f"{ours}.{part.partition('.')[0]}.output"
        weights |= _linear(t, output, f"{theirs}.{name}.out_proj", (d, d))
    for part, name in norms.items():
        weights |= _norm(t, f"{ours}.{part}_residual.norm", f"{theirs}.{name}", d)
    weights |= _linear(t, f"{ours}.feed_forward.expand", f"{theirs}.fc1", (d_ff, d))
    weights |= _linear(t, f"{ours}.feed_forward.contract", f"{theirs}.fc2", (d, d_ff))
    return weights


def _linear(t: Tensors, ours: str, theirs: str, shape: tuple[int, int]) -> Weights:
    return {
        f"{ours}.weight": t.take(f"{theirs}.weight", *shape),
        f"{ours}.bias": t.take(f"{theirs}.bias", shape[0]),
    }


def _norm(t: Tensors, ours: str, theirs: str, d: int) -> Weights:
    return {
        f"{ours}.gain": t.take(f"{theirs}.weight", d),
        f"{ours}.bias": t.take(f"{theirs}.bias", d),
    }
