"""Models of other libraries that a stranger has changed: `import` reads or refuses them.

A fifth of the trials each: GGUF, llama2.c, CTranslate2, and Hugging Face's safetensors in one file
and in shards.
"""

import json
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from glassformer.bench.faults.campaign import Campaign, Result, Trial
from glassformer.bench.faults.checkpoints import change_bytes
from glassformer.errors import GlassformerError
from glassformer.interop.import_model import read_foreign
from glassformer.interop.safetensors_file import SHARD, write_tensors

WORDS = ["<unk>", "<s>", "</s>", "<pad>", *"abcdefghijklmnop"]
SIZE, D, D_FF, HEADS = len(WORDS), 32, 32, 4
ODD: tuple[Any, ...] = (
    0,
    -1,
    3,
    10**6,
    2**40,
    10**30,
    1e308,
    "",
    "x",
    None,
    True,
    [],
    {},
    [1],
    "é",
)


def write_gguf(folder: Path) -> None:
    """Write a Llama of one layer with a matrix of each type."""
    import gguf

    random = np.random.default_rng(0)
    kinds = {"attn_q": "Q8_0", "attn_k": "Q4_0", "attn_v": "Q4_1", "attn_output": "F16"}
    shapes: dict[str, tuple[int, ...]] = {f"blk.0.{name}.weight": (D, D) for name in kinds}
    shapes |= {f"blk.0.ffn_{part}.weight": (D_FF, D) for part in ("gate", "up", "down")}
    shapes |= {
        f"{name}.weight": (D,) for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm")
    }
    writer = gguf.GGUFWriter(str(folder / "tiny.gguf"), "llama")
    numbers = {"block_count": 1, "context_length": 32, "embedding_length": D, "head_count": HEADS}
    for name, number in {**numbers, "feed_forward_length": D_FF}.items():
        getattr(writer, f"add_{name}")(number)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(WORDS)
    writer.add_token_scores([float(-i) for i in range(SIZE)])
    for name, shape in {"token_embd.weight": (SIZE, D), **shapes}.items():
        kind = gguf.GGMLQuantizationType[kinds.get(name.split(".")[-2], "F32")]
        raw = gguf.quantize(random.normal(0, 0.3, shape).astype(np.float32), kind)
        typed: dict[str, Any] = (
            {} if raw.dtype != np.uint8 else {"raw_shape": raw.shape, "raw_dtype": kind}
        )
        writer.add_tensor(name, raw, **typed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_llama2c(folder: Path) -> None:
    """Write a model of llama2.c of one layer, and its subwords."""
    length = 8
    count = SIZE * D + 4 * D * D + 3 * D_FF * D + 3 * D + length * D // HEADS
    values = np.random.default_rng(0).normal(0, 0.3, count).astype("<f4")
    head = struct.pack("<7i", D, D_FF, 1, HEADS, HEADS, SIZE, length)
    (folder / "story.bin").write_bytes(head + values.tobytes())
    words = [word.encode() for word in WORDS]
    entries = [struct.pack("<fi", -i, len(word)) + word for i, word in enumerate(words)]
    (folder / "tok.bin").write_bytes(struct.pack("<i", 5) + b"".join(entries))


def write_ctranslate2(folder: Path) -> None:
    """Write a translator of one layer in eight bits."""
    import torch

    from glassformer.bench.faults.checkpoints import TEXTS
    from glassformer.data.tokenizer import Tokenizer
    from glassformer.interop.ctranslate2 import to_ctranslate2
    from glassformer.model.build import build

    torch.manual_seed(0)
    model: Any = build(
        "tiny", vocab_size=SIZE, d_model=D, n_heads=HEADS, d_ff=D_FF, encoder_layers=1,
        decoder_layers=1, residual="post-norm", positions="sinusoidal-halves",
    )  # fmt: skip
    names = [WORDS[3], WORDS[0], WORDS[1], WORDS[2], *WORDS[4:]]
    to_ctranslate2(model, folder, names, max_length=16, int8=True)
    (folder / "joint.spm").write_bytes(Tokenizer.train(TEXTS * 5, 40).model)


def write_hugging_face(folder: Path, shard: int = SHARD) -> None:
    """Write a Llama of one layer with a vocabulary of words."""
    from tokenizers import Tokenizer, models

    random = np.random.default_rng(0)
    layer = "model.layers.0."
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (SIZE, D), "model.norm.weight": (D,),
        **{f"{layer}self_attn.{p}_proj.weight": (D, D) for p in "qkvo"},
        **{f"{layer}mlp.{p}_proj.weight": (D_FF, D) for p in ("gate", "up", "down")},
        f"{layer}input_layernorm.weight": (D,), f"{layer}post_attention_layernorm.weight": (D,),
    }  # fmt: skip
    weights = {n: random.normal(0, 0.3, shape).astype(np.float32) for n, shape in shapes.items()}
    write_tensors(weights, folder, shard)
    config = {
        "model_type": "llama", "vocab_size": SIZE, "hidden_size": D, "intermediate_size": D_FF,
        "num_hidden_layers": 1, "num_attention_heads": HEADS, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2, "rope_theta": 10_000.0,
        "max_position_embeddings": 32, "hidden_act": "silu",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    library = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "<unk>"))
    library.save(str(folder / "tokenizer.json"))


WRITERS: dict[str, Callable[[Path], None]] = {
    "gguf": write_gguf,
    "llama2.c": write_llama2c,
    "ctranslate2": write_ctranslate2,
    "hugging face": write_hugging_face,
    "hugging face, shards": partial(write_hugging_face, shard=16_000),
}


def mutate(folder: Path, seed: int) -> str:
    """Change one file of a model, its bytes or a value of its JSON; return what was changed."""
    random = Random(seed)
    path = random.choice(sorted(folder.iterdir()))
    if path.suffix == ".json" and random.random() < 0.7:
        values = json.loads(path.read_bytes())
        if isinstance(values, dict):
            key = random.choice(sorted(values))
            if random.random() < 0.2:
                del values[key]
            else:
                values[key] = random.choice(ODD)
        path.write_text(json.dumps(values))
        return f"{path.name}, a value"
    change_bytes(path, random)
    return f"{path.name}, bytes"


def begin(folder: Path) -> Trial:
    """Write the originals, which must be read, and import a mutation of one for each seed."""
    for name, write in WRITERS.items():
        (folder / name).mkdir(parents=True)
        write(folder / name)
        read_foreign(folder / name)

    def trial(seed: int) -> Result:
        name = sorted(WRITERS)[seed % len(WRITERS)]
        place = folder / "trial"
        shutil.copytree(folder / name, place)
        mutate(place, seed)
        try:
            read_foreign(place)
            figures = (("read as another model", 1.0),)
        except GlassformerError:
            figures = (("refused", 1.0),)
        shutil.rmtree(place)
        return Result(figures=figures)

    return trial


CAMPAIGN = Campaign("imports", begin, trials=10_000, quick=40, seconds=60.0, memory=3 << 30)
