"""Text to subwords and back, through sentencepiece."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from itertools import chain, repeat
from typing import Literal

import sentencepiece

from glassformer.data.subword_sampling import SubwordSampler, Vocabulary
from glassformer.errors import DataError

PAD, UNK, BOS, EOS = 0, 1, 2, 3
MARKS = ("pad", "unk", "bos", "eos")  # in the order of their ids
LONGEST = 4_192  # bytes of a text that sentencepiece learns from: longer ones it passes over
COVERAGE = 0.9999  # of the characters have a subword, where bytes spell the others
ALWAYS = "".join(map(chr, range(33, 127))) + "€£°–—"  # characters that have one in any case
COPIES = 50  # of these among the sentences: sentencepiece fails if its sample lacks one of them
Kind = Literal["bpe", "unigram"]


class Tokenizer:
    """A sentencepiece model. Its bytes are its identity; every checkpoint holds `fingerprint`."""

    # The marks and the ids around a text. Tokenizers of imported models have others.
    pad_id, unk_id, bos_id, eos_id = PAD, UNK, BOS, EOS
    before: tuple[int, ...] = ()  # in front of a source
    after: tuple[int, ...] = (EOS,)  # behind a source
    chat_template = ""
    is_foreign = False
    file_type = ".spm"

    def __init__(self, model: bytes) -> None:
        self.model = model
        self.fingerprint = sha256(model).hexdigest()
        try:
            self._pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
            marks = [getattr(self._pieces, f"{mark}_id")() for mark in MARKS]
        except RuntimeError as error:
            raise DataError(
                f"The {len(model):,} bytes are no subwords: {str(error).strip()}",
                "Subwords are a model of sentencepiece.",
                "Learn them anew, or use another copy of them.",
            ) from None
        if marks != list(range(len(MARKS))):
            raise DataError(
                f"The subwords are foreign: the ids of {', '.join(MARKS)} are {marks}.",
                f"Glassformer's have {list(range(len(MARKS)))}: its models are trained on these.",
                "Use subwords that Glassformer has learned.",
            )

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        vocab_size: int,
        kind: Kind = "bpe",
        sample: int = 500_000,
        byte_fallback: bool = False,
        fold_case: bool = False,
        identity: bool = False,
        split_digits: bool = False,
        tags: Sequence[str] = (),
    ) -> "Tokenizer":
        """Learn at most `vocab_size` subwords from at most `sample` of the sentences.

        A small text has fewer subwords than asked for; the vocabulary is then smaller.
        `byte_fallback` spells rare characters as bytes, at the price of 256 entries.
        `fold_case` reads every text in small letters. `identity` leaves characters as they are,
        where NFKC would turn ² into 2 and ½ into 1⁄2. `split_digits` makes every digit a subword.
        `tags` are subwords that no text is ever split into: see `tag_id`.
        """
        written = BytesIO()
        if byte_fallback:
            sentences = chain(sentences, repeat(" ".join(ALWAYS), COPIES))
        failed: list[Exception] = []
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_remembering(_short(sentences), failed),
                model_writer=written,
                vocab_size=vocab_size,
                model_type=kind,
                hard_vocab_limit=False,
                input_sentence_size=sample,
                shuffle_input_sentence=True,
                character_coverage=COVERAGE if byte_fallback else 1.0,
                normalization_rule_name=_normalization(fold_case, identity),
                byte_fallback=byte_fallback,
                required_chars=ALWAYS if byte_fallback else "",
                split_digits=split_digits,
                control_symbols=list(tags),
                pad_id=PAD,
                unk_id=UNK,
                bos_id=BOS,
                eos_id=EOS,
                minloglevel=2,
            )
        except RuntimeError as error:
            if failed:  # in reading the text, which sentencepiece would not tell
                raise failed[0] from None
            raise DataError(
                f"No vocabulary of {vocab_size} subwords could be learned.",
                f"sentencepiece says: {str(error).strip()}",
                "Give it more text, or another vocab_size: it must hold every character once.",
            ) from None
        return cls(written.getvalue())

    def __len__(self) -> int:
        return self._pieces.get_piece_size()

    def has_tag(self, tag: str) -> bool:
        return bool(self._pieces.is_control(self._pieces.piece_to_id(tag)))

    def tag_id(self, tag: str) -> int:
        """Return the id of a tag, for code to put in front of ids; no text is split into it."""
        found: int = self._pieces.piece_to_id(tag)
        if not self.has_tag(tag):
            raise DataError(
                f"The subwords have no tag {tag}.",
                "Tags are reserved when the subwords are learned.",
                "Learn them anew with data.directions = 'both'.",
            )
        return found

    def encode(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Ids of each text, without the marks of beginning and end."""
        return self._pieces.encode(list(texts), num_threads=threads)

    def sample(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Draw one of the ways to split each text: text i by (seed, i).

        For BPE `alpha` is the share of merges left out; for a unigram model it sharpens the
        distribution over splits. Zero means no sampling for both: see `SubwordSampler`.
        """
        if not alpha:
            return self.encode(texts)
        return self._sampler.sample(self._pieces.normalize(list(texts)), alpha, seed)

    @cached_property
    def _sampler(self) -> SubwordSampler:
        model, ids = self._pieces, range(len(self))
        special = (model.is_control, model.is_unknown, model.is_unused, model.is_byte)
        spelling = [i for i in ids if not any(is_special(i) for is_special in special)]
        pieces = {model.id_to_piece(i): (i, model.get_score(i)) for i in spelling}
        return SubwordSampler(Vocabulary(pieces, UNK, [i for i in ids if model.is_byte(i)]))

    def source(self, ids: Sequence[int]) -> list[int]:
        """Return the ids of a text as an encoder reads them, with marks."""
        return [*self.before, *ids, *self.after]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; marks and padding are dropped."""
        return self._pieces.decode([int(i) for i in ids if i not in (PAD, BOS, EOS)])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The subwords themselves, ▁ where a word begins."""
        return [self._pieces.id_to_piece(int(i)) for i in ids]

    def shown_pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the subwords for a reader; those of some imported models stand for bytes."""
        return self.pieces(ids)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where in `text` each of its subwords stands, as characters from and to."""
        return self._pieces.encode(text, out_type="offset_mapping")["offsets"]


def _normalization(fold_case: bool, identity: bool) -> str:
    if identity and fold_case:
        raise DataError(
            "Characters are to be left as they are, and capitals to become small letters.",
            "sentencepiece folds case together with NFKC only.",
            "Set data.fold_case = false, or data.normalization = 'nfkc'.",
        )
    return "identity" if identity else "nmt_nfkc_cf" if fold_case else "nmt_nfkc"


def _short(sentences: Iterable[str]) -> Iterator[str]:
    for sentence in sentences:
        yield from [sentence] if len(sentence) <= LONGEST // 4 else _pieces(sentence.encode())


def _pieces(text: bytes) -> Iterator[str]:
    """A text whole, or what is too long of it cut at spaces; anywhere where there is none."""
    begin = 0
    while len(text) - begin > LONGEST:
        end = text.rfind(b" ", begin + 1, begin + LONGEST) + 1
        if not end:
            end = begin + LONGEST
            while text[end] & 0xC0 == 0x80:  # within a character
                end -= 1
        yield text[begin:end].decode()
        begin = end
    yield text[begin:].decode()


def _remembering(sentences: Iterable[str], failed: list[Exception]) -> Iterator[str]:
    try:
        yield from sentences
    except DataError as error:
        failed.append(error)
        raise
