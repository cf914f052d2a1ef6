"""A process that trains for some seconds on request, and prints its speed.

    python -m glassformer.bench.busy_worker THREADS BATCH_TOKENS

Each line on standard input is a number of seconds; each answer is a line with the target tokens
per second. Under torchrun's variables several processes share the updates, and the first one
answers.
"""

import sys
from time import perf_counter

import numpy as np
import torch

from glassformer.config import ModelSettings
from glassformer.data.batch import Batch, Examples
from glassformer.data.ragged import Ragged
from glassformer.data.tokenizer import UNK
from glassformer.model.build import build
from glassformer.train.distributed import World, spread, world
from glassformer.train.optimizer import build_optimizers
from glassformer.train.step import Objective, train_step

# The model of `glassformer demo` on sentences as long as those of its grammar.
MODEL = ModelSettings(
    vocab_size=2_000, d_model=128, d_ff=256, encoder_layers=2, decoder_layers=2, dropout=0.0
)
LENGTHS = 8, 16  # tokens of a sentence, the last one excluded
WARM_UP = 3  # updates before the first measurement


class Worker:
    """A model in training on random tokens."""

    def __init__(self, own: World, batch_tokens: int) -> None:
        torch.manual_seed(0)
        model = build(MODEL)
        self.world = own
        self.objective = spread(Objective(model, 0.1), own, fully_shard=False)
        self.optimizers = build_optimizers(model, "muon", 1e-3, 0.02, 0.01, (0.9, 0.98))
        self.batch = random_batch(batch_tokens // own.size, seed=own.rank)
        for _ in range(WARM_UP):
            self.update()

    def update(self) -> int:
        """Make one update; return its labels, over all processes."""
        made = train_step(self.objective, self.optimizers, [self.batch], [0], 1.0, 1.0, self.world)
        return made.labels

    def speed(self, seconds: float) -> float:
        """Train for `seconds` and return target tokens per second."""
        labels, begin = 0, perf_counter()
        while not self.world.any(self.world.leads and perf_counter() - begin >= seconds):
            labels += self.update()
        return labels / (perf_counter() - begin)


def random_batch(tokens: int, seed: int) -> Batch:
    random = np.random.default_rng(seed)
    low, high = LENGTHS
    count = tokens // high
    sides = [
        Ragged.of([random.integers(UNK + 1, MODEL.vocab_size, n).tolist() for n in lengths])
        for lengths in random.integers(low, high, (2, count))
    ]
    return Examples(MODEL.kind, tuple(sides)).batch(np.arange(count))


def main() -> None:
    """Answer the lines of the first process's standard input until it ends."""
    threads, batch_tokens = map(int, sys.argv[1:])
    torch.set_num_threads(threads)
    with world() as own:
        worker = Worker(own, batch_tokens)
        while True:
            line = sys.stdin.readline() if own.leads else ""
            (seconds,) = own.sum(float(line) if line.strip() else 0.0)
            if not seconds:
                break
            speed = worker.speed(seconds)
            if own.leads:
                sys.stdout.write(f"{speed}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
