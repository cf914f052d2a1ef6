"""Toy campaigns, apart from the tests: their processes start without torch."""

import os
from pathlib import Path
from time import sleep

from glassformer.bench.faults.campaign import Campaign, Result, Trial


def toy(folder: Path) -> Trial:
    """Hold, lose, raise, die, hang, hold: one of each."""

    def trial(seed: int) -> Result:
        match seed % 10:
            case 1:
                return Result(3, ("one of three",), figures=(("things", 2),))
            case 2:
                raise KeyError("an unexpected key")
            case 3:
                os.abort()
            case 4:
                sleep(600)
        return Result(figures=(("things", 1),))

    return trial


TOY = Campaign("toy", toy, trials=6, quick=2, seconds=3.0)


def greedy(folder: Path) -> Trial:
    """Take 8 GB, which no trial needs."""
    return lambda seed: Result(len(bytearray(8 << 30)))


GREEDY = Campaign("greedy", greedy, trials=1, quick=1, seconds=60.0, memory=1 << 28)
