"""Tokenizers of imported models: pieces that spell bytes are shown as text."""

from dataclasses import replace
from json import loads

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from glassformer.data.foreign_tokenizer import Description, ForeignTokenizer, read_tokenizer

TEXT = "The cat sees\n\ttwo dogs – l'été, 東京!"


def byte_level() -> ForeignTokenizer:
    """Return a vocabulary of bytes and some merges, as GPT-2 has it, with one mark."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<|Ġend|>"], initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator([TEXT] * 9, trainer)
    described = Description(
        size=library.get_vocab_size(), pad_id=0, unk_id=-1, bos_id=0, eos_id=0,
        tokenizer=loads(library.to_str()),
    )  # fmt: skip
    return read_tokenizer(described.to_bytes())


def test_pieces_that_spell_bytes_are_shown_as_text() -> None:
    tokenizer = byte_level()
    (ids,) = tokenizer.encode([TEXT])
    shown = "".join(tokenizer.shown_pieces(ids))
    assert shown.replace("▁", " ").replace("↵", "\n").replace("⇥", "\t") == TEXT
    assert "Ġ" in "".join(tokenizer.pieces(ids))


def test_a_mark_is_shown_as_it_is_written() -> None:
    assert byte_level().shown_pieces([0]) == ["<|Ġend|>"]


@pytest.mark.parametrize("kind", ["Fuse", None])
def test_other_vocabularies_are_shown_as_they_are(kind: str | None) -> None:
    tokenizer = byte_level()
    library = dict(tokenizer.described.tokenizer or {})
    library["decoder"] = None if kind is None else {"type": kind}
    other = read_tokenizer(replace(tokenizer.described, tokenizer=library).to_bytes())
    assert other.shown_pieces([5, 6]) == other.pieces([5, 6])
