"""Callbacks are told of a run; the examples for loggers do it, tested with stand-ins."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

import glassformer as gf
from glassformer.errors import InputError
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
    with pytest.raises(InputError, match=r"3 is not a callback(?s:.*)on_record"):
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
