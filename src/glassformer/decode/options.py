"""Options of a search, and its result."""

from dataclasses import dataclass
from math import inf

from glassformer.errors import SettingsError

MIN_TEMPERATURE = 1e-4  # logits divided by less overflow a float
# Hypotheses of a sentence. The time of a step grows with the cube of it: with 256 a short sentence
# takes a second, with 5,000 an hour. Quality falls long before (Koehn and Knowles, 2017).
MAX_BEAM = 256
MAX_SAMPLES = 4_096  # answers drawn for a sentence: each takes a row of the whole vocabulary
# Tokens of an answer. Its time grows with the square of it: 4,096 with a beam of 5 take minutes.
MAX_LENGTH = 4_096
# No translation of Multi30k's 29,000 training pairs is longer than 2 · source + 10 subwords.
COUNTED_FACTOR, COUNTED_MORE = 2, 10
SAMPLING_OPTIONS = ("temperature", "top_k", "top_p", "seed")


@dataclass(frozen=True)
class SearchOptions:
    """How to search for an answer. A beam of one is greedy search."""

    beam_size: int = 5
    n_best: int = 1
    length_penalty: float = 0.6  # alpha: 0 compares plain log-probabilities, more favours length
    min_length: int = 0  # tokens, the end mark not counted
    max_length: int | None = None  # tokens; None: source length + 50, as in the paper (§6.1)
    no_repeat_ngram: int = 0  # no n-gram of this many tokens twice; 0: no such rule
    repetition_penalty: float = 1.0  # factor on the log-probability of tokens in the output so far

    sample: bool = False  # draw tokens at random instead of taking the most likely
    temperature: float = 1.0
    top_k: int = 0  # draw from the k most likely tokens; 0: from all
    top_p: float = 1.0  # draw from the fewest tokens whose probabilities sum to p
    seed: int = 0

    def __post_init__(self) -> None:
        self._check_sizes()
        _require(
            abs(self.length_penalty) <= 100,
            "length_penalty",
            self.length_penalty,
            "a number from -100 to 100: larger powers overflow a float",
        )
        _require(self.no_repeat_ngram >= 0, "no_repeat_ngram", self.no_repeat_ngram, "at least 0")
        _require(
            1 <= self.repetition_penalty < inf,
            "repetition_penalty",
            self.repetition_penalty,
            "at least 1, which is no penalty",
        )
        _require(
            MIN_TEMPERATURE <= self.temperature < inf,
            "temperature",
            self.temperature,
            f"a number of at least {MIN_TEMPERATURE}, which draws the most likely token",
        )
        _require(self.top_k >= 0, "top_k", self.top_k, "at least 0, which is all tokens")
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "above 0 and at most 1")
        if not self.sample:
            for name in SAMPLING_OPTIONS:  # they would be ignored
                given, remedy = getattr(self, name), f"Add sample=True, or leave {name} out."
                is_default = given == getattr(SearchOptions, name)
                _require(is_default, name, given, "an option of sampling", remedy)

    def _check_sizes(self) -> None:
        """Refuse numbers that a search takes hours or too much memory for."""
        wide = "the time of a step grows with the cube of the width"
        many = "each sample takes a row of the whole vocabulary"
        long = "the time of an answer grows with the square of its length"
        limits = {
            "beam_size": (1, MAX_BEAM, wide),
            "n_best": (1, MAX_SAMPLES if self.sample else MAX_BEAM, many if self.sample else wide),
            "min_length": (0, MAX_LENGTH, long),
            "max_length": (max(1, self.min_length), MAX_LENGTH, long),
        }
        for name, (least, most, why) in limits.items():
            value = getattr(self, name)
            if value is not None:
                _require(value >= least, name, value, f"at least {least}")
                remedy = f"Set {name} to at most {most}."
                _require(value <= most, name, value, f"at most {most:,}: {why}", remedy)
        if not self.sample:
            rule = f"at most beam_size, {self.beam_size}: a beam finds no more hypotheses"
            _require(self.n_best <= self.beam_size, "n_best", self.n_best, rule)

    @property
    def width(self) -> int:
        """Number of hypotheses per sentence."""
        return self.n_best if self.sample else self.beam_size

    def counted_length(self, source_length: int | None) -> float:
        """Return the greatest length of an answer, in tokens, that the length penalty counts.

        It is twice the source's and ten more, or `min_length` if that is more. A language model,
        with None, has no source: every token counts, up to `max_length`.
        """
        if source_length is None:
            return inf
        return max(COUNTED_FACTOR * source_length + COUNTED_MORE, self.min_length)


def _require(fine: bool, name: str, value: object, rule: str, remedy: str = "") -> None:
    if not fine:
        raise SettingsError(
            f"{name} = {value!r} is not a valid search option.",
            f"It is {rule}.",
            remedy or f"Change {name}.",
        )


@dataclass(frozen=True)
class Hypothesis:
    """One answer, without begin and end marks."""

    ids: list[int]
    log_probability: float  # sum over its tokens, the end mark included if there is one
    score: float  # log-probability / length penalty: answers are ranked by it
    complete: bool  # False: cut off at the length limit before the end mark


def penalty(length: int, alpha: float, counted: float = inf) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^α: Equation 14 of Wu et al. (2016), which the paper decodes with.

    It grows up to the length `counted`. A translation that is longer can only lose by more tokens,
    so a search ends, and endless repetition does not win with a large α.
    """
    return float(((5 + min(length, counted)) / 6) ** alpha)
