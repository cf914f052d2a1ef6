"""Words of a text, and the attention between those of a sentence and of its translation.

The translation is given (forced), so that all of its steps are one pass.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from unicodedata import category

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from glassformer.errors import DataError
from glassformer.inspect.links import WordPair
from glassformer.model.attention import record_attention
from glassformer.pipeline import Translator

BATCH_TOKENS = 2_048  # cells of the longer side; every attention of a batch is kept
TURN = 256  # pairs that are sorted by length and read together

WORD = re.compile(
    r"""
      aujourd['’]hui
    | \d+ (?:[.,:/]\d+)+                 # 3.5  10:30
    | \w+? (?=n['’]t\b) | n['’]t\b       # do n't
    | (?<=\w) ['’] (?:s|d|m|re|ve|ll)\b  # king 's
    | \w+ (?:-\w+)*                      # dog  est-ce
      (?: ['’] (?=\w) (?! (?:s|d|m|re|ve|ll)\b ) )?  # l' homme
    | \S                                 # every mark by itself
    """,
    re.VERBOSE | re.IGNORECASE,
)


def split_words(text: str) -> tuple[str, ...]:
    """What stands between spaces, with punctuation split off, each mark a word of its own.

    Hyphens and what is within numbers stay (est-ce, 3.5). An apostrophe ends a word (l' homme),
    but English endings keep theirs (king 's, do n't). These are the words of the grammar.
    """
    # An accent that is a character of its own is part of its word, which \w does not know.
    plain = "".join("_" if category(c).startswith("M") else c for c in text)
    return tuple(text[slice(*found.span())] for found in WORD.finditer(plain))


def shares(
    spans: Sequence[tuple[int, int]], text: str, words: Sequence[str]
) -> Float[Tensor, "subwords words"]:
    """How much of each subword stands in each word: all of it in one, but for such as "d'une"."""
    places, end = [], 0
    for word in words:
        begin = text.index(word, end)
        end = begin + len(word)
        places.append((begin, end))
    pieces = torch.tensor(spans).reshape(-1, 2, 1)
    begins, ends = torch.tensor(places).reshape(-1, 2).unbind(1)
    common = torch.minimum(pieces[:, 1], ends) - torch.maximum(pieces[:, 0], begins)
    return F.normalize(common.clamp(min=0).float(), p=1, dim=1)


def cross_attention(
    translator: Translator, pair: WordPair
) -> Float[Tensor, "layers H target source"]:
    """The attention of each target subword (and the end) to each source subword, forced.

    Row t is the step whose input is target position t: <s> first.
    """
    return _forced(translator, [translator.inputs(pair.source, pair.target)])[0]


def _forced(
    translator: Translator, inputs: Sequence[tuple[Tensor, Tensor]]
) -> Float[Tensor, "B layers H target source"]:
    """Of an ensemble, the first."""
    model = translator.model
    sides = ([row for (row,) in side] for side in zip(*inputs, strict=True))
    source, target = (pad_sequence(rows, True, model.pad_id) for rows in sides)
    with torch.inference_mode(), record_attention(model) as maps:
        model.features(source, target)
    return torch.stack([w[0] for name, w in maps.items() if name.endswith("cross_attention")], 1)


def word_attention(
    attention: Float[Tensor, "*heads target source"],
    translator: Translator,
    pair: WordPair,
    shift: int,
) -> Float[Tensor, "*heads m n"]:
    """Attention between words: summed over a source word's subwords, averaged over a target's.

    What goes to the end of the source, which is no word, is left out.
    """
    return _merged(attention, *_words(translator, pair), shift)


def _words(
    translator: Translator, pair: WordPair
) -> tuple[Float[Tensor, "m target"], Float[Tensor, "source n"]]:
    """The mean over a target word's subwords, and the sum over a source word's, as matrices."""
    targets = translator.target_tokenizer.spans(pair.target)
    sources = translator.source_tokenizer.spans(pair.source)
    mean = F.normalize(shares(targets, pair.target, pair.target_words).T, p=1, dim=1)
    return mean, shares(sources, pair.source, pair.source_words)


def _merged(attention: Tensor, mean: Tensor, total: Tensor, shift: int) -> Tensor:
    return mean @ attention[..., shift : shift + mean.size(1), : len(total)] @ total


def word_attentions(
    translator: Translator, pairs: Sequence[WordPair], batch_tokens: int = BATCH_TOKENS
) -> Iterator[Float[Tensor, "2 layers H m n"]]:
    """`word_attention` of every head for each pair, at [0] as words are said, at [1] as read."""
    for first in range(0, len(pairs), TURN):
        turn = pairs[first : first + TURN]
        inputs = [translator.inputs(pair.source, pair.target) for pair in turn]
        found: dict[int, Tensor] = {}
        for batch in _batches([max(x.size(1) for x in both) for both in inputs], batch_tokens):
            attentions = _forced(translator, [inputs[i] for i in batch])
            for i, attention in zip(batch, attentions, strict=True):
                words = _words(translator, turn[i])
                found[i] = torch.stack([_merged(attention, *words, shift) for shift in (0, 1)])
        yield from (found[i] for i in range(len(turn)))


def _batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Those of like length together, the longest first."""
    rest = sorted(range(len(lengths)), key=lengths.__getitem__)
    while rest:
        count = max(1, budget // lengths[rest[-1]])
        yield rest[-count:]
        del rest[-count:]


def check_lines(texts: Sequence[str], lengths: Iterable[int], longest: int, side: str) -> None:
    """Refuse what is longer than the model was trained for, before the work."""
    for number, (text, length) in enumerate(zip(texts, lengths, strict=True), 1):
        if length > longest:
            raise DataError(
                f"Line {number:,} of the {side} has {length:,} subwords: {text[:40]!r}…",
                f"The model was trained on no more than {longest}.",
                "Cut it into sentences, or empty the line.",
            )
