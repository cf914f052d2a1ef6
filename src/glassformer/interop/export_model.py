"""Write a model for another library, and compare what it then answers with what it answers here."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glassformer.checkpoint.format import Checkpoint
from glassformer.checkpoint.weights import set_weights
from glassformer.data.tokenizer import Tokenizer
from glassformer.errors import InputError, MissingPackageError
from glassformer.interop.ctranslate2 import to_ctranslate2
from glassformer.interop.export_decoder import hugging_face_decoder
from glassformer.interop.halves import in_halves
from glassformer.interop.library_tokenizer import write_library_tokenizer
from glassformer.interop.marian import to_marian
from glassformer.interop.safetensors_file import write_tensors
from glassformer.model.build import build
from glassformer.pipeline.generator import Generator
from glassformer.pipeline.translator import Translator
from glassformer.quantize import dequantise_weights

MAX_LENGTH = 512  # rows of a table of positions
LONGEST = 60  # tokens of an answer that is compared
Answer = Callable[[list[str]], list[list[int]]]  # ids of the greedy answer to each text


def export_ctranslate2(model: Translator, saved: Checkpoint, folder: Path, int8: bool) -> Answer:
    """Write `folder` for CTranslate2, with the tokenizers; return how it answers."""
    sides = _sides(model)
    source, target = (tokenizer.pieces(range(len(tokenizer))) for tokenizer in sides.values())
    to_ctranslate2(model.model, folder, source, target, MAX_LENGTH, int8)
    for side, tokenizer in sides.items():
        _write_subwords(folder / f"{side}.spm", tokenizer)
    import ctranslate2

    engine = ctranslate2.Translator(str(folder), compute_type="int8" if int8 else "float32")

    def answer(texts: list[str]) -> list[list[int]]:
        rows = [[source[i] for i in _read(model, text)] for text in texts]
        found = engine.translate_batch(
            rows,
            beam_size=1,
            max_decoding_length=LONGEST,
            min_decoding_length=0,
            suppress_sequences=[[target[i]] for i in _banned(model)],
        )
        ids = {piece: i for i, piece in enumerate(target)}
        return [[ids[piece] for piece in one.hypotheses[0]] for one in found]

    return answer


def export_hugging_face(model: Translator, saved: Checkpoint, folder: Path, int8: bool) -> Answer:
    """Write `folder` for Hugging Face as a MarianMTModel; return how it answers."""
    if int8:
        raise _no_eight_bits("Hugging Face's folder")
    try:
        import torch
        from transformers import MarianMTModel
    except ImportError:
        raise MissingPackageError("transformers", "Hugging Face's format", "peers") from None
    weights = dequantise_weights(saved.weights)
    settings = saved.settings.model
    if settings.positions == "sinusoidal":
        settings, weights = in_halves(settings, weights)
    if settings.tie_source_target and not settings.tie_target_output:
        # Marian shares the embeddings of both sides with the output, or not at all.
        settings = settings.replace(tie_source_target=False)
        weights = {**weights, "decoder.embedding.weight": weights["encoder.embedding.weight"]}
    torch_model: Any = build(settings).eval()
    set_weights(torch_model, weights)
    theirs = to_marian(torch_model, MAX_LENGTH)
    theirs.config.source_language = saved.settings.data.source_language
    theirs.config.target_language = saved.settings.data.target_language
    theirs.generation_config.bad_words_ids = None
    theirs.save_pretrained(folder)
    sides = _sides(model)
    for side, tokenizer in sides.items():
        _write_subwords(folder / f"{side}.spm", tokenizer)
        pieces = tokenizer.pieces(range(len(tokenizer)))
        name = "vocab.json" if side == "source" else "target_vocab.json"
        ids = {piece: i for i, piece in enumerate(pieces)}
        (folder / name).write_text(json.dumps(ids, ensure_ascii=False), "utf-8")
    same = model.source_tokenizer.fingerprint == model.target_tokenizer.fingerprint
    if same:
        (folder / "target_vocab.json").unlink()
    (folder / "tokenizer_config.json").write_text(_tokenizer_config(saved, not same), "utf-8")
    (folder / "README.md").write_text(_card(saved), "utf-8")
    again = MarianMTModel.from_pretrained(folder).eval()
    how: dict[str, Any] = {"num_beams": 1, "do_sample": False, "suppress_tokens": _banned(model)}

    def answer(texts: list[str]) -> list[list[int]]:
        found = []
        for text in texts:
            ids = torch.tensor([_read(model, text)])
            with torch.inference_mode():
                out = again.generate(ids, max_new_tokens=LONGEST, **how)
            found.append([int(i) for i in out[0][1:]])  # behind the begin mark
        return found

    return answer


def export_onnx(model: Translator, saved: Checkpoint, folder: Path, int8: bool) -> Answer:
    """Write `folder` for ONNX Runtime: encoder, decoder step and tokenizers."""
    from glassformer.interop.onnx_model import OnnxTranslator, to_onnx

    to_onnx(model.model, folder, int8)
    for side, tokenizer in _sides(model).items():
        _write_subwords(folder / f"{side}.spm", tokenizer)
    s = saved.settings.model
    runs = OnnxTranslator(
        folder, s.decoder_layers, s.n_kv_heads or s.n_heads, s.d_model // s.n_heads
    )
    marks = model.target_tokenizer.bos_id, model.target_tokenizer.eos_id
    return lambda texts: [
        runs.translate(_read(model, text), *marks, LONGEST, _banned(model)) for text in texts
    ]


def export_torch(model: Translator, saved: Checkpoint, folder: Path, int8: bool) -> Answer:
    """Write `folder` for torch alone: programs of torch.export, and tokenizers."""
    import torch

    from glassformer.interop.onnx_model import to_torch

    if int8:
        raise _no_eight_bits("A program of torch.export")
    to_torch(model.model, folder)
    for side, tokenizer in _sides(model).items():
        _write_subwords(folder / f"{side}.spm", tokenizer)
    encoder, decoder = (
        torch.export.load(folder / f"{name}.pt2").module() for name in ("encoder", "decoder")
    )
    s = saved.settings.model
    heads, d_k = s.n_kv_heads or s.n_heads, s.d_model // s.n_heads
    bos, eos = model.target_tokenizer.bos_id, model.target_tokenizer.eos_id

    @torch.inference_mode()
    def answer(texts: list[str]) -> list[list[int]]:
        found = []
        for text in texts:
            source = torch.tensor([_read(model, text)])
            mask = torch.ones_like(source, dtype=torch.bool)
            cross = encoder(source, mask)
            keys = values = torch.zeros(s.decoder_layers, 1, heads, 0, d_k)
            ids = [bos]
            while ids[-1] != eos and len(ids) <= LONGEST:
                logits, keys, values = decoder(torch.tensor([ids[-1:]]), keys, values, *cross, mask)
                logits[0, _banned(model)] = -torch.inf
                ids.append(int(logits[0].argmax()))
            found.append(ids[1:])
        return found

    return answer


def export_language_model(model: Generator, saved: Checkpoint, folder: Path, int8: bool) -> Answer:
    """Write `folder` for Hugging Face as a Llama or a GPT-2; return how it answers."""
    if int8:
        raise _no_eight_bits("Hugging Face's folder")
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError:
        raise MissingPackageError("transformers", "Hugging Face's format", "peers") from None
    config, tensors = hugging_face_decoder(saved)
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(tensors, folder)
    (folder / "config.json").write_text(json.dumps(config, indent=2), "utf-8")
    write_library_tokenizer(model.tokenizer, folder, saved.settings.data.max_length)
    (folder / "README.md").write_text(_language_model_card(saved), "utf-8")
    again: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    mark, behind = (
        model.tokenizer.bos_id,
        len(model.tokenizer.after if model.tokenizer.is_foreign else ()),
    )
    banned = [mark, model.tokenizer.pad_id] if model.begins_with_mark else []
    banned = [i for i in banned if i >= 0 and i != model.tokenizer.eos_id]

    def answer(texts: list[str]) -> list[list[int]]:
        found = []
        for text in texts:
            read = tokenizer(text).input_ids
            ids = torch.tensor([read[: len(read) - behind] or [mark]])
            with torch.inference_mode():
                out = again.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    max_length=compared_tokens(saved),
                    do_sample=False,
                    suppress_tokens=banned or None,
                    pad_token_id=model.tokenizer.eos_id,
                )
            found.append([int(i) for i in out[0][1:]])  # a search here does not return the first
        return found

    return answer


FORMATS: dict[str, Callable[[Translator, Checkpoint, Path, bool], Answer]] = {
    "hf": export_hugging_face,
    "ctranslate2": export_ctranslate2,
    "onnx": export_onnx,
    "torch": export_torch,
}
LANGUAGE_MODEL_FORMATS = {"hf": export_language_model}


def compared_tokens(saved: Checkpoint) -> int:
    """Return the tokens of a text and its continuation that are compared, begin mark included."""
    return min(LONGEST, saved.settings.data.max_length)


def _no_eight_bits(what: str) -> InputError:
    return InputError(
        f"{what} has no eight bits.",
        "It holds weights in fp32.",
        "Leave --int8 out.",
    )


def _tokenizer_config(saved: Checkpoint, separate: bool) -> str:
    data = saved.settings.data
    values = {
        "tokenizer_class": "MarianTokenizer", "source_lang": data.source_language,
        "target_lang": data.target_language, "separate_vocabs": separate, "pad_token": "<pad>",
        "unk_token": "<unk>", "eos_token": "</s>", "model_max_length": data.max_length,
    }  # fmt: skip
    return json.dumps(values, indent=2)


def _card(saved: Checkpoint) -> str:
    data = saved.settings.data
    return f"""---
