"""Tokenizers of imported models, behind the interface of our own.

A file `SIDE.json` describes one tokenizer whole: its marks, the ids around a text, a chat template,
and either a `tokenizer.json` of the `tokenizers` library or a sentencepiece model with the pieces
in the order of the model's ids.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

import sentencepiece

from glassformer.data.tokenizer import Tokenizer
from glassformer.errors import DataError, MissingPackageError

SPACE = "▁"  # how a piece that begins a word begins
MAX_SIZE = 10_000_000  # entries of a vocabulary


@dataclass(frozen=True)
class Description:
    """Content of the file of a tokenizer."""

    size: int  # entries of the model's vocabulary; a tokenizer may know fewer
    pad_id: int
    unk_id: int  # -1: none
    bos_id: int
    eos_id: int
    before: tuple[int, ...] = ()  # ids in front of a source, or of a text to continue
    after: tuple[int, ...] = ()  # ids behind a source
    chat_template: str = ""  # Jinja, as Hugging Face has it
    tokenizer: dict[str, Any] | None = None  # of the `tokenizers` library
    pieces: tuple[str, ...] = ()  # of the ids, for `subwords`
    subwords: str = field(default="", repr=False)  # a sentencepiece model, in base64

    @classmethod
    def of_pieces(cls, pieces: Sequence[str], subwords: bytes, **marks: Any) -> "Description":
        text = b64encode(subwords).decode()
        return cls(size=len(pieces), pieces=tuple(pieces), subwords=text, **marks)

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False).encode()


def read_tokenizer(content: bytes) -> "ForeignTokenizer":
    """Return the tokenizer that the content of a file describes."""
    try:
        values = json.loads(content)
        lists = {name: tuple(values.get(name, ())) for name in ("before", "after", "pieces")}
        described = Description(**{**values, **lists})
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise _refused("it does not describe a tokenizer") from None
    _check(described)
    kind = LibraryTokenizer if described.tokenizer is not None else PieceTokenizer
    return kind(described, content)


def _check(d: Description) -> None:
    """Refuse values that no import writes."""
    ids = (d.pad_id, d.unk_id, d.bos_id, d.eos_id, *d.before, *d.after)
    if not all(type(i) is int for i in (d.size, *ids)):
        raise _refused("its marks are no numbers")
    if not 1 <= d.size <= MAX_SIZE or not all(-1 <= i < d.size for i in ids):
        raise _refused(f"its marks are not among {d.size} ids")
    if min(d.bos_id, d.eos_id, 0, *d.before, *d.after) < 0:
        raise _refused("it has no mark of the beginning or the end")
    if not all(isinstance(text, str) for text in (d.chat_template, d.subwords, *d.pieces)):
        raise _refused("its pieces are no texts")
    if d.tokenizer is None and (len(d.pieces) != d.size or len(set(d.pieces)) != d.size):
        raise _refused(f"it has {len(set(d.pieces)):,} pieces for {d.size:,} ids")


def _refused(why: str) -> DataError:
    return DataError(
        f"The tokenizer cannot be used: {why}.",
        "An imported model has a tokenizer for its own ids.",
        "Import the model again from its origin.",
    )


class ForeignTokenizer(Tokenizer):
    """Base of the tokenizers of imported models."""

    is_foreign = True

    def __init__(self, described: Description, content: bytes) -> None:
        self.model, self.described = content, described
        self.fingerprint = sha256(content).hexdigest()
        self.pad_id, self.unk_id = described.pad_id, described.unk_id
        self.bos_id, self.eos_id = described.bos_id, described.eos_id
        self.before, self.after = tuple(described.before), tuple(described.after)
        self.chat_template = described.chat_template
        self.file_type = ".json"

    def __len__(self) -> int:
        return self.described.size

    def has_tag(self, tag: str) -> bool:
        return False

    def sample(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        if alpha:
            raise DataError(
                "The tokenizer of an imported model draws no subwords at random.",
                "It splits a text in one way.",
                "Set data.subword_sampling = 0.",
            )
        return self.encode(texts)

    @property
    def marks(self) -> set[int]:
        return {self.pad_id, self.bos_id, self.eos_id, *self.before, *self.after}


class LibraryTokenizer(ForeignTokenizer):
    """A tokenizer of the `tokenizers` library."""

    def __init__(self, described: Description, content: bytes) -> None:
        super().__init__(described, content)
        self._tokenizer = load_library_tokenizer(json.dumps(described.tokenizer))
        known = self._tokenizer.get_vocab().values()
        if max(known, default=0) >= described.size:
            raise _refused(f"it has the id {max(known)}, and the model {described.size} ids")

    def encode(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def decode(self, ids: Sequence[int]) -> str:
        kept = [int(i) for i in ids if i not in self.marks]
        text: str = self._tokenizer.decode(kept, skip_special_tokens=True)
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._piece(int(i)) for i in ids]

    def _piece(self, i: int) -> str:
        piece: str | None = self._tokenizer.id_to_token(i)
        if piece is None:
            return f"<{i}>"
        return piece if i in self._special else self._spell(piece)

    @cached_property
    def _special(self) -> set[int]:
        """Ids of marks and of other tokens that no text is split into."""
        assert self.described.tokenizer is not None
        added = self.described.tokenizer.get("added_tokens") or []
        return self.marks | {token["id"] for token in added if token.get("special")}

    @cached_property
    def _spell(self) -> Callable[[str], str]:
        assert self.described.tokenizer is not None
        return spelling_of(self.described.tokenizer.get("decoder"))

    def spans(self, text: str) -> list[tuple[int, int]]:
        offsets: list[tuple[int, int]] = self._tokenizer.encode(
            text, add_special_tokens=False
        ).offsets
        return offsets


def spelling_of(decoder: Any) -> Callable[[str], str]:
    """Return the function that writes a piece with ▁ where a word begins, by its decoder.

    Pieces of byte-level BPE are bytes, each as a letter; those of WordPiece begin with ## within a
    word; without a decoder each piece is a word.
    """
    parts = [decoder, *decoder.get("decoders", [])] if isinstance(decoder, dict) else []
    kinds = {part.get("type"): part for part in parts if isinstance(part, dict)}
    if "ByteLevel" in kinds:
        return _of_bytes
    if "WordPiece" in kinds:
        within = str(kinds["WordPiece"].get("prefix", "##"))
        return lambda piece: (
            piece.removeprefix(within) if piece.startswith(within) else SPACE + piece
        )
    return str if kinds else SPACE.__add__


def _of_bytes(piece: str) -> str:
    """Return the text of a piece of byte-level BPE; bytes that are no text as <0xE2>."""
    if not all(letter in BYTES for letter in piece):
        return piece
    content = bytes(BYTES[letter] for letter in piece)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in content)
    return SPACE + text[1:] if text.startswith(" ") else text


def _byte_letters() -> dict[str, int]:
    """Return the byte of each letter of byte-level BPE: itself if it is visible, else from Ā on."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(b): b for b in visible} | {chr(256 + n): b for n, b in enumerate(hidden)}


