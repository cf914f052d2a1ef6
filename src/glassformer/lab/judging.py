"""What the rules of experiments ask of a summary: on which side of a bound is it, seeds and all?"""

from glassformer.lab.experiment import Summary


def above(summary: Summary, bound: float) -> bool:
    """The whole interval is, and no run failed: what failed is in no interval."""
    return summary.failed == 0 and summary.low > bound


def below(summary: Summary, bound: float) -> bool:
    return summary.failed == 0 and summary.high < bound
