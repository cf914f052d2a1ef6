"""`profile` measures what runs: parts that add up, bytes that are counted, a trace that reads."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from glassformer.bench.growth import SOURCE_LENGTH
from glassformer.bench.profile import (
    ANSWER_LENGTH,
    Plan,
    Subject,
    answer,
    preset_subject,
    profile_decoding,
    run_subject,
    speed_table,
    timing,
    weight_bytes,
    write_trace,
)
from glassformer.bench.report import Report
from glassformer.bench.stopwatch import IN_A_STEP, PARTS
from glassformer.config import RunSettings
from glassformer.data.tokenizer import Tokenizer
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.errors import InputError
from glassformer.model.build import build
from glassformer.model.transformer import Transformer
from glassformer.pipeline import Translator

TEXTS = ["a dog", "the old cat sees a dog", "two children want some tea", "a house of tea"]
SIZES = {"vocab_size": 40, "d_model": 16, "n_heads": 2, "d_ff": 32, "decoder_layers": 2}


def tiny() -> Transformer:
    model = build("tiny", **SIZES).eval()
    assert isinstance(model, Transformer)
    return model


def translator() -> Translator:
    settings = RunSettings.of(model=SIZES)
    return Translator(TorchDecoder(tiny()), {"joint": Tokenizer.train(TEXTS * 5, 40)}, settings)


@pytest.fixture
def subject() -> Subject:
    """Answers of up to six tokens: random weights hardly ever end one."""
    made = run_subject("tiny", translator(), TEXTS, 3)
    return replace(made, options=replace(made.options, max_length=6))


@pytest.fixture
def report(subject: Subject) -> Report:
    return profile_decoding(subject, Plan.quick(4).fitting(subject), "command")


@pytest.mark.parametrize("group", [1, 4], ids=["one by one", "batched"])
def test_the_parts_add_up_to_the_total_time(subject: Subject, group: int) -> None:
    groups = [TEXTS[i : i + group] for i in range(0, len(TEXTS), group)]
    found = timing(subject, groups, lambda: None)
    assert set(found.parts) == set(PARTS)
    assert min(found.parts.values()) > 0, "every part was met"
    whole = sum(found.watched)
    assert 0.5 * whole < sum(found.parts.values()) <= whole, "an interruption may fall between"


def test_the_profiled_answers_are_those_of_the_pipeline() -> None:
    asked = translator()
    subject = run_subject("tiny", asked, TEXTS, 2)
    found = asked.n_best(TEXTS, subject.options)
    assert answer(subject, TEXTS) == [best[0].ids for best in found]


def test_the_shares_add_up(report: Report) -> None:
    rows = {str(name): numbers for name, *numbers in report.tables[0].rows}
    step = [f"  {part}" for part in IN_A_STEP]
    for column in range(4):
        values = {name: float(numbers[column]) for name, numbers in rows.items()}
        parts = ("subwords", "encoding", "decoding steps", "search")
        assert sum(values[name] for name in step) == pytest.approx(values["decoding steps"])
        assert sum(values[name] for name in parts) == pytest.approx(values["total"])
    assert rows["total"][1::2] == pytest.approx([100, 100])


def test_percentiles_rise_and_speed_is_tokens_over_time(subject: Subject) -> None:
    alone = timing(subject, [[text] for text in TEXTS], lambda: None)
    batched = timing(subject, [TEXTS], lambda: None)
    one_by_one, together = speed_table(alone, batched).rows
    p50, p95, p99 = map(float, one_by_one[3:])
    assert 0 < p50 <= p95 <= p99 <= 1e3 * max(alone.seconds)
    tokens = sum(len(ids) for ids in answer(subject, TEXTS))
    assert float(one_by_one[1]) * sum(alone.seconds) == pytest.approx(tokens)
    assert float(together[1]) * sum(batched.seconds) == pytest.approx(tokens)


def test_the_ratio_is_that_of_the_cache_at_the_longest_output(report: Report) -> None:
    longest, cached, _, uncached, _ = report.tables[3].rows[-2]
    assert longest == max(Plan.quick(4).growth.lengths)
    assert report.ratios == {f"cache at {longest}": float(uncached) / float(cached)}


def test_the_peak_includes_the_cache(report: Report) -> None:
    memory = {str(row[0]).strip(): float(row[1]) for row in report.tables[2].rows}
    whole = memory["peak of the whole search, without weights"]
    assert 0 < memory["key-value cache in that"] < whole
    assert 0 < memory["peak of encoding, beyond its start"] < whole
    layers = memory["peak of the layers of a decoding step"]
    for part in ("self-attention", "cross-attention", "feed-forward", "norms"):
        assert 0 < memory[part] <= layers < whole
    assert 0 < memory["peak of the output projection"] < whole
    assert memory["weights"] > 0


def test_shared_weights_count_once() -> None:
    model = tiny()
    assert model.output.weight is model.decoder.embedding.weight
    assert weight_bytes(model) == 4 * sum(p.numel() for p in set(model.parameters()))


def test_every_step_of_the_plan_is_ticked(subject: Subject) -> None:
    ticks: list[int] = []
    few = replace(subject, sentences=TEXTS[:3])
    plan = Plan.quick(64).fitting(few)
    profile_decoding(few, plan, "command", lambda: ticks.append(1))
    assert len(ticks) == plan.steps


def test_the_output_of_a_preset_has_the_given_length() -> None:
    subject = preset_subject("tiny", 3, 2)
    assert [len(source) for source in subject.sentences] == [SOURCE_LENGTH] * 3
    assert [len(ids) for ids in answer(subject, subject.sentences)] == [ANSWER_LENGTH] * 3


def test_a_preset_that_does_not_decode_is_refused() -> None:
    with pytest.raises(InputError, match="classifier is a classifier"):
        preset_subject("classifier", 3, 2)


def test_the_trace_names_the_modules_of_a_few_steps(subject: Subject, tmp_path: Path) -> None:
    path = tmp_path / "new" / "trace.json"
    write_trace(subject, path, steps=3)
    events = json.loads(path.read_text())["traceEvents"]
    spans = Counter(event["name"] for event in events if event.get("cat") == "user_annotation")
    assert spans["answer"] == spans["encoder"] == 1
    assert spans["decoder"] == spans["decoder.layers.1.self_attention"] == spans["output"] == 3
    assert path.stat().st_size < 5e6


def test_texts_over_the_maximum_length_are_cut() -> None:
    asked = translator()
    subject = run_subject("tiny", asked, ["tea " * 1_000], 1)
    (ids,) = subject.read(subject.sentences)
    assert len(ids) == asked.max_length + 1
    assert torch.tensor(ids).max() < 40
