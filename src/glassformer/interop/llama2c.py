"""Import of llama2.c: a header of seven numbers, all weights in fp32, and a file of subwords."""

import struct
from collections.abc import Iterator
from itertools import accumulate
from math import prod
from pathlib import Path

import numpy as np

from glassformer.checkpoint.format import Checkpoint
from glassformer.config import RunSettings
from glassformer.data.foreign_tokenizer import Description, read_tokenizer
from glassformer.data.tokenizer import Tokenizer
from glassformer.interop.decoders import LLAMA
from glassformer.interop.foreign import MAX_LAYERS, MAX_WIDTH, Array, Tensors, damaged
from glassformer.interop.subwords import sentencepiece_bpe

HEADER = 28  # bytes
BOS = 1  # llama2.c begins and ends a story with <s>


def import_llama2c(model: Path, subwords: Path) -> Checkpoint:
    """Return a llama2.c model, such as stories260K.bin with tok512.bin, as a checkpoint."""
    size = model.stat().st_size
    with model.open("rb") as file:
        head = file.read(HEADER)
    if len(head) < HEADER:
        raise damaged(model, "its header is cut off")
    d, d_ff, layers, heads, kv_heads, signed_size, length = struct.unpack("<7i", head)
    vocabulary, tied = abs(signed_size), signed_size > 0
    sizes = (d, d_ff, heads, kv_heads, vocabulary, length)
    if not all(1 <= n <= MAX_WIDTH for n in sizes) or not 1 <= layers <= MAX_LAYERS or d % heads:
        raise damaged(model, f"its header names sizes {(*sizes, layers)} that no model has")
    settings = RunSettings.of(
        model={
            **LLAMA, "vocab_size": vocabulary, "d_model": d, "n_heads": heads,
            "n_kv_heads": kv_heads, "d_ff": d_ff, "decoder_layers": layers,
            "tie_target_output": tied, "pad_id": -1,
        },
        data={"name": "files", "max_length": length},
    )  # fmt: skip
    shapes = dict(_shapes(d, d_ff, layers, d // heads * kv_heads, vocabulary, length, d // heads))
    if not tied:
        shapes["output"] = (vocabulary, d)
    if size != HEADER + 4 * sum(map(prod, shapes.values())):
        expected = HEADER + 4 * sum(map(prod, shapes.values()))
        raise damaged(model, f"its header describes a file of {expected:,} bytes")
    ends = list(accumulate(map(prod, shapes.values()), initial=0))
    starts = dict(zip(shapes, ends[:-1], strict=True))
    numbers = np.memmap(model, np.dtype("<f4"), "r", HEADER)

    def read(name: str) -> Array:
        start = starts[name]
        return numbers[start : start + prod(shapes[name])].reshape(shapes[name])

    tensors = Tensors(model.name, shapes, read)
    weights = _weights(tensors, layers)
    tensors.finish()
    return Checkpoint(settings, weights, {"joint": _tokenizer(subwords, vocabulary)})


def _weights(tensors: Tensors, layers: int) -> dict[str, Array]:
    """Return the weights in our names; each tensor of the file holds that of all layers."""
    w = {name: tensors.take(name, *shape) for name, shape in tensors.shapes.items()}

    def stacked(layer: int, *names: str) -> Array:
        return np.concatenate([w[name][layer] for name in names])

    weights: dict[str, Array] = {
        "decoder.embedding.weight": w["embedding"],
        "decoder.final_norm.gain": w["final_norm"],
    }
    if "output" in w:
        weights["output.weight"] = w["output"]
    for i in range(layers):
        layer = f"decoder.layers.{i}"
        weights |= {
            f"{layer}.self_attention_residual.norm.gain": w["attention_norm"][i],
            f"{layer}.self_attention.qkv.weight": stacked(i, "wq", "wk", "wv"),
            f"{layer}.self_attention.output.weight": w["wo"][i],
            f"{layer}.feed_forward_residual.norm.gain": w["ffn_norm"][i],
            f"{layer}.feed_forward.expand.weight": stacked(i, "w1", "w3"),
            f"{layer}.feed_forward.contract.weight": w["w2"][i],
        }
    return weights


def _shapes(
    d: int, d_ff: int, layers: int, kv: int, vocabulary: int, length: int, d_k: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the tensors in the order of the file."""
    yield "embedding", (vocabulary, d)
    yield "attention_norm", (layers, d)
    yield "wq", (layers, d, d)
    yield "wk", (layers, kv, d)
    yield "wv", (layers, kv, d)
    yield "wo", (layers, d, d)
    yield "ffn_norm", (layers, d)
    yield "w1", (layers, d_ff, d)
    yield "w2", (layers, d, d_ff)
    yield "w3", (layers, d_ff, d)
    yield "final_norm", (d,)
    yield "rope tables", (2, length, d_k // 2)  # of angles, which are computed here


def _tokenizer(path: Path, size: int) -> Tokenizer:
    pieces = list(_pieces(path, size))
    marks = {"<unk>": 0, "<s>": 1, "</s>": 2}
    names = [*marks, *(piece for piece, _ in pieces[len(marks) :])]
    scores = [score for _, score in pieces]
    library = sentencepiece_bpe([n.replace(" ", "▁") for n in names], scores, list(marks), True)
    described = Description(
        size=size, pad_id=-1, unk_id=0, bos_id=BOS, eos_id=BOS, before=(BOS,), tokenizer=library
    )
    return read_tokenizer(described.to_bytes())


def _pieces(path: Path, size: int) -> Iterator[tuple[str, float]]:
    """Yield each subword and its score."""
    content = path.read_bytes()
    at = 4  # behind the length of the longest
    for _ in range(size):
        if at + 8 > len(content):
            raise damaged(path, f"it has fewer than {size} subwords")
        score, length = struct.unpack_from("<fi", content, at)
        text = content[at + 8 : at + 8 + length] if length >= 0 else b""
        if len(text) != length:
            raise damaged(path, "a subword is cut off")
        at += 8 + length
        yield text.decode("utf-8", "replace"), score
    if at != len(content):
        raise damaged(path, f"it has more than {size} subwords")
