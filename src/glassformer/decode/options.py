"""What a search is asked for, and what it answers."""

from dataclasses import dataclass
from math import inf

from glassformer.errors import SettingsError

COLDEST = 1e-4  # of temperatures: logits over less leave what a float holds
OF_SAMPLING = ("temperature", "top_k", "top_p", "seed")


@dataclass(frozen=True)
class SearchOptions:
    """How to look for an answer. A beam of one is greedy search."""

    beam_size: int = 5
    n_best: int = 1
    length_penalty: float = 0.6  # alpha: 0 compares plain probabilities, more favours length
    min_length: int = 0  # tokens, the end mark not counted
    max_length: int | None = None  # None: the source's length + 50, as in the paper (§6.1)
    no_repeat_ngram: int = 0  # no run of this many tokens twice; 0: never mind
    repetition_penalty: float = 1.0  # of tokens said already: their log-probability times this

    sample: bool = False  # draw tokens instead of searching for the likeliest
    temperature: float = 1.0
    top_k: int = 0  # draw from the k likeliest; 0: from all
    top_p: float = 1.0  # draw from the fewest whose probabilities reach p
    seed: int = 0

    def __post_init__(self) -> None:
        _require(self.beam_size >= 1, "beam_size", self.beam_size, "at least 1")
        _require(self.n_best >= 1, "n_best", self.n_best, "at least 1")
        _require(
            abs(self.length_penalty) <= 100,
            "length_penalty",
            self.length_penalty,
            "a number from -100 to 100: powers beyond leave what a float holds",
        )
        _require(self.min_length >= 0, "min_length", self.min_length, "at least 0")
        _require(self.no_repeat_ngram >= 0, "no_repeat_ngram", self.no_repeat_ngram, "at least 0")
        _require(
            1 <= self.repetition_penalty < inf,
            "repetition_penalty",
            self.repetition_penalty,
            "at least 1, which is none",
        )
        _require(
            COLDEST <= self.temperature < inf,
            "temperature",
            self.temperature,
            f"a number of at least {COLDEST}, where the likeliest is as good as certain",
        )
        _require(self.top_k >= 0, "top_k", self.top_k, "at least 0, which is all")
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "above 0 and at most 1")
        if self.max_length is not None:
            low = max(1, self.min_length)
            _require(self.max_length >= low, "max_length", self.max_length, f"at least {low}")
        if not self.sample:
            most = f"at most beam_size, {self.beam_size}: a beam ends in no more hypotheses"
            _require(self.n_best <= self.beam_size, "n_best", self.n_best, most)
            for name in OF_SAMPLING:  # which would be passed over
                given, remedy = getattr(self, name), f"Add sample=True, or leave {name} out."
                plain = given == getattr(SearchOptions, name)
                _require(plain, name, given, "for what is drawn at random", remedy)

    @property
    def width(self) -> int:
        """Hypotheses of a sentence, side by side."""
        return self.n_best if self.sample else self.beam_size


def _require(fine: bool, name: str, value: object, rule: str, remedy: str = "") -> None:
    if not fine:
        raise SettingsError(
            f"{name} = {value!r} cannot be searched with.",
            f"It is {rule}.",
            remedy or f"Change {name}.",
        )


@dataclass(frozen=True)
class Hypothesis:
    """One answer, without the marks of beginning and end."""

    ids: list[int]
    log_probability: float  # of all its tokens, the end mark too if it was said
    score: float  # the log-probability over the length penalty: what answers are ranked by
    complete: bool  # False: cut off at its greatest length before the end mark


def penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^α: Equation 14 of Wu et al. (2016), which the paper decodes with."""
    return float(((5 + length) / 6) ** alpha)