language:
- {data.source_language}
- {data.target_language}
library_name: transformers
pipeline_tag: translation
tags:
- glassformer
- marian
---

# {data.source_language} → {data.target_language}

A translator that Glassformer trained, as a MarianMTModel in fp32. Positions have Marian's layout;
the function is the same.
"""


def _language_model_card(saved: Checkpoint) -> str:
    s = saved.settings.model
    return f"""---
library_name: transformers
pipeline_tag: text-generation
tags:
- glassformer
---

# Language model of {s.decoder_layers} layers, width {s.d_model}

Written by Glassformer in fp32, with the architecture and the tensors of Hugging Face.
"""


def _sides(model: Translator) -> dict[str, Tokenizer]:
    return {"source": model.source_tokenizer, "target": model.target_tokenizer}


def _banned(model: Translator) -> list[int]:
    """Return the marks that no answer has; a search here bans them."""
    target = model.target_tokenizer
    return [i for i in (target.pad_id, target.bos_id) if i >= 0]


def _read(model: Translator, text: str) -> list[int]:
    """Return the ids of a source as the encoder reads them."""
    tokenizer = model.source_tokenizer
    return tokenizer.source(tokenizer.encode([text])[0])


def _write_subwords(path: Path, tokenizer: Tokenizer) -> None:
    if tokenizer.is_foreign:
        raise InputError(
            "The tokenizer of an imported model is not exported.",
            "The library that it came from has it.",
            "Export a model that Glassformer trained.",
        )
    path.write_bytes(tokenizer.model)
