"""Reasons for one token: finite differences, words really left out, and contrasts that add up."""

from typing import Any

import pytest
import torch

from glassformer.errors import InputError
from glassformer.inspect.saliency import log_odds, output_saliency
from glassformer.inspect.trace import Trace, trace_of
from glassformer.inspect.why import why

TEXT = "two old cats, a dog"
KINDS = ["translator", "language-model"]


def traced(untrained: Any, kind: str) -> tuple[Any, Trace]:
    model = untrained(kind)
    return model, trace_of(model, TEXT, beam_size=1, max_length=12)


def logits(model: Any, trace: Trace, source: Any, read: Any) -> torch.Tensor:
    ids = [torch.tensor([one]) for one in (source, read) if one is not None]
    with torch.no_grad():
        return model.model(*ids)[0, -1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("contrast", [False, True])
def test_a_word_left_out_changes_the_number_by_what_is_told(
    untrained: Any, kind: str, contrast: bool
) -> None:
    model, trace = traced(untrained, kind)
    step, token = 4, trace.target.ids[4]
    other = (token + 5) % len(model.tokenizer) if contrast else None
    reasons = why(model.model, trace.source, trace.decoder_input, step, token, other)

    def number(source: Any, read: Any) -> float:
        row = logits(model, trace, source, read)
        if other is None:
            return float(log_odds(row[None], torch.tensor([token])))
        log_probs = row.log_softmax(-1)
        return float(log_probs[token] - log_probs[other])

    source = None if trace.source is None else list(trace.source.ids)
    read = list(trace.decoder_input.ids[: step + 1])
    assert reasons.value == pytest.approx(number(source, read), abs=1e-4)
    if trace.source is not None and source is not None:
        for word, fall in zip(trace.source.words, reasons.left_out["source"], strict=True):
            without = source[: word.start] + source[word.end :]
            expected = number(source, read) - number(without, read)
            assert fall == pytest.approx(expected, abs=1e-4)
    words = [w for w in trace.decoder_input.words if 0 < w.start <= step]
    for word, fall in zip(words, reasons.left_out["target"], strict=True):
        without = read[: word.start] + read[min(word.end, step + 1) :]
        expected = number(source, read) - number(source, without)
        assert fall == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_contrast_the_gradient_is_that_of_the_whole_trace(
    untrained: Any, kind: str
) -> None:
    model, trace = traced(untrained, kind)
    source = None if trace.source is None else trace.source.ids
    whole = output_saliency(model, source, trace.decoder_input.ids, trace.target.ids)
    for step in (0, 3):
        found = why(model.model, trace.source, trace.decoder_input, step, trace.target.ids[step])
        for name, row in found.gradient.items():
            expected = whole[name][step][: len(row)]
            torch.testing.assert_close(torch.tensor(row), expected, atol=1e-5, rtol=1e-4)


def test_a_contrast_is_the_opposite_of_its_reverse(untrained: Any) -> None:
    model, trace = traced(untrained, "translator")
    there = why(model.model, trace.source, trace.decoder_input, 2, 7, 9)
    back = why(model.model, trace.source, trace.decoder_input, 2, 9, 7)
    assert there.value == pytest.approx(-back.value, abs=1e-5)
    for method in ("gradient", "left_out"):
        for name, row in getattr(there, method).items():
            reverse = [-value for value in getattr(back, method)[name]]
            assert row == pytest.approx(reverse, abs=1e-4)


def test_long_texts_are_answered_in_parts(untrained: Any, monkeypatch: Any) -> None:
    model, trace = traced(untrained, "translator")
    whole = why(model.model, trace.source, trace.decoder_input, 3, 5)
    monkeypatch.setattr("glassformer.inspect.why.BATCH_CELLS", 40)
    parts = why(model.model, trace.source, trace.decoder_input, 3, 5)
    assert parts.left_out["source"] == pytest.approx(whole.left_out["source"], abs=1e-4)


@pytest.mark.parametrize(
    ("step", "token", "problem"), [(99, 5, "Step 99"), (1, 10**6, "outside the vocabulary")]
)
def test_what_is_not_there_is_refused(untrained: Any, step: int, token: int, problem: str) -> None:
    model, trace = traced(untrained, "translator")
    with pytest.raises(InputError, match=problem):
        why(model.model, trace.source, trace.decoder_input, step, token)
