"""How torch's threads wait for each other on a CPU, set before torch is imported.

A thread of GNU OpenMP turns 300,000 times in a loop where it waits, before it sleeps. On a machine
with other work it holds the core that the awaited thread needs. `glassformer bench busy` measures
ways of waiting.
"""

import os

SPINS = 1_000  # turns of the waiting loop, for threads that end at almost the same time
VARIABLES = {"GOMP_SPINCOUNT": str(SPINS)}
CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")  # by which a user has chosen already


def share_cores() -> None:
    """Let threads that wait give their core away soon, unless the environment says how to wait.

    It has no effect on a process that has imported torch.
    """
    if not any(name in os.environ for name in CHOICES):
        os.environ.update(VARIABLES)
