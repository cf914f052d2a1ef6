"""Texts to batches of ids and back: shared by translator, classifier and generator."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from glassformer.config import RunSettings
from glassformer.data.batching import TokenBatches
from glassformer.data.tokenizer import Tokenizer
from glassformer.decode.options import Hypothesis, SearchOptions
from glassformer.errors import DataError, InputError

BATCH_TOKENS = 4_096  # tokens of a batch with padding, times the hypotheses of a beam
MAX_BATCH_TOKENS = 2**20  # a base model needs about 20 GB to encode as many
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # a space, to sentencepiece
INCOMPLETE = "\N{REPLACEMENT CHARACTER}"  # decoded from some of the bytes of a character
Ids = list[int]
Texts = list[str] | tuple[str, ...]  # not Sequence[str], which a string is, too
T = TypeVar("T")


@dataclass(frozen=True)
class Translation:
    """One answer of a translator or generator."""

    text: str
    score: float  # the log-probability over the length penalty, which ranks answers
    log_probability: float
    ids: Ids
    complete: bool = True  # False: cut off at the greatest length before the end mark


def max_source(settings: RunSettings) -> int:
    """Return the subwords of the longest text that a model was trained on and has positions for."""
    return min([settings.data.max_length, *_learned_positions(settings)])


def _learned_positions(settings: RunSettings) -> list[int]:
    """Return the number of subwords that fit beside a mark, if positions are learned."""
    learned = settings.model.positions == "learned"
    return [settings.model.max_positions - 1] if learned else []


def check_list(texts: Sequence[object], what: str = "text") -> None:
    """Refuse one text where a list is needed, and text that is not Unicode."""
    if isinstance(texts, str):
        raise InputError(
            f"One text was given where a list of texts is needed: {texts[:40]!r}.",
            "It would be read as a list of its letters.",
            "Give a list: [text].",
        )
    for text in texts:
        if isinstance(text, str):
            _check_unicode(text, what)


def _check_unicode(text: str, what: str) -> None:
    """Refuse half of a surrogate pair, which no subword has and no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"The {what} {text[:40]!r} has the character {text[error.start]!r}.",
            "It is one half of a surrogate pair, or a byte that is not UTF-8.",
            f"Give the {what} in UTF-8.",
        ) from None


def check_counts(texts: Sequence[str], others: Sequence[object], what: str) -> None:
    """Refuse lists of prefixes, targets or languages that differ in length from the texts."""
    if len(texts) != len(others):
        raise InputError(
            f"{len(texts)} texts were given with {len(others)} {what}.",
            "Each text has one of its own.",
            f"Give as many {what} as texts; an empty one where there is none.",
        )


def encode_prefixes(tokenizer: Tokenizer, texts: Sequence[str], what: str) -> list[Ids]:
    """Return the ids of prefixes or prompts; refuse a text that cannot be encoded."""
    check_list(texts, what)
    for text in texts:
        _check_end(text, what)
    rows = tokenizer.encode(texts)
    for text, ids in zip(texts, rows, strict=True):
        if tokenizer.unk_id in ids:
            spans = zip(ids, tokenizer.spans(text), strict=True)
            unknown = ", ".join(repr(text[a:b]) for t, (a, b) in spans if t == tokenizer.unk_id)
            raise InputError(
                f"The {what} {text[:40]!r} cannot be spelt.",
                f"No subword of the model has {unknown}, and an answer must begin with it.",
                f"Leave that out of the {what}.",
            )
    return rows


def _check_end(prefix: str, what: str) -> None:
    """Refuse white space behind the last word of a prefix."""
    stem = prefix.rstrip().rstrip(SPACE)
    if stem.strip() and stem != prefix:
        raise InputError(
            f"The {what} {_tail(prefix)} ends with {prefix[len(stem) :]!r}.",
            "A space is part of the next subword, which may then not begin a new word.",
            f"Leave out the white space at the end of the {what}: a new word adds its own.",
        )


