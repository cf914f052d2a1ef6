"""Tokenizers of other formats as descriptions of the `tokenizers` library."""

from collections.abc import Sequence
from typing import Any

BYTE = "<0x"  # how a piece that stands for one byte begins
BYTE_LEVEL: dict[str, Any] = {
    "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True,
}  # fmt: skip
DIGITS: dict[str, Any] = {"type": "Digits", "individual_digits": True}
# How models of byte-level BPE split a text before they merge, by llama.cpp's name of it.
PRE_TOKENIZERS = {"gpt-2": [BYTE_LEVEL], "smollm": [DIGITS, BYTE_LEVEL]}


def sentencepiece_bpe(
    pieces: Sequence[str],
    scores: Sequence[float],
    marks: Sequence[str],
    add_space: bool,
    unknown: int = 0,
) -> dict[str, Any]:
    """Return sentencepiece's BPE: pairs whose piece has the highest score merge first.

    `unknown` is the id of the piece for characters without one.
    """
    ids = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    for piece, i in ids.items():
        for cut in range(1, len(piece)):
            if piece[:cut] in ids and piece[cut:] in ids and not piece.startswith(BYTE):
                merges.append((-scores[i], ids[piece[:cut]], ids[piece[cut:]]))
    names = list(ids)
    merges.sort()
    return {
        **_frame(ids, marks),
        **_spaces_as_pieces(add_space),
        "model": {
            **_bpe(ids, [[names[a], names[b]] for _, a, b in merges]),
            "byte_fallback": True,
            "unk_token": pieces[unknown],
            "fuse_unk": True,
        },
    }


def sentencepiece_unigram(
    pieces: Sequence[str],
    scores: Sequence[float],
    marks: Sequence[str],
    add_space: bool,
    unknown: int = 0,
) -> dict[str, Any]:
    """Return sentencepiece's unigram model: the split with the highest sum of scores."""
    return {
        **_frame({piece: i for i, piece in enumerate(pieces)}, marks),
        **_spaces_as_pieces(add_space),
        "model": {
            "type": "Unigram",
            "unk_id": unknown,
            "vocab": [list(pair) for pair in zip(pieces, scores, strict=True)],
            "byte_fallback": any(piece.startswith(BYTE) for piece in pieces),
        },
    }


def _spaces_as_pieces(add_space: bool) -> dict[str, Any]:
    """Return the normalizer that writes a space as ▁, and the decoder that reads it."""
    normalizers: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    ]
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if add_space:
        normalizers.insert(0, {"type": "Prepend", "prepend": "▁"})
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "decoder": {"type": "Sequence", "decoders": decoders},
    }


def byte_level_bpe(
    pieces: Sequence[str], merges: Sequence[str], marks: Sequence[str], split: str
) -> dict[str, Any]:
    """Return GPT-2's BPE over bytes."""
    ids = {piece: i for i, piece in enumerate(pieces)}
    pairs = [merge.split(" ", 1) for merge in merges]
    return {
        **_frame(ids, marks),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": PRE_TOKENIZERS[split]},
        "decoder": BYTE_LEVEL,
        "model": _bpe(ids, [pair for pair in pairs if len(pair) == 2]),
    }


def characters(symbols: str, marks: int) -> dict[str, Any]:
    """Return a vocabulary of single characters; the first `marks` symbols only hold their place."""
    names = [f"<{i}>" for i in range(marks)]
    ids = {piece: i for i, piece in enumerate([*names, *symbols[marks:]])}
    return {
        **_frame(ids, names),
        "pre_tokenizer": {
            "type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False,
        },
        "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": names[-1]},
    }  # fmt: skip


def _frame(ids: dict[str, int], marks: Sequence[str]) -> dict[str, Any]:
    """Return what every tokenizer has; marks are never split."""
    added = [
        {
            "id": ids[mark], "content": mark, "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": False, "special": True,
        }
        for mark in marks
    ]  # fmt: skip
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer"))
    return {"version": "1.0", **empty, "added_tokens": added, "post_processor": None}


def _bpe(ids: dict[str, int], merges: list[list[str]]) -> dict[str, Any]:
    return {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
        "ignore_merges": False, "vocab": ids, "merges": merges,
    }  # fmt: skip
