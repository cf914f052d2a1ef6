"""Two processes do what one does with the same global batch, and take over from each other."""

import shutil
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from glassformer.checkpoint import sole_writer
from glassformer.data.prepare import Prepared, prepare
from glassformer.errors import CheckpointError, DataError
from glassformer.train.distributed import ALONE, World, like, spread, whole, world
from train.runs import RECIPE, child, curve, latest, records, text, tiny, trained

STEPS, STOP = 10, 5
SETTINGS: dict[str, Any] = {
    "model": {"dropout": 0.2},
    "train": {"max_steps": STEPS, "ema": 0.7, "validate_every": 4},
}
CHANGES = ["model.dropout=0.2", f"train.max_steps={STEPS}", "train.ema=0.7"]
TOLERANCE = {"rtol": 0, "atol": 1e-4}


def data(accumulate: int, fully_shard: bool = False) -> Prepared:
    train = SETTINGS["train"] | {"accumulate": accumulate, "fully_shard": fully_shard}
    return tiny(**SETTINGS | {"train": train})


def two_processes(folder: Path) -> None:
    """Carry out the part of each of two processes, all in one launch."""
    with world() as processes:
        for name, sharded in {"ddp": False, "fsdp": True}.items():
            shared = data(1, sharded)
            trained(shared, folder / f"{name}-whole", world=processes)
            trained(shared, folder / f"{name}-stopped", stop=STOP, world=processes)
            trained(shared, folder / f"{name}-from-one", resume=True, world=processes)
            trained(shared, folder / f"{name}-again", stop=STOP, world=processes)
            trained(shared, folder / f"{name}-again", resume=True, world=processes)
        drawn = processes.first_alone(lambda: sampled(folder, 1))  # it writes the text first
        trained(drawn, folder / "sampled-two", world=processes)
        second_writer(processes, folder / "locked")


def second_writer(processes: World, folder: Path) -> None:
    """Take one lock twice; leave the code that each process ends with in a file."""
    with ExitStack() as stack:
        for _ in range(2):
            try:
                processes.lead(lambda: stack.enter_context(sole_writer(folder, print)))
            except (CheckpointError, SystemExit) as end:
                code = end.exit_code if isinstance(end, CheckpointError) else end.code
                (folder.parent / f"{type(end).__name__}-{processes.rank}").write_text(str(code))


def sampled(folder: Path, accumulate: int) -> Prepared:
    """Text whose subwords are drawn anew in each epoch."""
    sections = {
        "model": SETTINGS["model"],
        "data": {"subword_sampling": 0.3, "batch_tokens": 96},
        "train": SETTINGS["train"] | {"accumulate": accumulate},
    }
    return prepare(text(folder / "text", **sections), threads=1)


def torchrun(*command: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    options = ("--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", port)
    with child("-m", "torch.distributed.run", *options, "-m", "--", *command) as process:
        _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process alone, whole and stopped; then two processes, from scratch and from there."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("runs")
    trained(data(2), folder / "alone")
    trained(data(2), folder / "alone-stopped", stop=STOP)
    for name in ("ddp", "fsdp"):
        shutil.copytree(folder / "alone-stopped", folder / f"{name}-from-one", symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        trained(sampled(folder, 2), folder / "sampled-alone")
        patch.setenv("PYTHONPATH", ":".join([str(Path(__file__).parents[1]), *sys.path]))
        torchrun("train.test_distributed", str(folder))
    return folder


def assert_same_course(a: Path, b: Path) -> None:
    """The same loss curve, validations and weights, up to rounding."""
    assert_close(curve(a), curve(b), **TOLERANCE)
    for one, other in zip(records(a), records(b), strict=True):
        assert one.keys() == other.keys() and one["step"] == other["step"]
        assert one["epoch"] == other["epoch"]
        if "valid_loss" in one:
            assert_close(one["valid_loss"], other["valid_loss"], **TOLERANCE)
    one, other = latest(a), latest(b)
    assert_close(one.weights, other.weights, **TOLERANCE)
    assert one.training is not None and other.training is not None
    assert_close(one.training.tensors, other.training.tensors, **TOLERANCE)


def test_the_command_under_torchrun_has_the_loss_curve_of_one_process(
    tmp_path: Path, runs: Path
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    torchrun("glassformer", "train", str(recipe), "--run", str(tmp_path / "run"), *CHANGES)
    assert_same_course(tmp_path / "run", runs / "alone")


@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_two_processes_have_the_course_of_one(runs: Path, name: str) -> None:
    assert_same_course(runs / f"{name}-whole", runs / "alone")


def test_two_processes_draw_the_subwords_of_one(runs: Path) -> None:
    assert_same_course(runs / "sampled-two", runs / "sampled-alone")


def test_a_folder_in_use_is_an_error_of_one_process_with_which_the_other_ends(runs: Path) -> None:
    ends = {path.name: path.read_text() for path in runs.glob("*-[01]") if path.is_file()}
    assert ends == {"CheckpointError-0": "4", "SystemExit-1": "4"}


@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_two_processes_go_on_with_what_one_saved(runs: Path, name: str) -> None:
    assert_same_course(runs / f"{name}-from-one", runs / "alone")


@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_two_processes_go_on_with_what_they_saved(runs: Path, name: str) -> None:
    assert_same_course(runs / f"{name}-again", runs / "alone")


@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_one_process_goes_on_with_what_two_saved(runs: Path, tmp_path: Path, name: str) -> None:
    stopped = shutil.copytree(runs / f"{name}-stopped", tmp_path / "run", symlinks=True)
    assert len(curve(stopped)) == STOP
    trained(data(2), stopped, resume=True)
    assert_same_course(stopped, runs / "alone")


def test_alone_nothing_is_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    module, tensor = torch.nn.Linear(2, 2), torch.randn(3)
    with world() as processes:
        assert processes == ALONE and processes.leads
        assert spread(module, processes, fully_shard=True) is module
        assert processes.sum(1.5, 2) == [1.5, 2] and processes.any(True)
        assert processes.first_alone(lambda: "done") == "done"
    assert whole(tensor) is tensor and like(tensor, tensor) is tensor


def test_what_one_process_cannot_do_it_says_and_the_others_end(monkeypatch):
    told = []

    def add_up(world: World, *values: float) -> list[float]:
        told.append((world.rank, *values))
        return [float(DataError.exit_code)]

    def work() -> None:
        raise DataError("no data", "none", "find some")

    monkeypatch.setattr(World, "sum", add_up)
    with pytest.raises(DataError, match="no data"):
        World(0, 2).first_alone(work)
    with pytest.raises(SystemExit) as ended:
        World(1, 2).first_alone(work)
    assert ended.value.code == DataError.exit_code
    assert told == [(0, DataError.exit_code), (1, 0)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    two_processes(Path(sys.argv[1]))
