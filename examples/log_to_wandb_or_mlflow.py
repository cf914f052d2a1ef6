"""Log a run to Weights & Biases or MLflow: a callback of ten lines each.

    pip install wandb mlflow
    python examples/log_to_wandb_or_mlflow.py wandb     (or mlflow)

A callback is an object with some of on_start, on_record and on_end (glassformer.train.callbacks).
"""

import sys
from pathlib import Path
from typing import Any

import glassformer as gf
from glassformer.config import RunSettings


class WandB:
    def on_start(self, settings: RunSettings, folder: Path) -> None:
        import wandb

        self.run = wandb.init(project="glassformer", name=folder.name, config=settings.model_dump())

    def on_record(self, record: dict[str, Any]) -> None:
        self.run.log(record, step=record["step"])

    def on_end(self, reason: str) -> None:
        self.run.finish()


class MLflow:
    def on_start(self, settings: RunSettings, folder: Path) -> None:
        import mlflow

        self.mlflow = mlflow
        mlflow.start_run(run_name=folder.name)
        mlflow.log_params(settings.train.model_dump())

    def on_record(self, record: dict[str, Any]) -> None:
        numbers = {name.replace("/", "_"): float(value) for name, value in record.items()}
        self.mlflow.log_metrics(numbers, step=record["step"])

    def on_end(self, reason: str) -> None:
        self.mlflow.end_run()


if __name__ == "__main__":
    logger = {"wandb": WandB, "mlflow": MLflow}[sys.argv[1]]()
    gf.train("reverse", callbacks=[logger])
