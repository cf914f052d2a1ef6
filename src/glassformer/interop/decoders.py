"""Decoders of Hugging Face: Llama-shaped models and GPT-2."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.interop.foreign import MAX_LAYERS, Config, Tensors

Weights = dict[str, NDArray[Any]]
Settings = dict[str, Any]
LLAMA: Settings = {
    "kind": "language-model",
    "positions": "rope",
    "residual": "pre-norm",
    "norm": "rms-norm",
    "feed_forward": "swiglu",
    "feed_forward_bias": False,
    "embedding_scale": "none",
    "dropout": 0.0,
}
PROJECTIONS = ("q_proj", "k_proj", "v_proj")


def llama_settings(c: Config) -> Settings:
    """Return the settings of a Llama-shaped model by its configuration."""
    heads = c.count("num_attention_heads")
    d_model = c.count("hidden_size")
    c.require("hidden_act", "silu", "silu")
    c.require("head_dim", d_model // heads, d_model // heads)
    c.require("sliding_window", None)
    c.require("partial_rotary_factor", 1.0, 1.0)
    return {
        **LLAMA,
        "vocab_size": c.count("vocab_size", most=10_000_000),
        "d_model": d_model,
        "n_heads": heads,
        "n_kv_heads": c.count("num_key_value_heads", heads),
        "d_ff": c.count("intermediate_size"),
        "decoder_layers": c.count("num_hidden_layers", most=MAX_LAYERS),
        "norm_eps": c.number("rms_norm_eps", 1e-6),
        "rope_base": _rope_base(c),
        "rope_pairs": "halves",
        "tie_target_output": c.flag("tie_word_embeddings", False),
        "attention_bias": c.flag("attention_bias", False) or "qwen2" in str(c.values["model_type"]),
        "feed_forward_bias": c.flag("mlp_bias", False),
    }


def _rope_base(c: Config) -> float:
    """Return the base of RoPE; refuse scalings of its angles."""
    for key in ("rope_parameters", "rope_scaling"):
        scaling = c.values.get(key)
        if isinstance(scaling, dict):
            inner = Config(f"{c.origin}, {key}", scaling)
            inner.require("rope_type" if "rope_type" in inner else "type", "default", "default")
            if "rope_theta" in inner:
                return inner.number("rope_theta")
    return c.number("rope_theta", 10_000.0)


def llama_weights(s: Settings, t: Tensors) -> Weights:
    d, d_ff, v = s["d_model"], s["d_ff"], s["vocab_size"]
    kv = d // s["n_heads"] * s["n_kv_heads"]
    weights: Weights = {
        "decoder.embedding.weight": t.take("model.embed_tokens.weight", v, d),
        "decoder.final_norm.gain": t.take("model.norm.weight", d),
    }
    if s["tie_target_output"]:
        t.ignore("lm_head.weight")
    else:
        weights["output.weight"] = t.take("lm_head.weight", v, d)
    for i in range(s["decoder_layers"]):
        ours, theirs = f"decoder.layers.{i}", f"model.layers.{i}"
        attention, mlp = f"{theirs}.self_attn", f"{theirs}.mlp"
        rows = dict(zip(PROJECTIONS, (d, kv, kv), strict=True))
        weights |= {
            f"{ours}.self_attention_residual.norm.gain": t.take(
                f"{theirs}.input_layernorm.weight", d
            ),
            f"{ours}.self_attention.qkv.weight": np.concatenate(
                [t.take(f"{attention}.{p}.weight", n, d) for p, n in rows.items()]
            ),
            f"{ours}.self_attention.output.weight": t.take(f"{attention}.o_proj.weight", d, d),
            f"{ours}.feed_forward_residual.norm.gain": t.take(
                f"{theirs}.post_attention_layernorm.weight", d
            ),
            f"{ours}.feed_forward.expand.weight": t.stacked(
                (f"{mlp}.gate_proj.weight", f"{mlp}.up_proj.weight"), d_ff, d
            ),
            f"{ours}.feed_forward.contract.weight": t.take(f"{mlp}.down_proj.weight", d, d_ff),
        }  # fmt: skip
        t.ignore(f"{attention}.rotary_emb.inv_freq")
        if s["attention_bias"]:
            weights[f"{ours}.self_attention.qkv.bias"] = np.concatenate(
                [t.take(f"{attention}.{p}.bias", n) for p, n in rows.items()]
            )
            name = f"{attention}.o_proj.bias"  # Qwen2 has none
            bias = t.take(name, d) if name in t else np.zeros(d, np.float32)
            weights[f"{ours}.self_attention.output.bias"] = bias
        if s["feed_forward_bias"]:
            weights[f"{ours}.feed_forward.expand.bias"] = t.stacked(
                (f"{mlp}.gate_proj.bias", f"{mlp}.up_proj.bias"), d_ff
            )
            weights[f"{ours}.feed_forward.contract.bias"] = t.take(f"{mlp}.down_proj.bias", d)
    return weights


GPT2_ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
}


def gpt2_settings(c: Config) -> Settings:
    d = c.count("n_embd")
    for key in ("scale_attn_by_inverse_layer_idx", "add_cross_attention"):
        c.require(key, False, False)
    c.require("scale_attn_weights", True, True)
    return {
        "kind": "language-model",
        "vocab_size": c.count("vocab_size", most=10_000_000),
        "d_model": d,
        "n_heads": c.count("n_head"),
        "d_ff": c.count("n_inner", 4 * d),
        "decoder_layers": c.count("n_layer", most=MAX_LAYERS),
        "positions": "learned",
        "max_positions": c.count("n_positions"),
        "norm_eps": c.number("layer_norm_epsilon", 1e-5),
        "feed_forward": c.choice("activation_function", GPT2_ACTIVATIONS, "gelu_new"),
        "attention_bias": True,
        "embedding_scale": "none",
        "tie_target_output": c.flag("tie_word_embeddings", True),
        "dropout": 0.0,
    }


def gpt2_weights(s: Settings, t: Tensors) -> Weights:
    """Return the weights of GPT-2, whose matrices lie transposed."""
    d, d_ff, v = s["d_model"], s["d_ff"], s["vocab_size"]
    top = "transformer." if "transformer.wte.weight" in t else ""
    weights: Weights = {
        "decoder.embedding.weight": t.take(f"{top}wte.weight", v, d),
        "decoder.positions.weight": t.take(f"{top}wpe.weight", s["max_positions"], d),
        "decoder.final_norm.gain": t.take(f"{top}ln_f.weight", d),
        "decoder.final_norm.bias": t.take(f"{top}ln_f.bias", d),
    }
    if s["tie_target_output"]:
        t.ignore("lm_head.weight")
    else:
        weights["output.weight"] = t.take("lm_head.weight", v, d)
    matrices = {
        "self_attention.qkv": ("attn.c_attn", d, 3 * d),
        "self_attention.output": ("attn.c_proj", d, d),
        "feed_forward.expand": ("mlp.c_fc", d, d_ff),
        "feed_forward.contract": ("mlp.c_proj", d_ff, d),
    }
    for i in range(s["decoder_layers"]):
        ours, theirs = f"decoder.layers.{i}", f"{top}h.{i}"
        for part, (name, inputs, outputs) in matrices.items():
            matrix = t.take(f"{theirs}.{name}.weight", inputs, outputs)
            weights[f"{ours}.{part}.weight"] = np.ascontiguousarray(matrix.T)
            weights[f"{ours}.{part}.bias"] = t.take(f"{theirs}.{name}.bias", outputs)
        for part, name in (("self_attention", "ln_1"), ("feed_forward", "ln_2")):
            norm = f"{ours}.{part}_residual.norm"
            weights[f"{norm}.gain"] = t.take(f"{theirs}.{name}.weight", d)
            weights[f"{norm}.bias"] = t.take(f"{theirs}.{name}.bias", d)
        t.ignore(f"{theirs}.attn.bias", f"{theirs}.attn.masked_bias")
    return weights
