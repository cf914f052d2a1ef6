"""Labels of translation errors, one small function each.

A label is a function of (source, reference, output) that returns its evidence, or an empty list.
Labels point at sentences to read; they do not judge them. Words are runs of letters and digits, so
a script without spaces has few of them.
"""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable
from functools import partial

from glassformer.data.tokenizer import UNK, Tokenizer

WORD = re.compile(r"\w+")
NUMBER = re.compile(r"(?<!\d)\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d+(?:[.,:]\d+)*")
UNKNOWN_MARK = "⁇"  # how sentencepiece writes <unk>

Evidence = list[str]


def words(text: str) -> list[str]:
    return WORD.findall(text.casefold())


def word_counts(texts: Iterable[str]) -> Counter[str]:
    """Count each word; of the target side of the training text: `training_counts`."""
    return Counter(word for text in texts for word in words(text))


def empty(source: str, reference: str, output: str) -> Evidence:
    return ["no output"] if not output.strip() and reference.strip() else []


def repeated(source: str, reference: str, output: str) -> Evidence:
    """Find 1 to 4 words twice in a row, or a trigram again, more often than in either text."""
    finders: list[Callable[[list[str]], Evidence]]
    finders = [*(partial(_repeated_runs, n) for n in (4, 3, 2, 1)), _repeated_trigrams]
    for find in finders:
        found, *allowed = (find(words(text)) for text in (output, source, reference))
        if len(found) > max(map(len, allowed)):
            return [word for word, _ in Counter(found).most_common(3)]
    return []


def _repeated_runs(n: int, w: list[str]) -> Evidence:
    starts = range(len(w) - 2 * n + 1)
    return [" ".join(w[i : i + n]) for i in starts if w[i : i + n] == w[i + n : i + 2 * n]]


def _repeated_trigrams(w: list[str]) -> Evidence:
    counts = Counter(" ".join(w[i : i + 3]) for i in range(len(w) - 2))
    return [gram for gram, count in counts.items() for _ in range(count - 1)]


def over_long(source: str, reference: str, output: str) -> Evidence:
    """Report more than 1.5 times the words of the reference, and more than two words longer."""
    n, m = len(words(output)), len(words(reference))
    return [f"{n} words for {m}"] if n > 1.5 * m and n > m + 2 else []


def under_long(source: str, reference: str, output: str) -> Evidence:
    """Report fewer than 2/3 of the reference's words and over two words shorter; not empty."""
    n, m = len(words(output)), len(words(reference))
    return [f"{n} words for {m}"] if output.strip() and n < m / 1.5 and n < m - 2 else []


def copied(
    source: str, reference: str, output: str, known: Container[str] = frozenset()
) -> Evidence:
    """Find words of the source in the output that the reference does not have.

    Words `known` in the target language are no copies, unless three in a row are the source's.
    """
    ours, theirs, true = words(output), words(source), words(reference)
    left = set(ours) & set(theirs) - set(true)
    copies = [w for w in dict.fromkeys(ours) if w in left and w not in known and not w.isdecimal()]
    runs = (_trigrams(ours) & _trigrams(theirs)) - _trigrams(true)
    return copies or [" ".join(run) for run in sorted(runs)[:3]]


def _trigrams(w: list[str]) -> set[tuple[str, ...]]:
    return set(zip(w, w[1:], w[2:], strict=False))


def wrong_numbers(source: str, reference: str, output: str) -> Evidence:
    """Find numbers of source and reference that the output lacks, and numbers that neither has."""
    true, theirs, ours = (Counter(numbers(text)) for text in (source, reference, output))
    lost, new = (true & theirs) - ours, ours - (true | theirs)
    return [f"{number} lost" for number in lost] + [f"{number} new" for number in new]


def numbers(text: str) -> list[str]:
    """Return numbers in one notation: 1,000 = 1.000 = 1 000 and 1.5 = 1,5, but not 1.5 = 15."""
    plain = (re.sub(r"\s", "", number) for number in NUMBER.findall(text))
    joined = (re.sub(r"[.,](?=\d{3}(?:\D|$))", "", number) for number in plain)
    return [number.replace(",", ".") for number in joined]


def lost_names(source: str, reference: str, output: str) -> Evidence:
    """Find capitalised words within a sentence that source and reference have, the output not."""
    within = (m for m in WORD.finditer(source) if not _begins_sentence(source, m.start()))
    names = [m[0] for m in within if m[0][0].isupper() and len(m[0]) > 1]
    kept, ours = set(WORD.findall(reference)), set(words(output))
    return [n for n in dict.fromkeys(names) if n in kept and n.casefold() not in ours]


def _begins_sentence(text: str, start: int) -> bool:
    before = re.sub(r"[^\w.!?…:]+$", "", text[:start])  # spaces, quotes, brackets
    return not before or before[-1] in ".!?…:"


def unknown(source: str, output: str, tokenizer: Tokenizer) -> Evidence:
    """Find words of the source with unknown subwords, and <unk> in the output."""
    (ids,), spans = tokenizer.encode([source]), tokenizer.spans(source)
    ends = [end for i, (_, end) in zip(ids, spans, strict=True) if i == UNK]
    chunks = re.finditer(r"\S+", source)
    unread = [m[0] for m in chunks if any(m.start() < end <= m.end() for end in ends)]
    return [*dict.fromkeys(unread), *([UNKNOWN_MARK] if UNKNOWN_MARK in output else [])]


LABELS: dict[str, Callable[[str, str, str], Evidence]] = {
    "empty": empty,
    "repeated": repeated,
    "over-long": over_long,
    "under-long": under_long,
    "numbers lost or changed": wrong_numbers,
    "names lost": lost_names,
}
ALL_LABELS = [*LABELS, "untranslated copies", "unknown words"]


def problems(
    source: str, reference: str, output: str, tokenizer: Tokenizer, known: Container[str]
) -> dict[str, Evidence]:
    """Return every label that applies, with its evidence."""
    found = {name: label(source, reference, output) for name, label in LABELS.items()}
    found["untranslated copies"] = copied(source, reference, output, known)
    found["unknown words"] = unknown(source, output, tokenizer)
    return {name: evidence for name, evidence in found.items() if evidence}
