"""Import of a Hugging Face folder: config.json, safetensors, and a tokenizer."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.checkpoint.format import Checkpoint
from glassformer.config import RunSettings
from glassformer.data.foreign_tokenizer import (
    Description,
    load_library_tokenizer,
    read_tokenizer,
    sentencepiece_tokenizer,
)
from glassformer.data.tokenizer import Tokenizer
from glassformer.interop.decoders import gpt2_settings, gpt2_weights, llama_settings, llama_weights
from glassformer.interop.encoders import bart_settings, bart_weights, bert_settings, bert_weights
from glassformer.interop.foreign import (
    MAX_JSON,
    Array,
    Config,
    Tensors,
    damaged,
    read_json,
    refused,
)
from glassformer.interop.safetensors_file import read_tensors
from glassformer.interop.subwords import characters
from glassformer.interop.t5 import t5_settings, t5_weights

DECODERS = {
    **dict.fromkeys(("llama", "mistral", "qwen2"), (llama_settings, llama_weights)),
    "gpt2": (gpt2_settings, gpt2_weights),
}
ENCODER_DECODERS = ("bart", "marian")
T5 = ("t5", "mt5")
KNOWN = ("bert", *ENCODER_DECODERS, *T5, *DECODERS)
SENTENCES = "sentence_bert_config.json"  # of sentence-transformers, beside 1_Pooling/config.json
MARKS = 4  # of the character vocabularies of grapheme-to-phoneme models: pad, begin, end, unknown


def import_hugging_face(folder: Path) -> Checkpoint:
    """Return the model in a folder of Hugging Face as a checkpoint."""
    config = Config("config.json", read_json(folder / "config.json"))
    kind = str(config.values.get("model_type"))[:40]
    if kind not in KNOWN:
        raise refused(
            f"config.json: model_type is {kind!r}.",
            f"Glassformer imports {', '.join(KNOWN)}.",
        )
    tensors = read_tensors(folder)
    if kind == "bert":
        return _embedder(folder, config, tensors)
    if kind in ENCODER_DECODERS:
        return _translator(folder, config, tensors)
    if kind in T5:
        return _t5(folder, config, tensors)
    settings, weights = DECODERS[kind]
    s = {**settings(config), "pad_id": -1}
    tokenizer = _decoder_tokenizer(folder, config, s["vocab_size"])
    length = config.count("n_positions" if kind == "gpt2" else "max_position_embeddings", 2_048)
    return _checkpoint(s, weights(s, tensors), tensors, {"joint": tokenizer}, max_length=length)


def _checkpoint(
    model: Mapping[str, Any],
    weights: dict[str, Array],
    tensors: Tensors,
    tokenizers: dict[str, Tokenizer],
    **data: Any,
) -> Checkpoint:
    tensors.finish()
    settings = RunSettings.of(model=dict(model), data={"name": "files", **data})
    return Checkpoint(settings, weights, tokenizers)


def _embedder(folder: Path, config: Config, tensors: Tensors) -> Checkpoint:
    s = bert_settings(config)
    s["pad_id"] = config.identity("pad_token_id", 0)
    pooling, modules = folder / "1_Pooling" / "config.json", folder / "modules.json"
    if pooling.is_file():
        values = read_json(pooling)
        modes = {"pooling_mode_cls_token": "first", "pooling_mode_max_tokens": "max"}
        chosen = [ours for theirs, ours in modes.items() if values.get(theirs) is True]
        s["pooling"] = chosen[0] if chosen else "mean"
    if modules.is_file() and modules.stat().st_size < MAX_JSON:
        s["unit_length"] = b"models.Normalize" in modules.read_bytes()
    weights = bert_weights(s, tensors, config.count("type_vocab_size", 2))
    longest = s["max_positions"]
    if (folder / SENTENCES).is_file():
        sentences = Config(SENTENCES, read_json(folder / SENTENCES))
        longest = min(longest, sentences.count("max_seq_length", longest))
    tokenizer = _library_tokenizer(folder, s["vocab_size"], s["pad_id"], -1, None, None)
    return _checkpoint(s, weights, tensors, {"joint": tokenizer}, max_length=longest)


def _translator(folder: Path, config: Config, tensors: Tensors) -> Checkpoint:
    s = bart_settings(config)
    weights = bart_weights(s, tensors)
    start = config.identity("decoder_start_token_id", config.values.get("bos_token_id"))
    end = config.identity("eos_token_id")
    if config.values["model_type"] == "marian":
        tokenizers = _marian_tokenizers(folder, s, start, end)
    elif "grapheme_chars" in config:
        tokenizers = _character_tokenizers(config, s, start, end)
    else:
        tokenizers = {
            "joint": _library_tokenizer(folder, s["vocab_size"], s["pad_id"], -1, start, end)
        }
    marks = len(next(iter(tokenizers.values())).source([]))
    languages = {}
    if {"source_language", "target_language"} <= config.values.keys():  # written by our export
        languages = {n: str(config.values[n]) for n in ("source_language", "target_language")}
    longest = s["max_positions"] - marks
    return _checkpoint(s, weights, tensors, tokenizers, max_length=longest, **languages)


def _t5(folder: Path, config: Config, tensors: Tensors) -> Checkpoint:
    s = t5_settings(config, tensors)
    weights = t5_weights(s, tensors, config)
    start = config.identity("decoder_start_token_id", s["pad_id"])
    end, v = config.identity("eos_token_id", 1), s["vocab_size"]
    subwords = folder / "spiece.model"
    if subwords.is_file() and not (folder / "tokenizer.json").is_file():
        tokenizer = sentencepiece_tokenizer(
            _subwords(subwords), v, pad_id=s["pad_id"], bos_id=start, eos_id=end, after=(end,)
        )
    else:
        tokenizer = _library_tokenizer(folder, v, s["pad_id"], -1, start, end)
    # Relative positions have no last one; T5 was trained on 512.
    longest = config.count("n_positions", 512) - len(tokenizer.source([]))
    return _checkpoint(s, weights, tensors, {"joint": tokenizer}, max_length=longest)


def _marian_tokenizers(
    folder: Path, s: Mapping[str, Any], start: int, end: int
) -> dict[str, Tokenizer]:
    """Return the tokenizers of Marian: sentencepiece models, and the ids of their pieces."""
    sizes = {"source": s["source_vocab_size"] or s["vocab_size"], "target": s["vocab_size"]}
    found: dict[str, Tokenizer] = {}
    for side, size in sizes.items():
        own = folder / f"{'' if side == 'source' else 'target_'}vocab.json"
        path = own if own.is_file() else folder / "vocab.json"
        subwords = folder / f"{side}.spm"
        for needed in (path, subwords):
            if not needed.is_file():
                raise _missing(folder, needed.name)
        pieces = _pieces(path, size)
        found[side] = read_tokenizer(
            Description.of_pieces(
                pieces, _subwords(subwords), pad_id=s["pad_id"], bos_id=start, eos_id=end,
                unk_id=pieces.index("<unk>") if "<unk>" in pieces else -1, after=(end,),
            ).to_bytes()
        )  # fmt: skip
    return found


def _subwords(path: Path) -> bytes:
    if path.stat().st_size > MAX_JSON // 4:
        raise damaged(path, "it is too long for a sentencepiece model")
    return path.read_bytes()


def _pieces(path: Path, size: int) -> list[str]:
    """Return the pieces of a vocabulary, a JSON of pieces and ids, in the order of the ids."""
    ids = read_json(path)
    pieces = [f"<{i}>" for i in range(size)]
    for piece, i in ids.items():
        if type(i) is not int or not 0 <= i < size:
            raise damaged(path, f"the id of {piece[:20]!r} is {str(i)[:20]}, of {size}")
        pieces[i] = piece
    return pieces


def _character_tokenizers(
    config: Config, s: Mapping[str, Any], start: int, end: int
) -> dict[str, Tokenizer]:
    """Return vocabularies of single characters, which a configuration lists."""
    found: dict[str, Tokenizer] = {}
    for side, key in (("source", "grapheme_chars"), ("target", "phoneme_chars")):
        symbols = config.values.get(key)
        size = s["vocab_size"]
        if not isinstance(symbols, str) or not MARKS < len(symbols) <= size:
            raise refused(f"config.json: {key} is no text of up to {size} characters.", "")
        found[side] = read_tokenizer(
            Description(
                size=size, pad_id=s["pad_id"], unk_id=MARKS - 1, bos_id=start, eos_id=end,
                before=(start,), after=(end,), tokenizer=characters(symbols, MARKS),
            ).to_bytes()
        )  # fmt: skip
    return found


def _decoder_tokenizer(folder: Path, config: Config, size: int) -> Tokenizer:
    bos = config.identity("bos_token_id", -1)
    end = config.identity("eos_token_id", bos)
    return _library_tokenizer(folder, size, -1, -1, bos if bos >= 0 else end, end)


def _library_tokenizer(
    folder: Path, size: int, pad: int, unk: int, bos: int | None, eos: int | None
) -> Tokenizer:
    """Return the tokenizer of tokenizer.json; what it puts around a text is read from itself."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise _missing(folder, path.name)
    values = {**read_json(path), "truncation": None, "padding": None}
    library = load_library_tokenizer(json.dumps(values))
    inner = library.encode("a", add_special_tokens=False).ids
    around = library.encode("a", add_special_tokens=True).ids
    cut = next((i for i in range(len(around)) if around[i : i + len(inner)] == inner), 0)
    before, after = around[:cut], around[cut + len(inner) :]
    bos = bos if bos is not None else (before or [0])[0]
    eos = eos if eos is not None else (after or [bos])[-1]
    described = Description(
        size=size, pad_id=pad, unk_id=unk, bos_id=bos, eos_id=eos, before=tuple(before),
        after=tuple(after), chat_template=_chat_template(folder), tokenizer=values,
    )  # fmt: skip
    return read_tokenizer(described.to_bytes())


def _chat_template(folder: Path) -> str:
    text, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if text.is_file() and text.stat().st_size < MAX_JSON:
        return text.read_text("utf-8", "replace")
    template = read_json(config).get("chat_template") if config.is_file() else ""
    return template if isinstance(template, str) else ""


def _missing(folder: Path, name: str) -> Exception:
    return refused(
        f"{folder} has no {name}.",
        "A model is imported with its tokenizer.",
        "Download the whole model, or save its fast tokenizer there: save_pretrained.",
    )
