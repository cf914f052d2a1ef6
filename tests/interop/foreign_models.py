"""Tiny random models of other libraries, written to disk as those libraries write them."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers, processors
from torch import nn

from glassformer.data.tokenizer import Tokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnop"]
SIZE = len(WORDS)
TEXTS = ["a b c d e", "p", "o n m l k j i h g f e d", "b b b"]


def randomise(model: nn.Module) -> Any:
    """Give every weight a value that matters; a norm's gain is about 1."""
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        nn.init.normal_(
            parameter, mean=1.0 if "norm" in name.lower() and "weight" in name else 0.0, std=0.2
        )
    return model.eval()  # fmt: skip


def write_tokenizer(folder: Path) -> None:
    """Write a vocabulary of words, with [CLS] and [SEP] around a text."""
    library = Library(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = [("[CLS]", 2), ("[SEP]", 3)]
    library.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=marks)
    library.add_special_tokens(WORDS[:4])
    library.save(str(folder / "tokenizer.json"))


def write_gguf(path: Path, kinds: dict[str, str]) -> dict[str, Any]:
    """Write a Llama of one layer; return its tensors as their quantisation reads them."""
    import gguf

    random = np.random.default_rng(0)
    d, d_ff, kv = 64, 96, 32
    shapes = {
        "token_embd.weight": (SIZE, d), "output_norm.weight": (d,),
        "blk.0.attn_norm.weight": (d,), "blk.0.ffn_norm.weight": (d,),
        "blk.0.attn_q.weight": (d, d), "blk.0.attn_k.weight": (kv, d),
        "blk.0.attn_v.weight": (kv, d), "blk.0.attn_output.weight": (d, d),
        "blk.0.ffn_gate.weight": (d_ff, d), "blk.0.ffn_up.weight": (d_ff, d),
        "blk.0.ffn_down.weight": (d, d_ff),
    }  # fmt: skip
    writer = gguf.GGUFWriter(str(path), "llama")
    for name, value in (
        ("block_count", 1), ("context_length", 32), ("embedding_length", d),
        ("feed_forward_length", d_ff), ("head_count", 4), ("head_count_kv", 2),
    ):  # fmt: skip
        getattr(writer, f"add_{name}")(value)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(50.0)
    writer.add_tokenizer_model("llama")
    tokens = ["<unk>", "<s>", "</s>", "▁", *"abcdefghijklmno", "▁a"][:SIZE]
    writer.add_token_list(tokens)
    writer.add_token_scores([float(-i) for i in range(SIZE)])
    writer.add_token_types([2, 3, 3, *[1] * (SIZE - 3)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }}{% endfor %}a")
    found = {}
    for name, shape in shapes.items():
        values = random.normal(1.0 if "norm" in name else 0.0, 0.3, shape).astype(np.float32)
        kind = gguf.GGMLQuantizationType[kinds.get(name, "F32")]
        raw = gguf.quantize(values, kind)
        found[name] = gguf.dequantize(raw, kind).reshape(shape)
        if kind.name in ("F32", "F16"):
            writer.add_tensor(name, raw)
        else:
            writer.add_tensor(name, raw, raw_shape=raw.shape, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return found


def write_llama2c(folder: Path, tied: bool = True) -> Path:
    """Write a model and its subwords in the format of llama2.c."""
    d, d_ff, layers, heads, kv_heads, length = 16, 24, 2, 4, 2, 20
    d_k = d // heads
    kv = kv_heads * d_k
    sizes = [SIZE * d, layers * d, layers * d * d, layers * kv * d, layers * kv * d]
    sizes += [layers * d * d, layers * d, *[layers * d_ff * d] * 3, d, length * d_k]
    sizes += [] if tied else [SIZE * d]
    values = np.random.default_rng(0).normal(0, 0.3, sum(sizes)).astype("<f4")
    path = folder / "story.bin"
    header = (d, d_ff, layers, heads, kv_heads, SIZE if tied else -SIZE, length)
    path.write_bytes(struct.pack("<7i", *header) + values.tobytes())
    words = [b"<unk>", b"<s>", b"</s>", b" ", *(bytes([c]) for c in b"abcdefghijklmno"), b" a"]
    entries = [struct.pack("<fi", -i, len(w)) + w for i, w in enumerate(words[:SIZE])]
    (folder / "tok.bin").write_bytes(struct.pack("<i", 5) + b"".join(entries))
    return path


def small_subwords() -> Tokenizer:
    return Tokenizer.train(["a dog sees the cat", "the old cat sees a dog"] * 5, 40)


def write_json(path: Path, values: object) -> None:
    path.write_text(json.dumps(values))
