"""Text as the published references of Multi30k are: lower-cased, normalised, Moses-tokenised."""

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec

from glassformer.errors import MissingPackageError


def is_available() -> bool:
    return find_spec("sacremoses") is not None


def as_published(texts: Iterable[str], language: str) -> list[str]:
    """What Moses' scripts make of each text, special characters escaped.

    From the raw text of Multi30k this makes the published one: all 31,014 lines in each of English,
    French and German are the same to the letter. Two details are needed for that. The scripts that
    were used took an apostrophe beside an accented letter for a quotation mark (`perl_parity`), and
    they saw the end of the line, which decides where a full stop before a closing quotation goes.
    """
    try:
        sacremoses = import_module("sacremoses")
    except ImportError:
        raise MissingPackageError("sacremoses", "BLEU on tokenised references", "moses") from None
    normalizer = sacremoses.MosesPunctNormalizer(lang=language, perl_parity=True)
    tokenizer = sacremoses.MosesTokenizer(lang=language)
    lines = (normalizer.normalize(f"{text.lower()}\n") for text in texts)
    return [tokenizer.tokenize(line, return_str=True, escape=True) for line in lines]


def differing(texts: Iterable[str], published: Iterable[str], language: str) -> list[int]:
    """Which of `texts` do not become the published ones, from 1 as lines are counted."""
    made = as_published(texts, language)
    pairs = enumerate(zip(made, published, strict=True), 1)
    return [number for number, (ours, theirs) in pairs if ours != theirs]
