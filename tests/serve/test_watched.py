"""Curves of training runs and verdicts of the lab: what their files hold, whole or not."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from glassformer.serve.app import application
from glassformer.serve.models import Models
from glassformer.serve.server import Server
from glassformer.serve.watched import MOST_POINTS, thinned

VERDICT = {
    "name": "scaling", "title": "Scaling", "claim": "c", "command": "glassformer lab run scaling",
    "verdict": {"outcome": "confirmed", "because": "b"}, "budget": {"quick": False},
}  # fmt: skip


@pytest.fixture
def asked(models: Models, tmp_path: Path) -> Any:
    """Write files, and return the JSON of a path."""

    def ask(path: str, files: dict[str, str]) -> Any:
        for name, content in files.items():
            place = tmp_path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)
        server = Server(models, runs=tmp_path / "runs", findings=tmp_path / "lab")
        with TestClient(application(server), base_url="http://localhost") as client:
            answer = client.get(path)
            assert answer.status_code == 200, answer.text
            return answer.json()

    return ask


def test_a_run_that_is_being_written_has_its_whole_records(asked: Any) -> None:
    records: list[dict[str, Any]] = [
        {"step": 10, "train_loss": 3.5}, {"step": 20, "train_loss": float("nan")},
        {"step": 30, "valid_loss": 2.5, "valid_bleu": 20},
    ]  # fmt: skip
    log = "".join(json.dumps(one) + "\n" for one in records) + '{"step": 40, "train_l'
    (run,) = asked("/api/runs", {"runs/a/log.jsonl": log, "runs/b/other": "x"})["runs"]
    assert run["name"] == "a" and run["step"] == 30 and run["seconds_ago"] < 60
    assert run["curves"] == {
        "train_loss": [[10, 3.5]], "valid_loss": [[30, 2.5]], "valid_bleu": [[30, 20.0]]
    }  # fmt: skip


def test_verdicts_are_listed_and_other_files_left_out(asked: Any) -> None:
    files = {"lab/scaling.json": json.dumps(VERDICT), "lab/x.json": "{}", "lab/y.json": "no"}
    (found,) = asked("/api/lab", files)["findings"]
    assert found["outcome"] == "confirmed" and found["title"] == "Scaling" and not found["quick"]


def test_without_folders_there_is_nothing_to_show(client: TestClient) -> None:
    assert client.get("/api/runs").json() == {"runs": []}
    assert client.get("/api/lab").json() == {"findings": []}


@pytest.mark.parametrize("count", [0, 1, MOST_POINTS, MOST_POINTS + 1, 1_700])
def test_a_long_curve_is_thinned_evenly_and_keeps_its_end(count: int) -> None:
    points = [(step, float(step)) for step in range(count)]
    found = thinned(points)
    assert len(found) <= MOST_POINTS and found[-1:] == points[-1:]
    gaps = {b[0] - a[0] for a, b in pairwise(found)}
    assert len(gaps) <= 1
