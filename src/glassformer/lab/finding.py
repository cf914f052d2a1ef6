"""An experiment that was run: what was said before, every number, the verdict, and how it was made.

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

STATED = ("name", "title", "claim", "source", "varied", "measured", "rule")


@dataclass(frozen=True)
class Finding:
    stated: dict[str, str]  # what the experiment said before it was run, by the names in STATED
    shown: tuple[str, ...]
    results: Results
    verdict: Verdict
    budget: Budget
    command: str
    machine: dict[str, str | int]
    seconds: float

    @property
    def told(self) -> str:
        """The verdict in a word or two."""
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
    """As JSON. What is infinite or not a number is text there, since JSON has no such numbers."""
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
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", "utf-8")


def _plain(value: float) -> float | str:
    return value if isfinite(value) else str(value)


def load(path: Path) -> Finding:
    """What `save` wrote."""
    try:
        content = json.loads(path.read_text("utf-8"))
        return _finding(content)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is no result of an experiment: {error!r}.",
            "`glassformer lab run` writes such files, and the report is made of all in its folder.",
            "Run that experiment again, or move the file elsewhere.",
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
        Budget(budget["quick"], tuple(budget["seeds"]), budget["threads"]),
        content["command"],
        content["machine"],
        content["seconds"],
    )
