"""Sums over the updates between two log records: loss, speed, gradient norm, padding."""

import time

from glassformer.data.batch import Batch
from glassformer.train.log import Record
from glassformer.train.state import Position
from glassformer.train.step import Update


class Meter:
    """Return the log record of the updates since the last one."""

    def __init__(self, position: Position) -> None:
        self._at, self._before = position, position.seconds
        self._began = self._since = time.perf_counter()
        self._labels = 0

    def add(self, update: Update, batches: list[Batch]) -> None:
        at, paddings = self._at, [batch.padding for batch in batches]
        at.seconds = self._before + time.perf_counter() - self._began
        at.labels += update.labels
        self._labels += update.labels
        added = {
            "updates": int(not update.skipped),
            "labels": update.labels,
            "loss": update.loss * update.labels,
            "norm": update.gradient_norm,
            "real": sum(real for real, _ in paddings),
            "cells": sum(cells for _, cells in paddings),
        }
        at.window = {name: at.window.get(name, 0.0) + value for name, value in added.items()}

    def read(self, rate: float) -> Record:
        at, w, now = self._at, self._at.window, time.perf_counter()
        record = {
            **at.place,
            "train_loss": w["loss"] / w["labels"],
            "labels_per_second": self._labels / (now - self._since),
            "gradient_norm": w["norm"] / max(1, w["updates"]),
            "learning_rate": rate,
            "padding": 1 - w["real"] / w["cells"],
            "seconds": at.seconds,
        }
        at.window, self._labels, self._since = {}, 0, now
        return record
