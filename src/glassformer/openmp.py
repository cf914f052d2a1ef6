"""How torch's threads wait for each other on a CPU, set before torch is imported.

OpenMP's threads spin where they wait, about a millisecond, before they sleep. On a machine with
other work a spinning thread holds the core that the awaited one needs. `glassformer bench busy`
measures ways of waiting.
"""

import os

SPINS = 1_000  # turns of the waiting loop, some µs: enough for threads that end together
VARIABLES = {"GOMP_SPINCOUNT": str(SPINS)}
CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")  # by which a user has chosen already


def share_cores() -> None:
    """Let threads that wait give their core away soon, unless the environment says how to wait.

    It has no effect on a process that has imported torch.
    """
    if not any(name in os.environ for name in CHOICES):
        os.environ.update(VARIABLES)
