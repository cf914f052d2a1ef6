"""The learning rate as a function of the step: a factor between 0 and 1 on the peak rate.

Every schedule climbs linearly over the warm-up and is at its peak when it ends.
"""

from collections.abc import Callable
from math import cos, pi, sqrt

from glassformer.registry import find

Schedule = Callable[[int, int, int], float]


def inverse_sqrt(step: int, warmup: int, total: int) -> float:
    """√(warmup / step): Equation 3 of the paper, up to the constant that is the peak rate."""
    return sqrt(warmup / step)


def cosine(step: int, warmup: int, total: int) -> float:
    """Half a cosine down to 0 at the last step."""
    return (1 + cos(pi * _progress(step, warmup, total))) / 2


def linear(step: int, warmup: int, total: int) -> float:
    """A straight line down to 0 at the last step."""
    return 1 - _progress(step, warmup, total)


def constant(step: int, warmup: int, total: int) -> float:
    """The peak rate throughout."""
    return 1.0


def trapezoid(step: int, warmup: int, total: int, decay_share: float = 0.2) -> float:
    """The peak rate, then a straight line down to 0 over the last `decay_share` of the run.

    A run can be continued at the peak rate from any checkpoint before its decay.
    """
    if step <= warmup:
        return 1.0
    return min(1.0, max(0.0, (total - step) / max(1.0, decay_share * total)))


def _progress(step: int, warmup: int, total: int) -> float:
    return min(1.0, (step - warmup) / max(1, total - warmup))


SCHEDULES: dict[str, Schedule] = {
    "inverse-sqrt": inverse_sqrt,
    "cosine": cosine,
    "linear": linear,
    "constant": constant,
    "trapezoid": trapezoid,
}
FALLING = ("cosine", "linear", "trapezoid")  # that end with the last step, and so must know it


def factor(name: str, step: int, warmup: int, total: int, decay_share: float = 0.2) -> float:
    """The factor of update number `step`, which counts from 1."""
    if step < warmup:
        return step / warmup
    if name == "trapezoid":
        return trapezoid(step, warmup, total, decay_share)
    schedule: Schedule = find("schedule", name, SCHEDULES)
    return schedule(step, max(1, warmup), total)


def paper_peak(d_model: int, warmup: int) -> float:
    """The peak rate of Equation 3: d_model^-0.5 · warmup^-0.5."""
    return 1 / sqrt(d_model * warmup)
