"""The description: parameters and FLOPs as torch counts them, as a table."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from glassformer.config import PRESETS
from glassformer.model.build import build
from glassformer.model.describe import describe

LENGTH = 5
SIZES = {"vocab_size": 11, "d_model": 8, "d_ff": 12, "encoder_layers": 2, "decoder_layers": 3}


def model_of(kind: str = "translator", **changes: object) -> nn.Module:
    return build("tiny", kind=kind, attention="readable", **SIZES | changes).eval()


def flops_by_torch(model: nn.Module, kind: str, length: int) -> int:
    ids = torch.ones(1, length, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(ids, ids) if kind == "translator" else model(ids)
    return counter.get_total_flops()


@pytest.mark.parametrize("name", PRESETS)
def test_the_parameters_of_a_preset_are_counted_once_each(name):
    with torch.device("meta"):
        model = build(name)
    assert describe(model).parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("kind", ["translator", "language-model", "masked-language-model"])
@pytest.mark.parametrize("tie_target_output", [True, False])
@pytest.mark.parametrize("tie_source_target", [True, False])
def test_a_tied_table_is_counted_once(kind, tie_source_target, tie_target_output):
    model = model_of(kind, tie_source_target=tie_source_target, tie_target_output=tie_target_output)
    parts = {part.name: part for part in describe(model).parts}
    assert describe(model).parameters == sum(p.numel() for p in model.parameters())
    assert parts["output"].parameters == (0 if tie_target_output else 8 * 11)
    assert parts["output"].shape == "11×8" + " (tied)" * tie_target_output
    if kind == "translator":
        assert parts["encoder.embedding"].parameters == 8 * 11
        assert parts["decoder.embedding"].shape == "11×8" + " (tied)" * tie_source_target


@pytest.mark.parametrize("length", [LENGTH, 9])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_kv_heads": 1},
        {"feed_forward": "swiglu"},
        {"feed_forward": "gelu", "attention_bias": True, "norm": "rms-norm"},
        {"positions": "relative", "tie_target_output": False},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "kind", ["translator", "language-model", "masked-language-model", "tagger", "classifier"]
)
def test_flops_equal_those_that_torch_counts(kind, changes, length):
    model = model_of(kind, **changes)
    description = describe(model, length)
    expected = description.flops * length
    if kind == "classifier":  # its output takes one pooled vector per text
        (output,) = (part for part in description.parts if part.name == "output")
        expected -= output.flops * (length - 1)
    assert flops_by_torch(model, kind, length) == expected


def test_copies_count_the_layers_of_a_part():
    parts = {part.name: part for part in describe(model_of()).parts}
    assert parts["encoder.layers.*.self_attention.qkv"].copies == 2
    assert parts["decoder.layers.*.cross_attention.kv"].copies == 3
    assert parts["decoder.layers.*.cross_attention.kv"].parameters == 3 * 16 * 8
    assert parts["decoder.layers.*.feed_forward.expand"].shape == "12×8 + bias"
    assert parts["output"].copies == 1


def test_it_prints_as_an_aligned_table_with_a_total():
    description = describe(model_of(vocab_size=2_000), LENGTH)
    *table, note = str(description).splitlines()
    heading, *body, total = table
    assert heading.split() == ["part", "shape", "copies", "parameters", "FLOPs/token"]
    assert len(body) == len(description.parts)
    assert len({len(line) for line in table}) == 1
    for column in ("shape", "copies"):  # text is left-aligned, numbers are right-aligned
        edge = heading.index(column)
        assert {line[edge - 1] for line in table} == {" "}
    numbers = [[int(n.replace(",", "")) for n in line.split()[-2:]] for line in body]
    assert [f"{sum(column):,}" for column in zip(*numbers, strict=True)] == total.split()[-2:]
    assert total.split() == ["total", f"{description.parameters:,}", f"{description.flops:,}"]
    assert f"attending to {LENGTH} positions" in note
