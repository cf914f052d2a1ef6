"""`bench generate` gives every contender the same weights and the same work."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bench.toys import Here
from cli.models import write_model
from glassformer.bench import generate, generators
from glassformer.bench.generate import Plan, bench_generate

MODERN = {
    "positions": "rope", "norm": "rms-norm", "feed_forward": "swiglu", "n_kv_heads": 1,
    "max_positions": 64,
}  # fmt: skip


class FakeLlama:
    """Stands in for llama.cpp: continues a prompt with its last token."""

    def __init__(self, path: str, **how: Any) -> None:
        assert how["n_threads"] == how["n_threads_batch"] == 1 and Path(path).name == "q8_0.gguf"

    def token_eos(self) -> int:
        return 3

    def reset(self) -> None: ...

    def generate(self, prompt: list[int], **how: Any) -> Any:
        assert how["top_k"] == 1
        (no_end,) = how["logits_processor"]
        assert no_end(None, [0.0] * 5)[3] == float("-inf")
        while True:
            yield prompt[-1]


def test_every_contender_continues_every_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(generate, "ContenderProcess", ContextHere)
    library = ModuleType("llama_cpp")
    library.Llama = FakeLlama  # type: ignore[attr-defined]
    library.__spec__ = generators.find_spec("json")
    monkeypatch.setitem(sys.modules, "llama_cpp", library)
    monkeypatch.setattr(generators, "write_q8_0", lambda gguf, target: target)
    write_model("run", "language-model", model=MODERN)
    report = bench_generate("run", Path("x.gguf"), Plan(4, 1, 1, 0.0), "glassformer bench")
    (table,) = report.tables
    rows = {row[0]: row for row in table.rows}
    assert list(rows) == [*generators.OURS, *generators.PEERS]
    assert rows[generators.FP32][-1] == rows[generators.HUGGING_FACE][-1] == "4 of 4"
    assert all(int(str(row[1])) > 0 for row in rows.values())
    assert report.ratios.keys() == {*generators.PEERS}


class ContextHere(Here):
    def __enter__(self) -> "ContextHere":
        return self

    def __exit__(self, *_: object) -> None: ...


def test_a_library_that_is_absent_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generators, "find_spec", lambda name: None)
    files = generators.Files(tmp_path, tmp_path, tmp_path / "x.gguf")
    assert generators.capable(files) == list(generators.OURS)
    answers = {n: generators.Answer(1.0, [[1, 2]], 1 << 20) for n in generators.OURS}
    (table,) = generate.report("toy", answers, Plan(), "command").tables
    assert [row[:2] for row in table.rows[2:]] == [[p, "absent"] for p in generators.PEERS]
