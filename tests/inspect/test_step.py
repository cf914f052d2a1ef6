"""Stages of a step: each follows from the one before, and the code is that which computes it."""

from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer.errors import InputError
from glassformer.inspect.masking import head_indices
from glassformer.inspect.source_lines import lines_of
from glassformer.inspect.step import Step, step_of
from glassformer.inspect.trace import trace_of
from glassformer.model.attention import scaled_dot_product_attention

TEXT = "two old cats, a dog"
VARIANTS: list[dict[str, Any]] = [
    {},
    {"residual": "pre-norm", "norm": "rms-norm", "positions": "rope", "n_kv_heads": 1},
    {"positions": "alibi"},
    {"positions": "learned", "max_positions": 40},
]


def rows(step: Step, name: str) -> dict[str, torch.Tensor]:
    (stage,) = [one for one in step.stages if one.name == name]
    return {label: torch.tensor(values) for label, values in stage.rows.items()}


def reads(model: Any, kind: str) -> tuple[Any, list[list[int]]]:
    """Return a trace and what the model read."""
    if kind == "classifier":
        trace = trace_of(model, TEXT)
        return trace, [list(trace.source.ids)]
    trace = trace_of(model, TEXT, beam_size=1, max_length=9)
    target = list(trace.decoder_input.ids)
    return trace, [list(trace.source.ids), target] if kind == "translator" else [target]


@pytest.mark.parametrize("change", VARIANTS, ids=str)
@pytest.mark.parametrize("kind", ["translator", "language-model", "classifier"])
def test_every_stage_follows_from_the_one_before(
    untrained: Any, kind: str, change: dict[str, Any]
) -> None:
    model = untrained(kind, **change)
    trace, ids = reads(model, kind)
    for head in head_indices(model.model)[1::2]:
        step = step_of(model.model, ids, head, row=2)
        embedded = rows(step, "embedding + position")
        torch.testing.assert_close(embedded["token"] + embedded["position"], embedded["sum"])
        if head[1] == 0 and head[0] != "cross":
            into = rows(step, "input of the attention")["into the layer"]
            torch.testing.assert_close(embedded["sum"], into)
        projected = rows(step, "query, key and value of the head")
        scores = list(rows(step, "scores").values())
        width = len(projected["query"])
        torch.testing.assert_close(scores[0] / sqrt(width), scores[1])
        last = rows(step, "mask and softmax")
        most = int(last["weight"].argmax())
        torch.testing.assert_close(projected["query"] @ projected["key"], scores[0][most])
        masked = scores[-1].masked_fill(last["may be attended to"] == 0, -torch.inf)
        torch.testing.assert_close(masked.softmax(-1), last["weight"])
        shown = trace.attention[head[0]][head[1], head[2], 2]
        torch.testing.assert_close(last["weight"], shown, atol=1e-5, rtol=1e-4)


def test_the_heads_add_up_and_the_logits_are_those_of_the_output(untrained: Any) -> None:
    model = untrained()
    trace, ids = reads(model, "translator")
    steps = [step_of(model.model, ids, ("cross", 1, head), row=1) for head in range(2)]
    parts = [rows(step, "all heads joined") for step in steps]
    torch.testing.assert_close(parts[0]["this head"] + parts[1]["this head"], parts[0]["all heads"])
    chosen = int(trace.target.ids[1])  # by greedy search the most likely
    assert steps[0].likely[0] == chosen
    probability = rows(steps[0], "logits")["probability"][0]
    node = trace.nodes[trace.answer_path[1]]
    before = trace.nodes[node.parent].log_probability
    assert probability.log() == pytest.approx(node.log_probability - before, rel=1e-4)


def test_the_residual_adds_and_norms(untrained: Any) -> None:
    model = untrained(residual="post-norm")
    _, ids = reads(model, "translator")
    step = step_of(model.model, ids, ("decoder", 0, 0), row=1)
    attended = rows(step, "all heads joined")["all heads"]
    passed = rows(step, "residual and norm")
    norm = model.model.decoder.layers[0].self_attention_residual.norm
    torch.testing.assert_close(
        norm((passed["before"] + attended)[None, None])[0, 0], passed["after"]
    )
    torch.testing.assert_close(
        rows(step_of(model.model, ids, ("cross", 0, 0), row=1), "feed-forward")["after the layer"],
        rows(step_of(model.model, ids, ("decoder", 1, 0), row=1), "input of the attention")[
            "into the layer"
        ],
    )


def test_a_row_that_is_not_there_is_refused(untrained: Any) -> None:
    model = untrained()
    _, ids = reads(model, "translator")
    with pytest.raises(InputError, match="Row 90 is asked for"):
        step_of(model.model, ids, ("cross", 0, 0), row=90)


def test_the_code_is_that_of_the_file_with_its_line_numbers() -> None:
    code = lines_of(scaled_dot_product_attention, "softmax(", "return")
    lines = (Path(glassformer.__file__).parent / code.path).read_text().splitlines()
    shown = code.text.splitlines()
    assert code.path == "model/attention.py"
    assert [line.strip() for line in lines[code.first - 1 :][: len(shown)]] == [
        line.strip() for line in shown
    ]
    assert all("softmax(" in lines[n - 1] or "return" in lines[n - 1] for n in code.marked)
    assert len(code.marked) == 2


def test_a_line_that_has_moved_is_an_error() -> None:
    with pytest.raises(InputError, match="has no line with 'no such line'"):
        lines_of(scaled_dot_product_attention, "no such line")