BYTES = _byte_letters()


class PieceTokenizer(ForeignTokenizer):
    """A sentencepiece model whose pieces have the ids of another list, as in Marian's models."""

    def __init__(self, described: Description, content: bytes) -> None:
        super().__init__(described, content)
        try:
            proto = b64decode(described.subwords, validate=True)
            self._subwords = sentencepiece.SentencePieceProcessor(model_proto=proto)
        except (ValueError, RuntimeError):
            raise _refused("its subwords are no model of sentencepiece") from None

    @cached_property
    def _has_bytes(self) -> bool:
        return any(map(self._subwords.is_byte, range(self._subwords.get_piece_size())))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.described.pieces)}

    def encode(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        rows = self._subwords.encode(list(texts), out_type=str, num_threads=threads)
        return [[self._ids.get(piece, self.unk_id) for piece in row] for row in rows]

    def decode(self, ids: Sequence[int]) -> str:
        pieces = [self.described.pieces[i] for i in ids if i not in self.marks]
        if self._has_bytes:
            text: str = self._subwords.decode_pieces(pieces)
            return text
        return "".join(pieces).replace(SPACE, " ").strip()  # also pieces of the other language

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self.described.pieces[int(i)] for i in ids]

    def spans(self, text: str) -> list[tuple[int, int]]:
        offsets: list[tuple[int, int]] = self._subwords.encode(text, out_type="offset_mapping")[
            "offsets"
        ]
        return offsets


def sentencepiece_tokenizer(model: bytes, size: int, **marks: Any) -> Tokenizer:
    """Return a sentencepiece model whose pieces have its own ids, for a model of `size` ids."""
    try:
        subwords = sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError:
        raise _refused("its subwords are no model of sentencepiece") from None
    known = len(subwords)
    if known > size:
        raise _refused(f"it has {known:,} pieces, and the model {size:,} ids")
    pieces = [subwords.id_to_piece(i) for i in range(known)]
    pieces += [f"<{i}>" for i in range(known, size)]
    described = Description.of_pieces(pieces, model, unk_id=subwords.unk_id(), **marks)
    return read_tokenizer(described.to_bytes())


def load_library_tokenizer(text: str) -> Any:
    """Return a tokenizer of the `tokenizers` library from its JSON."""
    try:
        from tokenizers import Tokenizer as Library
    except ImportError:
        raise MissingPackageError("tokenizers", "The tokenizer of this model", "interop") from None
    try:
        return Library.from_str(text)
    except Exception as error:  # noqa: BLE001  the library raises nothing more exact
        raise _refused(f"tokenizers says {str(error)[:200]}") from None
