"""The best score so far, and when to stop waiting for a better one."""

from dataclasses import dataclass
from math import isfinite

HIGHER_IS_BETTER = {"loss": False, "bleu": True, "accuracy": True}


def higher_is_better(metric: str) -> bool:
    """Return whether a larger score is better; it is of every registered metric."""
    return HIGHER_IS_BETTER.get(metric, True)


@dataclass
class EarlyStopping:
    metric: str
    patience: int | None = None
    best: float | None = None
    waited: int = 0  # validations since the best

    def restore(self, metric: str, patience: int | None, best: float | None, waited: int) -> None:
        """Go on from an earlier state, with today's patience, if it watched the same metric."""
        if metric == self.metric:
            self.best = best if best is not None and isfinite(best) else None
            self.waited = waited

    def better(self, score: float) -> bool:
        """Take a validation's score; return whether it is the best so far. NaN never is."""
        sign = 1 if higher_is_better(self.metric) else -1
        if isfinite(score) and (self.best is None or sign * score > sign * self.best):
            self.best, self.waited = score, 0
            return True
        self.waited += 1
        return False

    def reached(self, target: float) -> bool:
        """Is the best so far as good as this?"""
        sign = 1 if higher_is_better(self.metric) else -1
        return self.best is not None and sign * self.best >= sign * target

    @property
    def should_stop(self) -> bool:
        return self.patience is not None and self.waited >= self.patience
