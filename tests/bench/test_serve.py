"""The load of the server: nothing is lost, and every answer is the one of a client alone."""

import json
from pathlib import Path

import pytest

from bench.toys import write_translator
from glassformer.bench.serve import COLUMNS, Load, _row
from train.runs import Command


def test_both_servers_answer_every_request_of_a_quick_load(
    glassformer: Command, tmp_path: Path
) -> None:
    write_translator(tmp_path / "toy")
    code, out, error = glassformer("bench", "serve", "--quick", "--model", str(tmp_path / "toy"))
    assert code == 0, error
    assert "worst ratio" in out
    content = json.loads((tmp_path / "results/quick/bench_serve.json").read_text())
    for row in content["tables"][0]["rows"]:
        found = dict(zip(COLUMNS, row, strict=True))
        assert found["asked"] > 0 and found["lost"] == found["different"] == 0


def test_a_row_has_the_quantiles_in_milliseconds() -> None:
    load = Load(2.0, [i / 1_000 for i in range(1, 102)], 3, 1)
    assert _row("x", load) == ["x", pytest.approx(50.5), 51, 96, 100, 104, 3, 1]
