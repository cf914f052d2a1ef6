"""`bench train` gives every contender whole updates on the batches it says."""

from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.bench.train import (
    OURS,
    SHORT,
    Plan,
    bench_train,
    bucketed_batches,
    shuffled_batches,
)
from glassformer.data.prepare import Prepared, prepare
from glassformer.errors import SettingsError
from train.runs import text

PLAN = Plan(updates=2, rounds=1, batch_tokens=64)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return prepare(text(tmp_path), threads=1)


@pytest.mark.parametrize("able", [True, False], ids=["bf16", "no bf16"])
def test_every_contender_is_compared_with_ours(
    data: Prepared, monkeypatch: pytest.MonkeyPatch, able: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": able})
    # oneDNN's bf16 uses instructions that some virtual machines announce and then forbid
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    ticks: list[int] = []
    report = bench_train(data, PLAN, "command", lambda: ticks.append(1))
    (table,) = report.tables
    speeds = {name: ratio for name, _, ratio in table.rows}
    assert len(ticks) == PLAN.steps
    assert speeds.pop(OURS) == 1.0
    assert (SHORT in speeds) == able
    assert {name: ratio for name, ratio in speeds.items() if name != SHORT} == report.ratios
    assert np.isfinite(report.worst_ratio)


def test_a_recipe_without_pairs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = text(tmp_path, model={"kind": "masked-language-model"}, data={"hidden": 0.2})
    with pytest.raises(SettingsError, match="that of a masked-language-model") as caught:
        bench_train(prepare(settings, threads=1), PLAN, "command")
    assert "--recipe" in caught.value.remedy


def test_shuffled_batches_are_as_many_with_more_padding(data: Prepared) -> None:
    plan = Plan(updates=1_000, batch_tokens=64)
    ours, plain = bucketed_batches(data, plan), shuffled_batches(data, plan)
    assert len(ours) == len(plain)
    assert sum(b.n_labels for b in ours) == sum(b.n_labels for b in plain)
    assert sum(b.padding[1] for b in ours) <= sum(b.padding[1] for b in plain)
