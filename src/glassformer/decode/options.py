"""Options of a search, and its result."""

from dataclasses import dataclass
from math import inf

from glassformer.errors import SettingsError

MIN_TEMPERATURE = 1e-4  # logits divided by less overflow a float
SAMPLING_OPTIONS = ("temperature", "top_k", "top_p", "seed")


@dataclass(frozen=True)
class SearchOptions:
    """How to search for an answer. A beam of one is greedy search."""

    beam_size: int = 5
    n_best: int = 1
    length_penalty: float = 0.6  # alpha: 0 compares plain log-probabilities, more favours length
    min_length: int = 0  # tokens, the end mark not counted
    max_length: int | None = None  # None: source length + 50, as in the paper (§6.1)
    no_repeat_ngram: int = 0  # no n-gram of this many tokens twice; 0: no such rule
    repetition_penalty: float = 1.0  # factor on the log-probability of tokens in the output so far

    sample: bool = False  # draw tokens at random instead of taking the most likely
    temperature: float = 1.0
    top_k: int = 0  # draw from the k most likely tokens; 0: from all
    top_p: float = 1.0  # draw from the fewest tokens whose probabilities sum to p
    seed: int = 0

    def __post_init__(self) -> None:
        _require(self.beam_size >= 1, "beam_size", self.beam_size, "at least 1")
        _require(self.n_best >= 1, "n_best", self.n_best, "at least 1")
        _require(
            abs(self.length_penalty) <= 100,
            "length_penalty",
            self.length_penalty,
            "a number from -100 to 100: larger powers overflow a float",
        )
        _require(self.min_length >= 0, "min_length", self.min_length, "at least 0")
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
        if self.max_length is not None:
            low = max(1, self.min_length)
            _require(self.max_length >= low, "max_length", self.max_length, f"at least {low}")
        if not self.sample:
            rule = f"at most beam_size, {self.beam_size}: a beam finds no more hypotheses"
            _require(self.n_best <= self.beam_size, "n_best", self.n_best, rule)
            for name in SAMPLING_OPTIONS:  # they would be ignored
                given, remedy = getattr(self, name), f"Add sample=True, or leave {name} out."
                is_default = given == getattr(SearchOptions, name)
                _require(is_default, name, given, "an option of sampling", remedy)

    @property
    def width(self) -> int:
        """Number of hypotheses per sentence."""
        return self.n_best if self.sample else self.beam_size


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


def penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^α: Equation 14 of Wu et al. (2016), which the paper decodes with."""
    return float(((5 + length) / 6) ** alpha)
