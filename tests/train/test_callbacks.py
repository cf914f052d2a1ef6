"""Callbacks are told of a run; the examples for loggers do it, tested with stand-ins.

Where wandb or mlflow is installed the example is also run with it, offline, in another process.
"""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

import glassformer as gf
from glassformer.errors import InputError
from glassformer.extras import is_installed
from glassformer.train.log import read
from train.runs import TINY

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "log_to_wandb_or_mlflow.py"


class Recorder:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def on_start(self, settings: object, folder: Path) -> None:
        self.told.append(("start", folder.name))

    def on_record(self, record: dict[str, Any]) -> None:
        self.told.append(record)

    def on_end(self, reason: str) -> None:
        self.told.append(("end", reason))


def test_a_callback_is_told_what_the_log_has(tmp_path: Path) -> None:
    recorder = Recorder()
    run = gf.train(TINY, run=tmp_path / "run", callbacks=[recorder], progress=False)
    first, *records, last = recorder.told
    assert (first, last) == (("start", "run"), ("end", "8 updates"))
    assert records == run.log() and len(records) == 10


def test_what_is_no_callback_or_cannot_be_told_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"3 is no callback(?s:.*)on_record"):
        gf.train(TINY, run=tmp_path / "run", callbacks=[3], progress=False)  # type: ignore[list-item]
    two = TINY.replace(train={"processes": 2})
    with pytest.raises(InputError, match=r"callbacks do not go with train\.processes = 2"):
        gf.train(two, run=tmp_path / "run", callbacks=[Recorder()], progress=False)


@pytest.fixture
def example() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(EXAMPLE)))


def test_the_example_logs_to_weights_and_biases(
    example: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = MagicMock()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    run = gf.train(TINY, run=tmp_path / "run", callbacks=[example.WandB()], progress=False)
    ((_, options),) = wandb.init.call_args_list
    assert options["name"] == "run" and options["config"]["train"]["max_steps"] == 8
    logged = wandb.init.return_value.log.call_args_list
    assert [call.args[0] for call in logged] == run.log()
    assert [call.kwargs["step"] for call in logged] == [record["step"] for record in run.log()]
    wandb.init.return_value.finish.assert_called_once_with()


def test_the_example_logs_to_mlflow(
    example: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = MagicMock()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    run = gf.train(TINY, run=tmp_path / "run", callbacks=[example.MLflow()], progress=False)
    assert mlflow.log_params.call_args.args[0]["max_steps"] == 8
    logged = [call.args[0] for call in mlflow.log_metrics.call_args_list]
    assert len(logged) == len(run.log()) and all(
        isinstance(value, float) for record in logged for value in record.values()
    )
    mlflow.end_run.assert_called_once_with()


# The packages themselves, offline

OFFLINE = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "MLFLOW_TRACKING_URI": "sqlite:///m.db"}
CHILD = """
import runpy, sys
import glassformer as gf
from train.runs import TINY

example = runpy.run_path(sys.argv[1])
gf.train(TINY, run="run", callbacks=[example[sys.argv[2]]()], progress=False)
"""
HISTORY = """
import json
import mlflow

client = mlflow.MlflowClient()
(run,) = client.search_runs([one.experiment_id for one in client.search_experiments()])
history = client.get_metric_history(run.info.run_id, "train_loss")
losses = [(one.step, one.value) for one in history]
print(json.dumps([run.info.run_name, run.info.status, run.data.params["max_steps"], losses]))
"""


def trained_with(package: str, logger: str, folder: Path, more: str = "") -> str:
    """Train TINY with a logger of the example in another process; return what `more` prints."""
    if not is_installed(package):
        pytest.skip(f"{package} is not installed")
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", CHILD + more, str(EXAMPLE), logger],
        cwd=folder, env=os.environ | OFFLINE | path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_weights_and_biases_keeps_every_loss_offline(tmp_path: Path) -> None:
    trained_with("wandb", "WandB", tmp_path)
    (kept,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    content = kept.read_bytes()
    for record in read(tmp_path / "run/log.jsonl"):
        value = record["train_loss" if "train_loss" in record else "valid_loss"]
        assert repr(value).encode() in content


def test_mlflow_keeps_every_loss_in_a_local_database(tmp_path: Path) -> None:
    printed = trained_with("mlflow", "MLflow", tmp_path, HISTORY)
    records = [r for r in read(tmp_path / "run/log.jsonl") if "train_loss" in r]
    losses = [[r["step"], r["train_loss"]] for r in records]
    assert json.loads(printed.splitlines()[-1]) == ["run", "FINISHED", "8", losses]
