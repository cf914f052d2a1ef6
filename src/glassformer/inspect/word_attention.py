"""Word splitting, and attention between the words of a sentence and of its translation.

The translation is forced, so that all of its steps are one pass.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from unicodedata import category

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from glassformer.data.batching import TokenBatches
from glassformer.errors import DataError
from glassformer.inspect.links import WordPair
from glassformer.model.attention import record_attention
from glassformer.pipeline import Translator

BATCH_TOKENS = 2_048  # cells of the longer side of a batch, whose attention is all kept in memory
CHUNK = 256  # pairs that are sorted by length together

WORD = re.compile(
    r"""
      aujourd['’]hui
    | \d+ (?:[.,:/]\d+)+                 # 3.5  10:30
    | \w+? (?=n['’]t\b) | n['’]t\b       # do n't
    | (?<=\w) ['’] (?:s|d|m|re|ve|ll)\b  # king 's
    | \w+ (?:-\w+)*                      # dog  est-ce
      (?: ['’] (?=\w) (?! (?:s|d|m|re|ve|ll)\b ) )?  # l' homme
    | \S                                 # a punctuation mark
    """,
    re.VERBOSE | re.IGNORECASE,
)


def split_words(text: str) -> tuple[str, ...]:
    """Split a text at spaces and punctuation; each punctuation mark is a word.

    Hyphens and marks within numbers do not split (est-ce, 3.5). An apostrophe ends a word (l'
    homme), but English endings keep theirs (king 's, do n't). These are the words of the grammar.
    """
    # \w does not match combining accents, which are part of their word.
    plain = "".join("_" if category(c).startswith("M") else c for c in text)
    return tuple(text[slice(*found.span())] for found in WORD.finditer(plain))


def shares(
    spans: Sequence[tuple[int, int]], text: str, words: Sequence[str]
) -> Float[Tensor, "subwords words"]:
    """Return the share of each subword's characters in each word; "d'une" has two words."""
    word_spans, end = [], 0
    for word in words:
        begin = text.index(word, end)
        end = begin + len(word)
        word_spans.append((begin, end))
    pieces = torch.tensor(spans).reshape(-1, 2, 1)
    begins, ends = torch.tensor(word_spans).reshape(-1, 2).unbind(1)
    common = torch.minimum(pieces[:, 1], ends) - torch.maximum(pieces[:, 0], begins)
    return F.normalize(common.clamp(min=0).float(), p=1, dim=1)


def cross_attention(
    translator: Translator, pair: WordPair
) -> Float[Tensor, "layers H target source"]:
    """Return the forced attention of each target subword and </s> to each source subword.

    Row t is the step whose input is target position t; position 0 is <s>.
    """
    return _forced(translator, [translator.inputs(pair.source, pair.target)])[0]


def _forced(
    translator: Translator, inputs: Sequence[tuple[Tensor, Tensor]]
) -> Float[Tensor, "B layers H target source"]:
    """Run the first model of an ensemble on padded pairs."""
    model = translator.model
    sides = ([row for (row,) in side] for side in zip(*inputs, strict=True))
    source, target = (pad_sequence(rows, True, model.pad_id) for rows in sides)
    with torch.inference_mode(), record_attention(model) as maps:
        model.features(source, target)
    cross = [w[0] for name, w in maps.items() if name.endswith("cross_attention")]
    return torch.stack(cross, 1).cpu()


def word_attention(
    attention: Float[Tensor, "*heads target source"],
    translator: Translator,
    pair: WordPair,
    shift: int,
) -> Float[Tensor, "*heads m n"]:
    """Return attention between words: the sum over source subwords, the mean over target subwords.

    Attention to the </s> of the source is left out.
    """
    return _merged(attention, *_words(translator, pair), shift)


def _words(
    translator: Translator, pair: WordPair
) -> tuple[Float[Tensor, "m target"], Float[Tensor, "source n"]]:
    """Return the matrices that average target subwords and sum source subwords per word."""
    targets = translator.target_tokenizer.spans(pair.target)
    sources = translator.source_tokenizer.spans(pair.source)
    mean = F.normalize(shares(targets, pair.target, pair.target_words).T, p=1, dim=1)
    return mean, shares(sources, pair.source, pair.source_words)


def _merged(attention: Tensor, mean: Tensor, total: Tensor, shift: int) -> Tensor:
    return mean @ attention[..., shift : shift + mean.size(1), : len(total)] @ total


def word_attentions(
    translator: Translator, pairs: Sequence[WordPair], batch_tokens: int = BATCH_TOKENS
) -> Iterator[Float[Tensor, "2 layers H m n"]]:
    """Yield the `word_attention` of every head for each pair, with shift 0 and shift 1."""
    for first in range(0, len(pairs), CHUNK):
        chunk = pairs[first : first + CHUNK]
        inputs = [translator.inputs(pair.source, pair.target) for pair in chunk]
        found: dict[int, Tensor] = {}
        lengths = np.array([[x.size(1) for x in both] for both in inputs])
        for batch in TokenBatches(lengths, batch_tokens).epoch(0, shuffle=False):
            attentions = _forced(translator, [inputs[i] for i in batch])
            for i, attention in zip(batch, attentions, strict=True):
                words = _words(translator, chunk[i])
                found[i] = torch.stack([_merged(attention, *words, shift) for shift in (0, 1)])
        yield from (found[i] for i in range(len(chunk)))


def check_lines(texts: Sequence[str], lengths: Iterable[int], longest: int, side: str) -> None:
    """Raise if a text is longer than those of training."""
    for number, (text, length) in enumerate(zip(texts, lengths, strict=True), 1):
        if length > longest:
            raise DataError(
                f"Line {number:,} of the {side} has {length:,} subwords: {text[:40]!r}…",
                f"The model was trained on no more than {longest}.",
                "Split it into sentences, or empty the line.",
            )
