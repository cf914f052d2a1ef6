"""Import of Llama-shaped models in GGUF, such as SmolLM2, with the tokenizer of their header."""

from pathlib import Path
from typing import Any

import numpy as np

from glassformer.checkpoint.format import Checkpoint
from glassformer.config import RunSettings
from glassformer.data.foreign_tokenizer import Description, read_tokenizer
from glassformer.data.tokenizer import Tokenizer
from glassformer.interop.decoders import LLAMA, Settings, Weights
from glassformer.interop.foreign import MAX_LAYERS, Config, Tensors, refused
from glassformer.interop.gguf_file import GGUFFile
from glassformer.interop.subwords import PRE_TOKENIZERS, byte_level_bpe, sentencepiece_bpe

CONTROL = 3  # the type of a token that is a mark


def import_gguf(path: Path) -> Checkpoint:
    """Return a GGUF file of the architecture `llama` as a checkpoint."""
    file = GGUFFile(path)
    config = Config(path.name, file.values)
    config.require("general.architecture", "llama")
    tensors = Tensors(path.name, file.shapes, file.read)
    settings = _settings(config, tensors)
    tokenizer = _tokenizer(config, settings["vocab_size"])
    weights = _weights(settings, tensors)
    length = config.count("llama.context_length", 2_048)
    run = RunSettings.of(model=settings, data={"name": "files", "max_length": length})
    tensors.finish()
    return Checkpoint(run, weights, {"joint": tokenizer})


def _settings(c: Config, t: Tensors) -> Settings:
    d, heads = c.count("llama.embedding_length"), c.count("llama.attention.head_count")
    for key in ("llama.expert_count", "llama.rope.scaling.type", "llama.attention.sliding_window"):
        c.require(key, c.values.get(key) if c.values.get(key) in (0, "none") else None)
    c.require("llama.rope.dimension_count", d // heads, d // heads)
    table = t.shapes.get("token_embd.weight", (0,))
    return {
        **LLAMA,
        "vocab_size": max(table[0], 1),
        "d_model": d,
        "n_heads": heads,
        "n_kv_heads": c.count("llama.attention.head_count_kv", heads),
        "d_ff": c.count("llama.feed_forward_length"),
        "decoder_layers": c.count("llama.block_count", most=MAX_LAYERS),
        "norm_eps": c.number("llama.attention.layer_norm_rms_epsilon", 1e-5),
        "rope_base": c.number("llama.rope.freq_base", 10_000.0),
        "rope_pairs": "neighbours",  # the converter reorders the rows of queries and keys
        "tie_target_output": "output.weight" not in t,
        "pad_id": -1,
    }


def _weights(s: Settings, t: Tensors) -> Weights:
    d, d_ff, v = s["d_model"], s["d_ff"], s["vocab_size"]
    kv = d // s["n_heads"] * s["n_kv_heads"]
    weights: Weights = {
        "decoder.embedding.weight": t.take("token_embd.weight", v, d),
        "decoder.final_norm.gain": t.take("output_norm.weight", d),
    }
    if not s["tie_target_output"]:
        weights["output.weight"] = t.take("output.weight", v, d)
    for i in range(s["decoder_layers"]):
        ours, theirs = f"decoder.layers.{i}", f"blk.{i}"
        parts = {"attn_q": d, "attn_k": kv, "attn_v": kv}
        weights |= {
            f"{ours}.self_attention_residual.norm.gain": t.take(f"{theirs}.attn_norm.weight", d),
            f"{ours}.self_attention.qkv.weight": np.concatenate(
                [t.take(f"{theirs}.{name}.weight", rows, d) for name, rows in parts.items()]
            ),
            f"{ours}.self_attention.output.weight": t.take(f"{theirs}.attn_output.weight", d, d),
            f"{ours}.feed_forward_residual.norm.gain": t.take(f"{theirs}.ffn_norm.weight", d),
            f"{ours}.feed_forward.expand.weight": t.stacked(
                (f"{theirs}.ffn_gate.weight", f"{theirs}.ffn_up.weight"), d_ff, d
            ),
            f"{ours}.feed_forward.contract.weight": t.take(f"{theirs}.ffn_down.weight", d, d_ff),
        }
    return weights


def _tokenizer(c: Config, size: int) -> Tokenizer:
    """Return the tokenizer of the header: byte-level BPE or sentencepiece's."""
    kind = c.choice("tokenizer.ggml.model", {"gpt2": "gpt2", "llama": "llama"})
    tokens = _texts(c, "tokenizer.ggml.tokens")
    types = c.values.get("tokenizer.ggml.token_type") or []
    if len(tokens) != size or len(set(tokens)) != size or len(types) not in (0, size):
        raise refused(f"{c.origin} has {len(tokens):,} tokens.", f"The table has {size:,} rows.")
    marks = [token for token, one in zip(tokens, types, strict=False) if one == CONTROL]
    if kind == "gpt2":
        split = c.choice("tokenizer.ggml.pre", {name: name for name in PRE_TOKENIZERS})
        library = byte_level_bpe(tokens, _texts(c, "tokenizer.ggml.merges"), marks, split)
    else:
        scores = c.values.get("tokenizer.ggml.scores")
        if not isinstance(scores, list) or len(scores) != size:
            raise refused(f"{c.origin}: tokenizer.ggml.scores is no list of {size}.", "")
        space = c.flag("tokenizer.ggml.add_space_prefix", True)
        library = sentencepiece_bpe(tokens, scores, marks, space)
    bos, eos = (c.identity(f"tokenizer.ggml.{mark}_token_id", 1) for mark in ("bos", "eos"))
    begins = c.flag("tokenizer.ggml.add_bos_token", kind == "llama")
    template: Any = c.values.get("tokenizer.chat_template")
    described = Description(
        size=size, pad_id=-1, unk_id=-1, bos_id=bos, eos_id=eos, before=(bos,) if begins else (),
        chat_template=template if isinstance(template, str) else "", tokenizer=library,
    )  # fmt: skip
    return read_tokenizer(described.to_bytes())


def _texts(c: Config, key: str) -> list[str]:
    values = c.values.get(key)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise refused(f"{c.origin}: {key} is no list of texts.", "A tokenizer needs it.")
    return values
