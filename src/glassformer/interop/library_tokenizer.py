"""Tokenizers written as `tokenizer.json` of the `tokenizers` library."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from glassformer.data.foreign_tokenizer import ForeignTokenizer, LibraryTokenizer
from glassformer.data.tokenizer import Tokenizer
from glassformer.errors import InputError, MissingPackageError
from glassformer.interop.subwords import sentencepiece_bpe, sentencepiece_unigram

UNIGRAM = 1  # sentencepiece's number of the model type


def write_library_tokenizer(tokenizer: Tokenizer, folder: Path, longest: int) -> None:
    """Write tokenizer.json, its configuration and the chat template."""
    begins = tokenizer.before if tokenizer.is_foreign else (tokenizer.bos_id,)
    ends = tokenizer.after if tokenizer.is_foreign else ()
    described = _described(tokenizer)
    if described.get("post_processor") is None and (begins or ends):
        described = {**described, "post_processor": _around(tokenizer, begins, ends)}
    _write_json(folder / "tokenizer.json", described)
    bos, eos = tokenizer.pieces([tokenizer.bos_id, tokenizer.eos_id])
    names = {"bos_token": bos, "eos_token": eos}
    if tokenizer.pad_id >= 0:
        names["pad_token"] = tokenizer.pieces([tokenizer.pad_id])[0]
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": longest}
    _write_json(folder / "tokenizer_config.json", {**kind, **names})
    if tokenizer.chat_template:
        (folder / "chat_template.jinja").write_text(tokenizer.chat_template, "utf-8")


def _described(tokenizer: Tokenizer) -> dict[str, Any]:
    if isinstance(tokenizer, LibraryTokenizer):
        assert tokenizer.described.tokenizer is not None
        return tokenizer.described.tokenizer
    if isinstance(tokenizer, ForeignTokenizer):
        raise InputError(
            "The tokenizer of this imported model is not exported.",
            "Its pieces have other ids than its sentencepiece model gives them.",
            "The library that it came from has it.",
        )
    return of_sentencepiece(tokenizer.model)


def of_sentencepiece(model: bytes) -> dict[str, Any]:
    """Return a sentencepiece model in the form of the `tokenizers` library."""
    try:
        from sentencepiece.sentencepiece_model_pb2 import (  # type: ignore[attr-defined]
            ModelProto,
        )
    except ImportError:
        raise MissingPackageError("protobuf", "tokenizer.json", "peers") from None
    proto = ModelProto.FromString(model)
    pieces = [one.piece for one in proto.pieces]
    scores = [one.score for one in proto.pieces]
    # 1 is an ordinary piece, 6 a byte; 2, 3 and 4 are the unknown piece and marks.
    marks = [one.piece for one in proto.pieces if one.type in (2, 3, 4)]
    unknown = proto.trainer_spec.unk_id
    make = sentencepiece_unigram if proto.trainer_spec.model_type == UNIGRAM else sentencepiece_bpe
    found = make(pieces, scores, marks, proto.normalizer_spec.add_dummy_prefix, unknown)
    normalizers: list[dict[str, Any]] = []
    if charsmap := proto.normalizer_spec.precompiled_charsmap:
        text = b64encode(charsmap).decode()
        normalizers.append({"type": "Precompiled", "precompiled_charsmap": text})
    if proto.normalizer_spec.remove_extra_whitespaces:
        spaces = {"pattern": {"Regex": " {2,}"}, "content": " "}
        normalizers.append({"type": "Strip", "strip_left": True, "strip_right": True})
        normalizers.append({"type": "Replace", **spaces})
    found["normalizer"]["normalizers"][:0] = normalizers
    return found


def _around(tokenizer: Tokenizer, begins: tuple[int, ...], ends: tuple[int, ...]) -> dict[str, Any]:
    """Return what puts these ids before and behind a text."""
    ids = dict.fromkeys((*begins, *ends))
    names = dict(zip(ids, tokenizer.pieces(list(ids)), strict=True))
    marks = [[{"SpecialToken": {"id": names[i], "type_id": 0}} for i in x] for x in (begins, ends)]
    text = {"Sequence": {"id": "A", "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 1}}
    tokens = {name: {"id": name, "ids": [i], "tokens": [name]} for i, name in names.items()}
    single = [*marks[0], text, *marks[1]]
    pair = [*single, second]
    return {
        "type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens,
    }  # fmt: skip


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, ensure_ascii=False, indent=1), "utf-8")
