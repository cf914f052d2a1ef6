"""Language models as Hugging Face's Llama or GPT-2: the inverse of decoders.py.

A Llama has RoPE, RMSNorm and SwiGLU; a GPT-2 a table of positions, layer norms and a plain
feed-forward network. The file holds the same numbers in another order. What the other library does
not compute, a scaled embedding or sinusoids, is written as the values it has.
"""

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.checkpoint.format import Checkpoint
from glassformer.config import ModelSettings
from glassformer.errors import InputError
from glassformer.interop.decoders import GPT2_ACTIVATIONS, PROJECTIONS
from glassformer.quantize import dequantise_weights

Arrays = dict[str, NDArray[Any]]
Written = tuple[dict[str, Any], Arrays]  # configuration and tensors
LLAMA = {"norm": "rms-norm", "feed_forward": "swiglu", "positions": "rope"}
GPT2_POSITIONS = ("learned", "sinusoidal", "sinusoidal-halves")
GPT2_NAMES = {ours: theirs for theirs, ours in reversed(GPT2_ACTIVATIONS.items())}


def hugging_face_decoder(saved: Checkpoint) -> Written:
    """Return the configuration and the tensors of a language model for Hugging Face."""
    s, weights = saved.settings.model, dequantise_weights(saved.weights)
    weights = {name: np.asarray(values, np.float32) for name, values in weights.items()}
    _check(s)
    if s.embedding_scale != "none":  # an output that is tied keeps the unscaled table
        table = weights["decoder.embedding.weight"]
        weights.setdefault("output.weight", table)
        weights["decoder.embedding.weight"] = table * np.float32(sqrt(s.d_model))
    write = _llama if s.positions == "rope" else _gpt2
    config, tensors = write(s, weights, saved.settings.data.max_length)
    tokenizer = saved.tokenizers["joint"]
    config |= {
        "vocab_size": s.vocab_size,
        "tie_word_embeddings": "output.weight" not in weights,
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "dtype": "float32",
        "use_cache": True,
    }
    if "output.weight" in weights:
        tensors["lm_head.weight"] = weights["output.weight"]
    return config, tensors


def _check(s: ModelSettings) -> None:
    """Refuse an architecture that is neither Llama nor GPT-2."""
    wanted: dict[str, Any] = {"residual": "pre-norm", "embedding_norm": False, "output_bias": False}
    if s.positions == "rope" or s.norm == "rms-norm" or s.feed_forward == "swiglu":
        kind, wanted = "Llama", {**wanted, **LLAMA}
    else:
        kind, wanted = "GPT-2", {**wanted, "norm": "layer-norm", "n_kv_heads": None}
        wanted["positions"] = s.positions if s.positions in GPT2_POSITIONS else "learned"
        wanted["n_kv_heads"] = s.n_kv_heads if s.n_kv_heads == s.n_heads else None
        wanted["feed_forward"] = s.feed_forward if s.feed_forward in GPT2_NAMES else "gelu"
    for name, value in wanted.items():
        if (own := getattr(s, name)) != value:
            raise InputError(
                f"A language model with {name} = {own!r} cannot be written for Hugging Face.",
                f"Of the architectures there {kind} is nearest, and has {name} = {value!r}.",
                "Train one with the preset `modern`, which is Llama's architecture.",
            )


