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
from glassformer.machine import peak_memory, resident_memory

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
        command,
        input=json.dumps(sources),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        start_new_session=True,  # Ctrl-C ends it without a traceback of its own
    )
    return Memory(*map(int, done.stdout.split()))


def main() -> None:
    name, folder = sys.argv[1:3]
    threads, beam, longest = map(int, sys.argv[3:])
    sources: Ids = json.load(sys.stdin)
    engines.import_libraries(name)
    libraries = resident_memory()
    decode = engines.load(name, Path(folder), threads)
    loaded = resident_memory()
    decode([sources] * TIMES, beam, longest)
    print(libraries, loaded, peak_memory())  # noqa: T201  (read by `memory_of`)


if __name__ == "__main__":
    main()
