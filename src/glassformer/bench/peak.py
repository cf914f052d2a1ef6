"""The most memory that one engine takes, in a process that does nothing else.

    python -m glassformer.bench.peak ENGINE FOLDER THREADS BEAM SHORTEST LONGEST < sources.json

Prints three numbers of bytes: the interpreter with the engine's libraries, the same with the model
loaded, and the most there ever was while it decoded the same batch a few times: with holes where
the first one was, some engines take more for the next.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from glassformer.bench import engines
from glassformer.bench.engines import Ids, Lengths

TIMES = 4


class Memory(NamedTuple):
    """Bytes of one process."""

    interpreter: int
    loaded: int
    peak: int

    @property
    def own(self) -> int:
        """What the engine adds to its interpreter."""
        return self.peak - self.interpreter


def memory_of(
    name: str, folder: Path, threads: int, sources: Ids, beam: int, lengths: Lengths
) -> Memory:
    """Of an engine that decodes a batch, in a fresh process."""
    numbers = map(str, (threads, beam, *lengths))
    command = [sys.executable, "-m", __spec__.name, name, str(folder), *numbers]
    done = subprocess.run(
        command, input=json.dumps(sources), stdout=subprocess.PIPE, text=True, check=True
    )
    return Memory(*map(int, done.stdout.split()))


def main() -> None:
    name, folder = sys.argv[1:3]
    threads, beam, shortest, longest = map(int, sys.argv[3:])
    sources: Ids = json.load(sys.stdin)
    engines.libraries(name)
    interpreter = resident("VmRSS")
    if engines.needs_torch(name):
        import torch

        torch.set_num_threads(threads)
    engine = engines.load(name, Path(folder), threads)
    loaded = resident("VmRSS")
    for _ in range(TIMES):
        engine(sources, beam, Lengths(shortest, longest))
    print(interpreter, loaded, resident("VmHWM"))  # noqa: T201  (to the process that asked)


def resident(field: str) -> int:
    """Bytes in memory now (VmRSS) or at most (VmHWM).

    Not `getrusage`: its maximum begins with that of the process that started this one.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