def _tail(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"…{text[-40:]!r}"


def encode_sources(
    tokenizer: Tokenizer, texts: Sequence[str], longest: int, truncate: bool
) -> list[Ids]:
    """Return the ids of each text; cut or refuse what is longer than the model was trained on."""
    check_list(texts)
    return fit_sources(tokenizer.encode(texts), texts, longest, truncate)


def fit_sources(
    rows: Sequence[Ids], texts: Sequence[str], longest: int, truncate: bool, unit: str = "text"
) -> list[Ids]:
    """Return the ids of each text; cut or refuse rows of more than `longest` ids.

    `unit` is what an error calls a text: a text, or a sentence of one.
    """
    for number, ids in enumerate(rows):
        if len(ids) > longest and not truncate:
            several = f"{unit.capitalize()} {number + 1} of {len(rows)}"
            where = several if len(rows) > 1 else f"The {unit}"
            raise DataError(
                f"{where} has {len(ids):,} subwords: {texts[number][:40]!r}…",
                f"The model was trained on texts of up to {longest}; beyond that it is untested.",
                "Give it in shorter pieces (a translator splits: split=True, --split), or cut it: "
                "truncate=True, --truncate.",
            )
    return [ids[:longest] for ids in rows]


def check_batch_tokens(budget: int) -> None:
    """Refuse a budget that no batch can have."""
    if not 1 <= budget <= MAX_BATCH_TOKENS:
        raise InputError(
            f"batch_tokens = {budget} is not a valid size of a batch.",
            f"It is from 1 to {MAX_BATCH_TOKENS:,} tokens: the memory of a batch grows with it.",
            f"Leave it out: {BATCH_TOKENS:,} is about as fast as more.",
        )


def in_batches(
    rows: Sequence[Ids],
    budget: int,
    answer: Callable[[Ids], list[T]],
    empty: T,
    width: int = 1,
) -> list[T]:
    """Call `answer` with the indices of each batch of rows of similar length.

    A row counts `width` times. Return the answers in the order of the rows, and `empty` for rows
    without ids.
    """
    check_batch_tokens(budget)
    answers = [empty] * len(rows)
    full = np.array([i for i, row in enumerate(rows) if row], np.int64)
    lengths = np.array([[len(rows[i])] for i in full]).reshape(-1, 1)
    for chosen in TokenBatches(lengths, max(budget // width, 1)).epoch(0, shuffle=False):
        indices = full[chosen].tolist()
        for i, one in zip(indices, answer(indices), strict=True):
            answers[i] = one
    return answers


def translations(
    tokenizer: Tokenizer,
    hypotheses: list[Hypothesis],
    options: SearchOptions,
    prefix: str,
    prefix_ids: Ids,
) -> list[Translation]:
    """Decode hypotheses in their order. Of equal texts keep the best, unless they are sampled.

    Each text begins with `prefix` letter by letter. Its ids spell the prefix as the subword model
    normalises it, for example with single spaces and without ligatures.
    """
    read = len(tokenizer.decode(prefix_ids))
    found = [
        Translation(
            prefix + tokenizer.decode(h.ids)[read:], h.score, h.log_probability, h.ids, h.complete
        )
        for h in hypotheses
    ]
    if options.sample:
        return found
    best: dict[str, Translation] = {}
    for one in found:
        best.setdefault(one.text, one)
    return list(best.values())


def pieces_of(tokenizer: Tokenizer, prefix: Ids, tokens: Iterator[int]) -> Iterator[str]:
    """Yield what each token adds to the text.

    All ids are decoded each time, because the text of a subword depends on its neighbours.
    """
    ids, text = list(prefix), tokenizer.decode(prefix)
    shown = len(text)
    for token in tokens:
        ids.append(token)
        text = tokenizer.decode(ids)
        if len(text) > shown and not text.endswith(INCOMPLETE):
            yield text[shown:]
            shown = len(text)
    if len(text) > shown:
        yield text[shown:]
