"""Tokenisation of the published references of Multi30k: lower-cased, normalised, by Moses."""

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec

from glassformer.errors import MissingPackageError


def is_available() -> bool:
    return find_spec("sacremoses") is not None


def as_published(texts: Iterable[str], language: str) -> list[str]:
    """Return each text as Moses' scripts tokenise it, special characters escaped.

    The raw text of Multi30k becomes the published text: all 31,014 lines of English, French and
    German are equal to the letter. Two details matter. The scripts took an apostrophe beside an
    accented letter for a quotation mark (`perl_parity`). They read the end of the line, which
    decides where a full stop before a closing quotation mark goes.
    """
    try:
        sacremoses = import_module("sacremoses")
    except ImportError:
        raise MissingPackageError("sacremoses", "BLEU on tokenised references", "moses") from None
    normalizer = sacremoses.MosesPunctNormalizer(lang=language, perl_parity=True)
    tokenizer = sacremoses.MosesTokenizer(lang=language)
    lines = (normalizer.normalize(f"{text.lower()}\n") for text in texts)
    return [tokenizer.tokenize(line, return_str=True, escape=True) for line in lines]
