"""Cleaning of parallel text: rules that drop a pair, with a count for each.

    length      a side has more than 120 words, or a word of more than 80 characters
    ratio       one side is more than 2.5 times as long as the other, beyond 15 characters
    identical   both sides are the same text of 3 words or more
    mojibake    a side was decoded with the wrong encoding at some point, or has U+FFFD
    numbers     one side has a number of 2 digits or more, the other has no digit
    language    a side looks more like the other side's language, by its characters
    duplicate   the pair came before; case, spaces and punctuation do not count

The language rule compares character trigrams whose log-odds are learned from the text itself.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from math import log
from pathlib import Path

from glassformer.data.corpus import Corpus, Row, own_files

MAX_WORDS, MAX_CHARACTERS = 120, 80  # words of a side, characters of a word
MAX_RATIO, ALLOWANCE = 2.5, 15  # of lengths in characters; the allowance is for short texts
IDENTICAL_WORDS = 3  # shorter texts may be names, or words that both languages have
LEARNED_ROWS = 20_000  # first rows, from which the log-odds of trigrams are learned
CHECKED_CHARACTERS = 25  # shorter texts have too few trigrams to identify a language
MARGIN = 0.5  # mean log-odds per trigram in favour of the other language, in nats

_MOJIBAKE = re.compile(r"\ufffd|[ÃÂ][\u0080-\u00bf]|â€|Ð[\u0080-\u00bf]|ï»¿")
_NUMBER = re.compile(r"\d\d")
_TABS = re.compile(r"[\t\r\n]+")
_NO_WORD = re.compile(r"[\W_]+")


@dataclass
class CleaningReport:
    """The number of pairs read, and dropped by each rule; the first rule that applies counts."""

    rows: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        counts = ", ".join(f"{rule} {n:,}" for rule, n in self.dropped.most_common())
        share = self.dropped.total() / max(1, self.rows)
        kept = f"{self.rows:,} pairs read, {self.dropped.total():,} dropped ({share:.1%})"
        return f"{kept}: {counts}" if counts else kept


class Cleaned:
    """The pairs of `rows` that no rule drops, read anew by each iteration.

    `report` is of the latest iteration. `on_drop` is called with each dropped pair and its rule.
    """

    def __init__(
        self,
        rows: Callable[[], Iterable[Row]],
        on_drop: Callable[[str, Row], None] = lambda rule, row: None,
    ) -> None:
        self.rows, self.on_drop, self.report = rows, on_drop, CleaningReport()

    def __iter__(self) -> Iterator[Row]:
        self.report = report = CleaningReport()
        odds = LanguageOdds.learn(islice(self.rows(), LEARNED_ROWS))
        seen: set[bytes] = set()
        for row in self.rows():
            report.rows += 1
            rule = broken_rule(row, odds)
            if rule is None:
                key = _key(row)
                rule = "duplicate" if key in seen else None
                seen.add(key)
            if rule is None:
                yield row
            else:
                report.dropped[rule] += 1
                self.on_drop(rule, row)


def clean_files(
    files: Sequence[Path],
    columns: Sequence[str],
    output: Path,
    dropped: Path | None = None,
    skip_bad: bool = False,
) -> CleaningReport:
    """Write the pairs of `files` that no rule drops to a TSV file, and the others to `dropped`."""
    corpus = Corpus(own_files(files, columns), skip_bad)
    with ExitStack() as stack:
        others = stack.enter_context(dropped.open("w")) if dropped else None

        def on_drop(rule: str, row: Row) -> None:
            if others is not None:
                others.write(_line((rule, *row)))

        cleaned = Cleaned(lambda: corpus, on_drop)
        kept = stack.enter_context(output.open("w"))
        kept.writelines(map(_line, cleaned))
    return cleaned.report


def _line(row: Row) -> str:
    return "\t".join(_TABS.sub(" ", side) for side in row) + "\n"


def broken_rule(row: Row, odds: "LanguageOdds | None" = None) -> str | None:
    """Return the first rule that a pair breaks by itself, or None."""
    x, y = row[0], row[1]
    if any(_is_too_long(side) for side in (x, y)):
        return "length"
    if max(len(x), len(y)) > MAX_RATIO * min(len(x), len(y)) + ALLOWANCE:
        return "ratio"
    if x.casefold() == y.casefold() and len(x.split()) >= IDENTICAL_WORDS:
        return "identical"
    if _MOJIBAKE.search(x) or _MOJIBAKE.search(y):
        return "mojibake"
    if _is_one_sided(x, y) or _is_one_sided(y, x):
        return "numbers"
    if odds is not None and (odds.favours_second(x) or odds.favours_first(y)):
        return "language"
    return None


def _is_too_long(text: str) -> bool:
    words = text.split()
    return len(words) > MAX_WORDS or max(map(len, words), default=0) > MAX_CHARACTERS


def _is_one_sided(text: str, other: str) -> bool:
    return bool(_NUMBER.search(text)) and not any(map(str.isdecimal, other))


def _key(row: Row) -> bytes:
    plain = "\n".join(_NO_WORD.sub("", side.casefold()) for side in row)
    return blake2b(plain.encode(errors="surrogatepass"), digest_size=8).digest()


class LanguageOdds:
    """Log-odds of the trigrams of characters of two languages; positive favours the first."""

    def __init__(self, odds: dict[str, float]) -> None:
        self.odds = odds

    @classmethod
    def learn(cls, rows: Iterable[Row]) -> "LanguageOdds":
        """Count the trigrams of each side; those that are rare on both are left out."""
        counts: tuple[Counter[str], Counter[str]] = Counter(), Counter()
        for row in rows:
            for count, side in zip(counts, row, strict=False):
                count.update(_trigrams(side))
        totals = [max(1, count.total()) for count in counts]
        common = [g for g in counts[0].keys() | counts[1].keys() if counts[0][g] + counts[1][g] > 4]
        return cls(
            {
                g: log((counts[0][g] + 1) / totals[0]) - log((counts[1][g] + 1) / totals[1])
                for g in common
            }
        )

    def score(self, text: str) -> float:
        """Return the mean log-odds of the trigrams of a text; 0 if it is too short."""
        if len(text) < CHECKED_CHARACTERS:
            return 0.0
        grams = _trigrams(text)
        return sum(self.odds.get(gram, 0.0) for gram in grams) / len(grams)

    def favours_first(self, text: str) -> bool:
        return self.score(text) > MARGIN

    def favours_second(self, text: str) -> bool:
        return self.score(text) < -MARGIN


def _trigrams(text: str) -> list[str]:
    plain = f" {text.casefold()} "
    return [plain[i : i + 3] for i in range(len(plain) - 2)]
