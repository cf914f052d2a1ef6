"""The result of an experiment and its JSON file: statement, measurements, verdict, machine.

run(experiment, budget, …)   →   Finding   ⇄   NAME.json
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any

from glassformer.errors import DataError
from glassformer.lab.experiment import Budget, Experiment, Measurement, Results, Tick, Verdict
from glassformer.output import save_text

STATED = ("name", "title", "claim", "source", "varied", "measured", "rule")


@dataclass(frozen=True)
class Finding:
    stated: dict[str, str]  # texts of the experiment, by the names in STATED
    shown: tuple[str, ...]
    results: Results
    verdict: Verdict
    budget: Budget
    command: str
    machine: dict[str, str | int]
    seconds: float

    @property
    def outcome(self) -> str:
        """The outcome of the verdict, marked if the run was quick."""
        return self.verdict.outcome + " (quick run)" * self.budget.quick


def run(
    experiment: Experiment,
    budget: Budget,
    command: str,
    machine: Mapping[str, str | int],
    tick: Tick = lambda share: None,
) -> Finding:
    """Measure, then judge by the rule."""
    start = perf_counter()
    results = Results(experiment.measure(budget, tick))
    seconds = perf_counter() - start
    stated = {name: getattr(experiment, name) for name in STATED}
    verdict = experiment.judge(results)
    return Finding(
        stated, experiment.shown, results, verdict, budget, command, dict(machine), seconds
    )


def save(finding: Finding, path: Path, tables: Sequence[Any]) -> None:
    """Write JSON. Infinity and NaN, which JSON lacks, are written as strings."""
    content = {
        **finding.stated,
        "verdict": asdict(finding.verdict),
        "tables": [asdict(table) for table in tables],
        "shown": finding.shown,
        "measurements": [
            {"arm": dict(m.arm), "seed": m.seed, "quantity": m.quantity, "value": _plain(m.value)}
            for m in finding.results.measurements
        ],
        "budget": asdict(finding.budget),
        "command": finding.command,
        "machine": finding.machine,
        "seconds": round(finding.seconds, 1),
    }
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    save_text(path, text + "\n")


def _plain(value: float) -> float | str:
    return value if isfinite(value) else str(value)


def load(path: Path) -> Finding:
    """Read a file that `save` wrote."""
    try:
        content = json.loads(path.read_text("utf-8"))
        return _finding(content)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is not the result of an experiment: {error!r}.",
            "The report shows every JSON file in its folder; `glassformer lab run` writes them.",
            "Run that experiment again, or move the file to another folder.",
        ) from None


def _finding(content: dict[str, Any]) -> Finding:
    budget = content["budget"]
    return Finding(
        {name: content[name] for name in STATED},
        tuple(content["shown"]),
        Results(
            Measurement(m["arm"], m["seed"], m["quantity"], float(m["value"]))
            for m in content["measurements"]
        ),
        Verdict(**content["verdict"]),
        Budget(
            budget["quick"],
            tuple(budget["seeds"]),
            budget["threads"],
            budget.get("device", "cpu"),
        ),
        content["command"],
        content["machine"],
        content["seconds"],
    )
