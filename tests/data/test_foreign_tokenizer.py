"""Tokenizers of imported models: pieces that spell bytes are text."""

import re
from json import loads

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


def test_pieces_that_spell_bytes_are_text() -> None:
    """Bytes that are no text of their own are written as <0xE6>."""
    tokenizer = byte_level()
    (ids,) = tokenizer.encode([TEXT])
    parts = re.split(r"<0x(..)>", "".join(tokenizer.pieces(ids)).replace("▁", " "))
    spelt = [bytes.fromhex(p) if i % 2 else p.encode() for i, p in enumerate(parts)]
    assert b"".join(spelt).decode() == TEXT


def test_a_mark_is_as_it_is_written() -> None:
    assert byte_level().pieces([0]) == ["<|Ġend|>"]
