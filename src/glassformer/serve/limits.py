"""Limits of the server: sizes, numbers and times beyond which it refuses."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The largest values of a request, and of all requests together."""

    body: int = 2**20  # bytes of a request
    characters: int = 100_000  # of all texts of a request: some 40 pages
    texts: int = 1_000  # of a request
    alternatives: int = 9  # of a translation: with the best one, a beam of 10
    new_tokens: int = 2_048  # of a continuation
    choices: int = 16  # continuations of a request
    queue: int = 4_096  # sentences and texts that wait: about a minute of work on two cores
    waiting: int = 64  # continuations and traces that wait, each
    streams: int = 4  # continuations that are written at once
    deadline: float = 60.0  # seconds that a request may take
    reading: float = 15.0  # seconds in which a body must arrive
    stopping: int = 70  # seconds that a server which was told to stop waits for its last answers
    connections: int = 1_024  # open at once; a system lends a process about as many files
    trace_weights: int = 24_000_000  # attention weights of a trace: 48 MB, 512 tokens of `en-fr`
