"""Hugging Face's Llama with the weights of an imported GGUF model, to compare with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer import checkpoint

LogProbs = Callable[[list[int]], NDArray[np.float32]]


def llama_of(folder: Path) -> LogProbs:
    """Return a function that gives log-probabilities after each id by LlamaForCausalLM."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    saved = checkpoint.read(folder)
    s, w = saved.settings.model, saved.weights
    theirs = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=s.vocab_size, hidden_size=s.d_model, intermediate_size=s.d_ff,
            num_hidden_layers=s.decoder_layers, num_attention_heads=s.n_heads,
            num_key_value_heads=s.n_kv_heads, rms_norm_eps=s.norm_eps, tie_word_embeddings=True,
            max_position_embeddings=saved.settings.data.max_length,
            rope_parameters={"rope_type": "default", "rope_theta": s.rope_base},
        )
    ).eval()  # fmt: skip
    q, kv = s.d_model, (s.n_kv_heads or s.n_heads) * (s.d_model // s.n_heads)
    found: dict[str, Any] = {
        "model.embed_tokens.weight": w["decoder.embedding.weight"],
        "lm_head.weight": w["decoder.embedding.weight"],
        "model.norm.weight": w["decoder.final_norm.gain"],
    }
    for i in range(s.decoder_layers):
        layer, ours = f"model.layers.{i}.", f"decoder.layers.{i}."
        rows = np.split(w[f"{ours}self_attention.qkv.weight"], [q, q + kv])
        for name, part in zip("qkv", rows, strict=True):
            turned = part if name == "v" else _in_halves(part, s.d_model // s.n_heads)
            found[f"{layer}self_attn.{name}_proj.weight"] = turned
        gate, up = np.split(w[f"{ours}feed_forward.expand.weight"], 2)
        found |= {
            f"{layer}self_attn.o_proj.weight": w[f"{ours}self_attention.output.weight"],
            f"{layer}mlp.gate_proj.weight": gate,
            f"{layer}mlp.up_proj.weight": up,
            f"{layer}mlp.down_proj.weight": w[f"{ours}feed_forward.contract.weight"],
            f"{layer}input_layernorm.weight": w[f"{ours}self_attention_residual.norm.gain"],
            f"{layer}post_attention_layernorm.weight": w[f"{ours}feed_forward_residual.norm.gain"],
        }
    theirs.load_state_dict({n: torch.tensor(np.ascontiguousarray(a)) for n, a in found.items()})

    def log_probs(ids: list[int]) -> NDArray[np.float32]:
        with torch.inference_mode():
            logits = theirs(torch.tensor([ids])).logits[0]
        values: NDArray[np.float32] = logits.log_softmax(-1).numpy()
        return values

    return log_probs


def _in_halves(rows: NDArray[Any], d_k: int) -> NDArray[Any]:
    """Order the rows of queries or keys for RoPE on halves, as before GGUF's converter."""
    heads = rows.reshape(-1, d_k // 2, 2, rows.shape[1])
    return heads.swapaxes(1, 2).reshape(rows.shape)
