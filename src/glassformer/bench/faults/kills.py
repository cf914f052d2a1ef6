"""Campaign `kills`: SIGKILL at random moments of training and saving, then `--resume`.

A chain is one run that is killed and resumed until it ends. It must end with the bits, the log and
the files of a run that nothing interrupted: a real `glassformer train`, or `torchrun`, in processes
of their own.

The processes that are killed are forks of one that has imported torch and computed nothing. Each
starts in milliseconds instead of seconds, and shares nothing else with those before it: no threads,
no random state, no open file. Its hash seed is not that of the reference. Two ranks get the
environment that `torchrun` gives them. One is killed, the other gets SIGTERM, as `torchrun` does.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

from glassformer.api.run import Job, carry_out
from glassformer.bench.faults.campaign import Campaign, Result, Trial
from glassformer.checkpoint import RunFolder
from glassformer.checkpoint.format import PARTIAL
from glassformer.config import RunSettings
from glassformer.data import grammar
from glassformer.errors import CheckpointError
from glassformer.train.log import read as read_log
from glassformer.train.verify import different_tensors

MOST_KILLS = 8  # of a chain; the run then ends undisturbed
HUNG = 120.0  # s: a run of these takes one or two
TERMINATION = 30.0  # s that torchrun gives a rank to end after SIGTERM
DELAYS = (0.6, 0.01, 0.1)  # s, at most: after the start, the begin of a save, and its end
CLOCK = ("seconds", "labels_per_second")  # of a log record: not the same in any two runs

TINY = RunSettings.of(
    model={"d_model": 16, "n_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1,
           "dropout": 0.2},
    data={"name": "copy", "examples": 200, "valid_examples": 12, "symbols": 5, "longest": 6,
          "batch_tokens": 64},
    train={"threads": 1, "max_steps": 40, "warmup": 4, "learning_rate": 0.01, "log_every": 1,
           "validate_every": 2, "keep": 2},
)  # fmt: skip
VARIANTS = ("plain", "sampling", "mixture", "averaging", "two ranks")


def variant(name: str, folder: Path) -> RunSettings:
    """Return the settings of a variant; files of text are in `folder`."""
    text = {"name": "files", "batch_tokens": 96}
    text |= {split: [str(folder / f"{split}.{side}") for side in "ab"] for split in SPLITS}
    mixed = {
        "name": "mixture", "epoch_tokens": 600, "batch_tokens": 128, "directions": "both",
        "byte_fallback": True, "normalization": "identity",
        "noise": {"lower": 0.2, "joined": 0.2, "copied": 0.3},
        "sources": [{"name": n, "files": text["train"], "weight": 1} for n in ("one", "other")],
        "valid_sets": [{"name": "valid", "files": text["valid"]}],
    }  # fmt: skip
    changes: dict[str, dict[str, Any]] = {
        "plain": {},
        "sampling": {"model": {"vocab_size": 80}, "data": text | {"subword_sampling": 0.3}},
        "mixture": {"model": {"vocab_size": 420}, "data": mixed},
        "averaging": {"train": {"ema": 0.8, "optimizer": "muon"}},
        "two ranks": {"train": {"ema": 0.8}},
    }
    own_data = "data" in changes[name]
    base = RunSettings(model=TINY.model, train=TINY.train) if own_data else TINY
    return base.replace(**changes[name])


SPLITS = {"train": 200, "valid": 12}  # pairs of the grammar


def write_text(folder: Path) -> None:
    for split, count in SPLITS.items():
        pairs = list(grammar.pairs(split, count))
        sides = {"a": [pair.source for pair in pairs], "b": [pair.target for pair in pairs]}
        for side, lines in sides.items():
            (folder / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines))


def begin(folder: Path) -> Trial:
    """Import all that a training imports; carry out a chain of kills for each seed."""
    import glassformer.evaluate.validation
    import glassformer.train.loop
    import glassformer.train.start  # noqa: F401

    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")  # of the data; nothing is compiled
    write_text(folder)

    def trial(seed: int) -> Result:
        name = VARIANTS[seed % len(VARIANTS)]
        settings, ranks = variant(name, folder), 2 if name == "two ranks" else 1
        reference = folder / f"reference-{name.replace(' ', '-')}"
        if not reference.exists():
            train_undisturbed(settings, reference, ranks)
        return Chain(settings, folder / f"run-{seed}", ranks, Random(seed)).outcome(name, reference)

    return trial


def train_undisturbed(settings: RunSettings, folder: Path, ranks: int) -> None:
    """Train by the command line, in new processes."""
    recipe = folder.with_suffix(".toml")
    recipe.write_text(settings.to_toml())
    launcher = ["torch.distributed.run", "--nproc-per-node", str(ranks)]
    launcher += ["--master-addr", "127.0.0.1", "--master-port", str(free_port()), "-m", "--"]
    command = ["glassformer", "train", str(recipe), "--run", str(folder)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OMP_NUM_THREADS": "1",
    }
    subprocess.run(
        [sys.executable, "-P", "-m", *(launcher if ranks > 1 else []), *command],
        env=environment, check=True, capture_output=True, timeout=HUNG,
    )  # fmt: skip


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Chain:
    """A run that is killed and resumed until it has ended."""

    def __init__(self, settings: RunSettings, folder: Path, ranks: int, random: Random) -> None:
        self.settings, self.folder, self.ranks, self.random = settings, folder, ranks, random
        self.kills = self.half_written = 0
        self._left: set[str] = set()  # written by processes that were killed

    def outcome(self, name: str, reference: Path) -> Result:
        """Carry out the chain and compare its end with the reference."""
        lost: list[str] = []
        hung: list[str] = []
        try:
            problem = self._carry_out()
        except TimeoutError:
            hung.append(f"{name}: a run did not end within {HUNG:g} s, after {self.kills} kills")
        else:
            different = [problem] if problem else list(differences(reference, self.folder))
            lost += [f"{name}, {self.kills} kills: {one}" for one in different[:1]]
        figures = (("chains", 1), ("kills that left half a checkpoint", self.half_written))
        tried = max(1, self.kills)
        return Result(tried, tuple(lost), tuple(hung), figures)

    def _carry_out(self) -> str | None:
        """Return the error of a process that ended otherwise than by a kill, if one did."""
        while True:
            processes = self._start()
            try:
                if self.kills < MOST_KILLS and self._wait_for_moment(processes):
                    self._kill(processes)
                    continue
                join(processes, HUNG)
            finally:
                for process in processes:
                    process.kill()
            codes = [process.exitcode for process in processes]
            return None if codes == [0] * self.ranks else f"it ended with exit codes {codes}"

    def _start(self) -> list[BaseProcess]:
        resume, port = bool(RunFolder(self.folder).steps()), free_port()
        self._left = self._half_written()
        fork = get_context("fork")
        started: list[BaseProcess] = [
            fork.Process(target=_train, args=(self.settings, self.folder, resume, world))
            for world in worlds(self.ranks, port)
        ]
        for process in started:
            process.start()
        return started

    def _wait_for_moment(self, processes: list[BaseProcess]) -> bool:
        """Wait for the moment of a kill; return whether all processes still run then.

        A third of the moments are soon after the start, a third of them soon after a checkpoint was
        saved, and a third of them while one is written.
        """
        before, deadline = self._newest(), monotonic() + HUNG
        moment = self.random.randrange(3)
        while moment and all(process.is_alive() for process in processes):
            writes = self._half_written() - self._left
            is_time = writes if moment == 1 else self._newest() != before
            if is_time:
                break
            if monotonic() > deadline:
                raise TimeoutError
            sleep(0.0005)
        sleep(self.random.uniform(0, DELAYS[moment]))
        return all(process.is_alive() for process in processes)

    def _half_written(self) -> set[str]:
        return {path.name for path in self.folder.glob(f"{PARTIAL}*")}

    def _newest(self) -> str | None:
        return max((path.name for path in RunFolder(self.folder).steps()), default=None)

    def _kill(self, processes: list[BaseProcess]) -> None:
        """Kill one process, and end the others as torchrun does."""
        victim = self.random.choice(processes)
        victim.kill()
        for process in processes:
            if process is not victim:
                process.terminate()
                process.join(TERMINATION)
                process.kill()
        join(processes, HUNG)
        self.kills += 1
        self.half_written += bool(self._half_written() - self._left)


def join(processes: list[BaseProcess], seconds: float) -> None:
    for process in processes:
        process.join(seconds)
        if process.exitcode is None:
            raise TimeoutError


def worlds(ranks: int, port: int) -> Iterator[dict[str, str]]:
    """Yield the environment that torchrun gives each rank; none to a process alone."""
    for rank in range(ranks):
        yield {} if ranks == 1 else {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        }  # fmt: skip


def _train(settings: RunSettings, folder: Path, resume: bool, world: dict[str, str]) -> None:
    """Train in this process, which was just forked."""
    os.environ.update(world)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    done = carry_out(Job(settings, folder, resume, progress=False))
    sys.exit(done.exit_code)


def differences(reference: Path, run: Path) -> Iterator[str]:
    """Yield each thing in which a run that has ended differs from the reference."""
    names = [sorted(path.name for path in folder.iterdir()) for folder in (reference, run)]
    if names[0] != names[1]:
        yield f"the files are {names[1]}, not {names[0]}"
    try:
        one, other = (RunFolder(folder).newest(_unexpected) for folder in (reference, run))
    except CheckpointError as error:
        yield error.what
        return
    if tensors := different_tensors(one, other):
        yield f"{len(tensors)} tensors differ, {tensors[0]} among them"
    states = [c.training.values if c.training else {} for c in (one, other)]
    for state in states:
        state["position"].pop("seconds")
    if states[0] != states[1]:
        yield f"the state is {states[1]}, not {states[0]}"
    logs = [[_timeless(r) for r in read_log(folder / "log.jsonl")] for folder in (reference, run)]
    if logs[0] != logs[1]:
        yield f"the log has {len(logs[1])} records, not the {len(logs[0])} of the reference"
    best = [(folder / "best").readlink() for folder in (reference, run)]
    if best[0] != best[1]:
        yield f"the best is {best[1]}, not {best[0]}"


def _unexpected(notice: str) -> None:
    raise CheckpointError(notice, "Every checkpoint of a run that has ended is whole.", "")


def _timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in CLOCK}


CAMPAIGN = Campaign("kills", begin, trials=15, quick=5, seconds=20 * HUNG)
