"""`bench train` gives every contender whole updates on the batches it says."""

import sys
from pathlib import Path

import pytest
import torch

from glassformer.bench.joeynmt import JoeyNMT
from glassformer.bench.train import (
    OURS,
    ROOF,
    Plan,
    bench_train,
    bucketed_batches,
    shuffled_batches,
)
from glassformer.data.prepare import Prepared, prepare
from glassformer.errors import InputError, SettingsError
from train.runs import text

PLAN = Plan(updates=2, rounds=1, batch_tokens=64)
STAND_IN = """
from pathlib import Path
from torch import nn

class Model(nn.Linear):
    def forward(self, return_type, src, src_length, src_mask, trg_input, trg, trg_mask):
        assert return_type == "loss" and self.loss_function == ("crossentropy", 0.1)
        assert src_mask.shape == (len(src), 1, src.size(1)) and int(src_length.max()) == src.size(1)
        assert trg.shape == trg_input.shape
        with Path(__file__).parents[1].joinpath("labels").open("a") as file:
            file.write(f"{int(trg_mask.sum())} ")
        return self.weight.sum(), None, None, None

def build_model(configuration, source, target):
    assert source is target and configuration["tied_softmax"]
    return Model(2, len(source))
"""


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
    rows = {str(name): rest for name, *rest in table.rows}
    assert len(ticks) == PLAN.steps
    short = {name.removesuffix(", bfloat16") for name in rows if name.endswith(", bfloat16")}
    plain = {name for name in rows if not name.endswith(", bfloat16")}
    assert short == (plain - {"nn.Transformer, shuffled"} if able else set())
    speeds = {name: float(speed) for name, (speed, *_) in rows.items()}
    for name, (_, of_roof, ratio) in rows.items():
        suffix = ", bfloat16" * name.endswith(", bfloat16")
        assert ratio == pytest.approx(speeds[OURS + suffix] / speeds[name], rel=0.1)
        assert (of_roof == "100%") == name.startswith(ROOF)
    ours = max(speed for name, speed in speeds.items() if name.startswith(OURS))
    peers = max(speed for name, speed in speeds.items() if "our buckets" in name)
    assert report.ratios == {"tiny": pytest.approx(ours / peers, rel=0.1)}


def test_joeynmt_gets_the_same_batches(
    data: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the library checks what the worker gives it, and counts its tokens."""
    package = tmp_path / "joeynmt"
    package.mkdir()
    (package / "model.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    batches = bucketed_batches(data, PLAN)
    settings = data.settings.model
    interpreter = Path(sys.executable)
    with JoeyNMT(interpreter, settings, batches, 0.1, 1e-3, 1.0) as peer:
        assert peer() > 0 and peer() > 0
    labels = (tmp_path / "labels").read_text().split()
    assert [int(n) for n in labels] == 2 * [batch.n_labels for batch in batches]


def test_an_environment_without_joeynmt_is_refused(data: Prepared) -> None:
    batches = bucketed_batches(data, PLAN)
    peer = JoeyNMT(Path(sys.executable), data.settings.model, batches, 0.1, 1e-3, 1.0)
    with peer, pytest.raises(InputError, match="without an answer"):
        peer()


def test_a_missing_interpreter_is_refused(data: Prepared, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not start"):
        JoeyNMT(tmp_path / "python", data.settings.model, [], 0.1, 1e-3, 1.0)


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