def _llama(s: ModelSettings, w: Arrays, longest: int) -> Written:
    d_k, kv_heads = s.d_model // s.n_heads, s.n_kv_heads or s.n_heads
    config: dict[str, Any] = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"],
        "hidden_size": s.d_model, "intermediate_size": s.d_ff, "head_dim": d_k,
        "num_hidden_layers": s.decoder_layers, "num_attention_heads": s.n_heads,
        "num_key_value_heads": kv_heads, "max_position_embeddings": longest,
        "hidden_act": "silu", "rms_norm_eps": s.norm_eps, "attention_bias": s.attention_bias,
        "mlp_bias": s.feed_forward_bias, "attention_dropout": 0.0, "rope_theta": s.rope_base,
        "rope_parameters": {"rope_type": "default", "rope_theta": s.rope_base},
    }  # fmt: skip
    tensors: Arrays = {
        "model.embed_tokens.weight": w["decoder.embedding.weight"],
        "model.norm.weight": w["decoder.final_norm.gain"],
    }
    cuts = [s.d_model, s.d_model + kv_heads * d_k]
    for i in range(s.decoder_layers):
        ours, theirs = f"decoder.layers.{i}", f"model.layers.{i}"
        tensors |= {
            f"{theirs}.input_layernorm.weight": w[f"{ours}.self_attention_residual.norm.gain"],
            f"{theirs}.post_attention_layernorm.weight": w[
                f"{ours}.feed_forward_residual.norm.gain"
            ],
        }
        for part in ("weight", "bias"):
            if f"{ours}.self_attention.qkv.{part}" in w:
                rows = np.split(w[f"{ours}.self_attention.qkv.{part}"], cuts)
                if s.rope_pairs == "neighbours":
                    rows[:2] = [in_halves(one, d_k) for one in rows[:2]]
                for name, one in zip(PROJECTIONS, rows, strict=True):
                    tensors[f"{theirs}.self_attn.{name}.{part}"] = one
                output = w[f"{ours}.self_attention.output.{part}"]
                tensors[f"{theirs}.self_attn.o_proj.{part}"] = output
            if f"{ours}.feed_forward.expand.{part}" in w:
                gate, up = np.split(w[f"{ours}.feed_forward.expand.{part}"], 2)
                tensors |= {
                    f"{theirs}.mlp.gate_proj.{part}": gate,
                    f"{theirs}.mlp.up_proj.{part}": up,
                    f"{theirs}.mlp.down_proj.{part}": w[f"{ours}.feed_forward.contract.{part}"],
                }
    return config, tensors


def in_halves(rows: NDArray[Any], d_k: int) -> NDArray[Any]:
    """Order rows of queries or keys so that RoPE pairs feature i of both halves of a head.

    Ours and GGUF's pair neighbours. The scores of attention are the same sums.
    """
    heads = rows.reshape(-1, d_k // 2, 2, *rows.shape[1:])
    return heads.swapaxes(1, 2).reshape(rows.shape)


GPT2_PARTS = {
    "self_attention.qkv": "attn.c_attn",
    "self_attention.output": "attn.c_proj",
    "feed_forward.expand": "mlp.c_fc",
    "feed_forward.contract": "mlp.c_proj",
}
GPT2_NORMS = {"self_attention": "ln_1", "feed_forward": "ln_2"}


def _gpt2(s: ModelSettings, w: Arrays, longest: int) -> Written:
    table = _positions(s, w, longest)
    config: dict[str, Any] = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
        "n_embd": s.d_model, "n_inner": s.d_ff, "n_layer": s.decoder_layers, "n_head": s.n_heads,
        "n_positions": len(table), "layer_norm_epsilon": s.norm_eps,
        "activation_function": GPT2_NAMES[s.feed_forward],
    }  # fmt: skip
    tensors: Arrays = {
        "transformer.wte.weight": w["decoder.embedding.weight"],
        "transformer.wpe.weight": table,
        "transformer.ln_f.weight": w["decoder.final_norm.gain"],
        "transformer.ln_f.bias": w["decoder.final_norm.bias"],
    }
    for i in range(s.decoder_layers):
        ours, theirs = f"decoder.layers.{i}", f"transformer.h.{i}"
        for part, name in GPT2_PARTS.items():
            weight = w[f"{ours}.{part}.weight"]
            tensors[f"{theirs}.{name}.weight"] = np.ascontiguousarray(weight.T)
            none = np.zeros(len(weight), np.float32)
            tensors[f"{theirs}.{name}.bias"] = w.get(f"{ours}.{part}.bias", none)
        for part, name in GPT2_NORMS.items():
            norm = f"{ours}.{part}_residual.norm"
            tensors[f"{theirs}.{name}.weight"] = w[f"{norm}.gain"]
            tensors[f"{theirs}.{name}.bias"] = w[f"{norm}.bias"]
    return config, tensors


def _positions(s: ModelSettings, w: Arrays, longest: int) -> NDArray[np.float32]:
    """Return the table of positions: the learned one, or the sinusoids for the longest text."""
    if s.positions == "learned":
        return w["decoder.positions.weight"]
    from glassformer.engine.positions import positions_of

    return positions_of(s, w, longest + 1, "decoder").position_rows
