"""An engine in a process of its own.

Each library brings its own copy of OpenMP. In one process the threads of one slow the other down,
to half its speed and less, even while it waits; in two they take turns fairly.
"""

from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from glassformer.bench import engines
from glassformer.bench.engines import Ids, Lengths


class Alone:
    """An `Engine`: what it is asked goes through a pipe, and the answer comes back."""

    def __init__(self, name: str, folder: Path, threads: int) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, name, folder, threads))
        self._process.start()
        theirs.close()  # so that reading ends when the process does
        self._pipe.recv()  # it is loaded

    def __call__(self, sources: Ids, beam: int, lengths: Lengths) -> Ids:
        self._pipe.send((sources, beam, lengths))
        said: Ids = self._pipe.recv()
        return said

    def close(self) -> None:
        self._pipe.close()
        self._process.join()


def _serve(pipe: Connection, name: str, folder: Path, threads: int) -> None:
    if engines.needs_torch(name):
        import torch

        torch.set_num_threads(threads)
    engine = engines.load(name, folder, threads)
    pipe.send("ready")
    while True:
        try:
            asked = pipe.recv()
        except EOFError:  # nobody will ask any more
            return
        pipe.send(engine(*asked))
