"""Fabricated measurements, and quick runs of experiments."""

import json
from collections.abc import Iterable
from pathlib import Path

from glassformer.lab import experiments
from glassformer.lab.experiment import Arm, Budget, Measurement
from glassformer.lab.finding import Finding, load, run, save
from glassformer.lab.report import draw, tables

QUICK = Budget(quick=True, seeds=(0,), threads=1)


def runs(quantity: str, arm: Arm, values: Iterable[float]) -> list[Measurement]:
    """Return one measurement per value, with seeds from 0."""
    return [Measurement(arm, seed, quantity, value) for seed, value in enumerate(values)]


def quick_run(name: str, folder: Path) -> Finding:
    """Run an experiment as `lab run --quick` does, and check its files."""
    experiment, shares = experiments.find(name), list[float]()
    finding = run(experiment, QUICK, "a test", {"cores": 1}, shares.append)
    assert shares[-1] == 1.0 and shares == sorted(shares)
    path = folder / f"{name}.json"
    save(finding, path, tables(finding))
    json.loads(path.read_text(), parse_constant=lambda name: 1 / 0)  # no NaN, no Infinity
    assert repr(load(path).results.measurements) == repr(finding.results.measurements)
    assert all(table.rows for table in tables(finding))
    draw(experiment, finding, folder / f"{name}.svg")
    assert "</svg>" in (folder / f"{name}.svg").read_text()
    return finding
