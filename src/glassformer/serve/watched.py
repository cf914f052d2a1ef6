"""Trainings and experiments of this machine, for the page: read from their files, never written.

The folders are named when the server starts; a request names none.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glassformer.serve import schemas as s
from glassformer.serve.endpoint import Endpoint
from glassformer.serve.server import Server

LOG = "log.jsonl"
MOST_RUNS = 20  # the ones that were written to last
MOST_POINTS = 300  # of a curve: a picture is hardly wider
MOST_BYTES = 64 * 2**20  # of a log: some 200,000 records
SERIES = ("train_loss", "valid_loss", "valid_bleu", "valid_accuracy")


async def answer_runs(server: Server, _: None) -> s.RunList:
    if server.runs is None or not server.runs.is_dir():
        return s.RunList(runs=[])
    logs = [log for log in server.runs.glob(f"*/{LOG}") if log.stat().st_size <= MOST_BYTES]
    logs.sort(key=lambda log: log.stat().st_mtime, reverse=True)
    return s.RunList(runs=[run_of(log) for log in logs[:MOST_RUNS]])


def run_of(log: Path) -> s.Run:
    """Return the curves of a run; a record that is not whole yet is left out."""
    records = list(_records(log))
    curves = {
        name: [(r["step"], float(r[name])) for r in records if _is_number(r.get(name))]
        for name in SERIES
    }
    return s.Run(
        name=log.parent.name,
        step=max((record["step"] for record in records), default=0),
        seconds_ago=max(0.0, time.time() - log.stat().st_mtime),
        curves={name: thinned(points) for name, points in curves.items() if points},
    )


def _records(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text("utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            yield record


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and -1e30 < value < 1e30  # neither NaN nor infinite


def thinned(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return at most so many points, evenly spread; the last is among them."""
    every = -(-len(points) // MOST_POINTS)
    return points[::-1][:: max(1, every)][::-1]


async def answer_lab(server: Server, _: None) -> s.FindingList:
    if server.findings is None or not server.findings.is_dir():
        return s.FindingList(findings=[])
    found = [_finding(path) for path in sorted(server.findings.glob("*.json"))]
    return s.FindingList(findings=[one for one in found if one is not None])


def _finding(path: Path) -> s.Finding | None:
    """Return what an experiment found; None for another kind of file."""
    try:
        content = json.loads(path.read_text("utf-8"))
        return s.Finding(
            **{name: str(content[name]) for name in ("name", "title", "claim", "command")},
            outcome=str(content["verdict"]["outcome"]),
            because=str(content["verdict"]["because"]),
            quick=bool(content["budget"]["quick"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


ENDPOINTS = (
    Endpoint(
        "GET", "/api/runs", answer_runs, s.RunList, "List training runs and curves.", "glassformer"
    ),
    Endpoint(
        "GET", "/api/lab", answer_lab, s.FindingList, "List verdicts of the lab.", "glassformer"
    ),
)
