"""Peak memory of one contender, in a process that does nothing else.

    python -m glassformer.bench.peak CONTENDER FOLDER THREADS BEAM LONGEST < sources.json

Prints three numbers of bytes: the interpreter with the contender's libraries, the same with the
model loaded, and the peak while it decoded the same batch `TIMES` times.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from glassformer.bench import engines
from glassformer.bench.engines import Ids

TIMES = 4  # memory may grow after the first batch, as freed blocks do not fit the next


class Memory(NamedTuple):
    """Bytes of one process."""

    libraries: int
    loaded: int
    peak: int


def memory_of(
    name: str, folder: Path, threads: int, sources: Ids, beam: int, longest: int
) -> Memory:
    """Measure a contender that decodes a batch, in a fresh process."""
    numbers = map(str, (threads, beam, longest))
    command = [sys.executable, "-m", __spec__.name, name, str(folder), *numbers]
    done = subprocess.run(
        command, input=json.dumps(sources), stdout=subprocess.PIPE, text=True, check=True
    )
    return Memory(*map(int, done.stdout.split()))


def main() -> None:
    name, folder = sys.argv[1:3]
    threads, beam, longest = map(int, sys.argv[3:])
    sources: Ids = json.load(sys.stdin)
    engines.import_libraries(name)
    libraries = resident("VmRSS")
    decode = engines.load(name, Path(folder), threads)
    loaded = resident("VmRSS")
    decode([sources] * TIMES, beam, longest)
    print(libraries, loaded, resident("VmHWM"))  # noqa: T201  (read by `memory_of`)


def resident(field: str) -> int:
    """Return the bytes in memory now (VmRSS) or at most (VmHWM).

    Not `getrusage`: its maximum starts with that of the process that started this one.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
