"""`bench same-bits` counts the sentences whose output or score depends on the batch."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.toys import ENGLISH, write_text, write_translator
from glassformer.bench import same_bits
from glassformer.bench.same_bits import Plan, compare
from glassformer.decode.search import Hypothesis
from train.runs import Command


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_translator(tmp_path / "run")
    return tmp_path / "run"


def test_no_sentence_depends_on_its_batch(run: Path, tmp_path: Path) -> None:
    source, _ = write_text(tmp_path, ENGLISH)
    plan, ticks = Plan(beam=2, batches=(1, 2)), list[int]()
    found = compare(str(run), plan, source, lambda: ticks.append(1))
    assert (found.sentences, found.count, len(ticks)) == ("text.en", 3, plan.steps)
    assert [str(one) for one in found.comparisons] == [
        "fp32, greedy", "fp32, beam 2", "INT8, greedy", "INT8, beam 2",
    ]  # fmt: skip
    assert not found.differing and str(found).endswith("\n0 of 3 differ")


def test_one_different_bit_of_a_score_is_detected(
    glassformer: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = same_bits.decode

    def changed(translator: object, sources: object, order: object, batch: int, *rest: object):  # type: ignore[no-untyped-def]
        found: dict[int, Hypothesis] = plain(translator, sources, order, batch, *rest)  # type: ignore[arg-type]
        if batch == 3:
            found[0] = replace(found[0], score=found[0].score * (1 + 2**-50))
        return found

    code, out, error = glassformer("bench", "same-bits", "--quick", "--model", run)
    assert code == 0, error
    assert out.endswith("\n0 of 4 differ\n")
    monkeypatch.setattr(same_bits, "decode", changed)
    code, out, _ = glassformer("bench", "same-bits", "--quick", "--model", run)
    assert code == 1 and out.endswith("\n1 of 4 differ\n")
