"""The roof of decoding: counted work against measured limits."""

import numpy as np
import pytest

from glassformer.bench import roof
from glassformer.bench.roof import (
    Machine,
    Phase,
    Roof,
    bandwidth,
    decoding_roof,
    peak,
    phases_of,
    weights_of,
)
from glassformer.config import preset
from glassformer.model.build import build
from glassformer.model.transformer import Transformer

S = preset("tiny", vocab_size=50)
MACHINE = Machine(1, seconds=0.01)


def test_weights_are_those_of_the_model() -> None:
    model = build(S)
    assert isinstance(model, Transformer)
    encoder, step = weights_of(S)
    matrices = {
        name: p.numel() for name, p in model.named_parameters() if p.dim() == 2 and "layers" in name
    }
    assert encoder + step == sum(matrices.values()) + S.vocab_size * S.d_model


def test_work_is_counted_for_each_sentence_and_each_step() -> None:
    encoder, step = weights_of(S)
    batches, outputs = [[[5, 6, 3], [7, 3]], [[8, 3]]], [[4, 4], [4, 4, 4, 4, 4], [4]]
    encoding, greedy = phases_of(S, batches, outputs, beam=1, longest=5)
    assert encoding[:3] == (encoder, 2, 7 * encoder)
    assert greedy[:3] == (step, 5 + 2, (3 + 5 + 2) * step), "an end mark is a step within the limit"
    layers, d = S.decoder_layers, S.d_model
    own = sum(2 * p for t in (3, 5, 2) for p in range(1, t + 1))
    cross = sum(2 * n * t for n, t in ((3, 3), (2, 5), (2, 2)))
    assert greedy.attention == (own + cross) * layers * d
    _, beam = phases_of(S, batches, outputs, beam=4, longest=5)
    assert beam.passes == greedy.passes
    assert beam.products == (1 + 2 * 4 + 1 + 4 * 4 + 1 + 4) * step


def test_the_slower_of_memory_and_arithmetic_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roof, "bandwidth", lambda n_bytes, machine: 100.0)
    monkeypatch.setattr(roof, "peak", lambda int8, machine: 40.0 if int8 else 10.0)
    assert Phase(100, 3, 80, 10).roof(True, MACHINE) == Roof(3.0, "memory")
    assert Phase(100, 3, 80, 10).roof(False, MACHINE) == Roof(12.0, "memory")
    assert Phase(10, 1, 80, 10).roof(True, MACHINE) == Roof(3.0, "arithmetic")


def test_limits_of_the_machine_are_measured() -> None:
    assert 1e8 < bandwidth(2**20, MACHINE) < 1e13
    for int8 in (True, False):
        assert 1e8 < peak(int8, MACHINE) < 1e13
    whole = decoding_roof(S, [[[5, 6, 3]]], [[4, 4]], 1, 9, int8=True, machine=MACHINE)
    assert 0 < whole.seconds < 1 and whole.limit in ("memory", "arithmetic")


def test_the_buffer_is_read_from_end_to_end() -> None:
    assert roof.total(np.arange(1_000), 3) == 3 * 499_500
