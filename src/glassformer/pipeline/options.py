"""Keyword options of a search, as `translate`, `generate` and `stream` take them."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from glassformer.decode.options import SearchOptions
from glassformer.errors import InputError

__all__ = ["SearchKeywords", "TranslateKeywords", "Unpack", "one_answer"]


class SearchKeywords(TypedDict, total=False):
    """Options of `SearchOptions` besides the beam size; with the same defaults."""

    length_penalty: float
    min_length: int
    max_length: int | None
    no_repeat_ngram: int
    repetition_penalty: float
    sample: bool
    temperature: float
    top_k: int
    top_p: float
    seed: int


class TranslateKeywords(SearchKeywords, total=False):
    """Options of `Translator.translate`, which explains them."""

    to: str | None
    split: bool | None
    typeset: bool
    prefixes: Sequence[str] | None
    batch_tokens: int
    truncate: bool
    first: int


def one_answer(options: SearchOptions) -> SearchOptions:
    """Return `options`; refuse several answers where one is returned."""
    if options.n_best > 1:
        raise InputError(
            f"n_best = {options.n_best} was given where a text has one answer.",
            "The other answers would be lost.",
            "Call n_best([text], SearchOptions(…)) for all of them, or leave n_best out.",
        )
    return options
