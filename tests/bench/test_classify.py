"""`bench classify` compares classifiers that hold the same weights."""

import json
from pathlib import Path

import numpy as np
import pytest

from bench.toys import Here
from glassformer import checkpoint
from glassformer.bench import classify
from glassformer.bench.classify import CONTENDERS, TORCH, Plan, bench_classify, check_same, texts
from glassformer.bench.engines import THEIR_FP32
from glassformer.checkpoint import Checkpoint, as_arrays, weights_of
from glassformer.config import RunSettings
from glassformer.data.tokenizer import BOS, Tokenizer
from glassformer.errors import CheckpointError
from glassformer.model.build import build
from glassformer.ngrams import ngram_shapes
from train.runs import Command

TEXT = ["a dull film", "a fine film that one sees twice", "dull"]


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classify, "ContenderProcess", Here)
    monkeypatch.delenv("GLASSFORMER_DATA", raising=False)


def write_classifier(folder: Path, **changes: object) -> Checkpoint:
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "n_classes": 2}
    shape = {"kind": "classifier", "vocab_size": 40, **sizes, **changes}
    settings = RunSettings.of(model=shape, data={"max_length": 30})
    numbers, shapes = np.random.default_rng(0), ngram_shapes(settings.model)
    weights = as_arrays(weights_of(build(settings.model)))
    weights |= {n: numbers.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    saved = Checkpoint(settings, weights, {"joint": Tokenizer.train(TEXT * 5, 40)})
    checkpoint.write(saved, folder)
    return checkpoint.read(folder)


@pytest.mark.parametrize(
    ("pooling", "positions"), [("mean", "rope"), ("max", "sinusoidal"), ("first", "rope")]
)
def test_all_contenders_give_the_same_logits(tmp_path: Path, pooling: str, positions: str) -> None:
    write_classifier(
        tmp_path / "run", pooling=pooling, positions=positions, ngrams=2, ngram_places=64
    )
    ticks: list[int] = []
    plan = Plan(threads=2, rounds=1, limit=3, batch_tokens=12, pause=0.0)
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in TEXT))
    name = str(tmp_path / "run")
    report = bench_classify(name, plan, "", tmp_path / "text", lambda: ticks.append(1))
    speed, _ = report.tables
    assert len(ticks) == plan.steps
    assert [row[0] for row in speed.rows] == list(CONTENDERS)
    assert len(report.ratios) == 5


def test_different_logits_are_detected() -> None:
    logits = {name: np.zeros((2, 2), np.float32) for name in CONTENDERS}
    check_same(logits)
    logits[THEIR_FP32] = logits[TORCH] + np.float32(0.1)
    with pytest.raises(AssertionError, match="CTranslate2 fp32 differ"):
        check_same(logits)


def test_texts_are_random_where_there_are_none(tmp_path: Path, glassformer: Command) -> None:
    saved = write_classifier(tmp_path / "run")
    about, rows = texts(saved, None, 5)
    assert about == "random texts" and len(rows) == 5
    assert all(row[0] == BOS and 2 <= len(row) <= 31 for row in rows)


def test_a_translator_is_refused() -> None:
    with pytest.raises(CheckpointError, match="en-fr holds a translator"):
        bench_classify("en-fr", Plan(), "")


def test_the_command_prints_and_saves_its_report(glassformer: Command, tmp_path: Path) -> None:
    write_classifier(tmp_path / "run")
    code, out, error = glassformer("bench", "classify", "--quick", "--model", "run")
    assert code == 0, error
    assert "run: 4 random texts" in out
    written = json.loads(Path("results/quick/bench_classify.json").read_text())
    assert f"worst ratio: {written['worst_ratio']:.2f}" in out
