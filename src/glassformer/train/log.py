"""Log of a run, line by line: JSON always, TensorBoard on request."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glassformer.checkpoint import one_clear_error
from glassformer.checkpoint.format import replace_text
from glassformer.errors import MissingPackageError

Record = dict[str, Any]


class Log:
    """Append records to `log.jsonl`, and pass them to `report`.

    A resumed run first drops what came after its checkpoint.
    """

    def __init__(
        self, folder: Path, step: int, tensorboard: bool, report: Callable[[Record], None]
    ) -> None:
        self.path, self._report = folder / "log.jsonl", report
        with one_clear_error(f"The log {self.path}"):
            folder.mkdir(parents=True, exist_ok=True)
            kept = [record for record in read(self.path) if record["step"] <= step]
            replace_text(self.path, "".join(map(_line, kept)))
        self._board = _tensorboard(folder, step) if tensorboard else None

    def write(self, record: Record) -> None:
        with one_clear_error(f"The log {self.path}"), self.path.open("a") as file:
            file.write(_line(record))
        self._report(record)
        if self._board is not None:
            for name, value in record.items():
                if isinstance(value, int | float) and name != "step":
                    self._board.add_scalar(name, value, record["step"])
            self._board.flush()  # of itself it would do so every two minutes


def read(path: Path) -> list[Record]:
    """Return the records of a log, without a last line that a crash cut short."""
    if not path.is_file():
        return []
    lines = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _line(record: Record) -> str:
    return json.dumps(record) + "\n"


def _tensorboard(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingPackageError("tensorboard", "train.tensorboard", "tensorboard") from None
    return SummaryWriter(folder / "tensorboard", purge_step=step + 1)
