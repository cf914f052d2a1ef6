"""Import of T5 (Raffel et al., 2020), T5 1.1 and mT5 from Hugging Face.

What T5 computes in another way is folded into its weights. Its scores of attention are not divided
by √d_k, so the queries' matrix is multiplied by it. Where output and embedding are one matrix, T5
divides the last features by √d_model; here the gain of the last norm is divided.
"""

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.interop.foreign import MAX_LAYERS, Config, Tensors

Weights = dict[str, NDArray[Any]]
Settings = dict[str, Any]
FEED_FORWARDS = {"relu": "relu", "gated-gelu": "geglu-tanh", "gated-silu": "swiglu"}
BUCKETS = 32
BIAS = "relative_attention_bias.weight"


def t5_settings(c: Config, t: Tensors) -> Settings:
    d, heads = c.count("d_model"), c.count("num_heads")
    layers = c.count("num_layers", most=MAX_LAYERS)
    c.require("d_kv", d // heads, d // heads)
    c.require("relative_attention_num_buckets", BUCKETS, BUCKETS)
    return {
        "kind": "translator",
        "vocab_size": c.count("vocab_size", most=10_000_000),
        "d_model": d,
        "n_heads": heads,
        "d_ff": c.count("d_ff"),
        "encoder_layers": layers,
        "decoder_layers": c.count("num_decoder_layers", layers, MAX_LAYERS),
        "tie_target_output": _is_scaled(c) or "lm_head.weight" not in t,
        "pad_id": c.identity("pad_token_id", 0),
        "positions": "relative-bucketed",
        "max_distance": c.count("relative_attention_max_distance", 128),
        "residual": "pre-norm",
        "norm": "rms-norm",
        "norm_eps": c.number("layer_norm_epsilon", 1e-6),
        "feed_forward": c.choice("feed_forward_proj", FEED_FORWARDS, "relu"),
        "feed_forward_bias": False,
        "embedding_scale": "none",
        "dropout": 0.0,
    }


def t5_weights(s: Settings, t: Tensors, c: Config) -> Weights:
    d, v = s["d_model"], s["vocab_size"]
    stacks = ("encoder", "decoder")
    tables = ("shared.weight", *(f"{stack}.embed_tokens.weight" for stack in stacks))
    weights: Weights = {
        "encoder.embedding.weight": t.take(next((n for n in tables if n in t), tables[0]), v, d)
    }
    t.ignore(*tables)
    if s["tie_target_output"]:
        t.ignore("lm_head.weight")
    else:
        weights["output.weight"] = t.take("lm_head.weight", v, d)
    for stack in stacks:
        weights[f"{stack}.final_norm.gain"] = t.take(f"{stack}.final_layer_norm.weight", d)
        first = f"{stack}.block.0.layer.0.SelfAttention"
        weights[f"{stack}.positions.weight"] = t.take(f"{first}.{BIAS}", BUCKETS, s["n_heads"])
        for i in range(s[f"{stack}_layers"]):
            weights |= _layer(s, t, f"{stack}.layers.{i}", f"{stack}.block.{i}.layer")
    # Files of the first release have one that is never used.
    t.ignore(f"decoder.block.0.layer.1.EncDecAttention.{BIAS}")
    if _is_scaled(c):
        gain = weights["decoder.final_norm.gain"]
        weights["decoder.final_norm.gain"] = gain / np.float32(sqrt(d))
    return weights


def _is_scaled(c: Config) -> bool:
    """Return whether the last features are divided by √d_model: in T5, not in 1.1 and mT5."""
    tied = c.flag("scale_decoder_outputs", c.flag("tie_word_embeddings", True))
    return tied and c.values["model_type"] == "t5"


def _layer(s: Settings, t: Tensors, ours: str, theirs: str) -> Weights:
    d, d_ff = s["d_model"], s["d_ff"]
    decoder = ours.startswith("decoder")
    parts = [("self_attention", f"{theirs}.0.SelfAttention")]
    parts += [("cross_attention", f"{theirs}.1.EncDecAttention")] if decoder else []
    last = f"{theirs}.{len(parts)}"
    weights: Weights = {}
    for number, (part, attention) in enumerate(parts):
        q, k, v = (t.take(f"{attention}.{name}.weight", d, d) for name in "qkv")
        q = q * np.float32(sqrt(d // s["n_heads"]))
        inner = {"q": q, "kv": np.concatenate((k, v))}
        if part == "self_attention":
            inner = {"qkv": np.concatenate((q, k, v))}
        weights |= {f"{ours}.{part}.{name}.weight": rows for name, rows in inner.items()}
        weights[f"{ours}.{part}.output.weight"] = t.take(f"{attention}.o.weight", d, d)
        norm = t.take(f"{theirs}.{number}.layer_norm.weight", d)
        weights[f"{ours}.{part}_residual.norm.gain"] = norm
    dense = f"{last}.DenseReluDense"
    names = ("wi",) if s["feed_forward"] == "relu" else ("wi_0", "wi_1")
    weights[f"{ours}.feed_forward.expand.weight"] = t.stacked(
        [f"{dense}.{name}.weight" for name in names], d_ff, d
    )
    weights[f"{ours}.feed_forward.contract.weight"] = t.take(f"{dense}.wo.weight", d, d_ff)
    norm = t.take(f"{last}.layer_norm.weight", d)
    weights[f"{ours}.feed_forward_residual.norm.gain"] = norm
    return weights
