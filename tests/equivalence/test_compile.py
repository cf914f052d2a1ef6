"""torch.compile takes every model in one piece and gives what it gives without."""

import shutil
from collections.abc import Iterator

import pytest
import torch
from torch._inductor import config as inductor
from torch.testing import assert_close

from equivalence.variants import (
    KINDS,
    SEAMS,
    Case,
    all_pairs,
    batch,
    gradients,
    label,
    shrunk,
    toy,
)
from glassformer.config import PRESETS, ModelSettings
from glassformer.model.build import Model, build

pytestmark = pytest.mark.usefixtures("unchecked", "fresh_compiler")
# Presets that differ in size alone are one model at toy size.
SHRUNK = {shrunk(name, dropout=0.0): name for name in reversed(PRESETS)}
SHRUNK[shrunk("classifier", dropout=0.0, activation_checkpointing=True)] = "checkpointed"


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def assert_compiles(model: Model, kind: str, backend: str, **tolerance: float) -> None:
    ids = batch(kind)
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    expected, output = model(*ids), compiled(*ids)
    assert_close(output, expected, **tolerance)
    assert_close(gradients(model, output), gradients(model, expected), **tolerance)


@pytest.mark.parametrize("case", all_pairs({"kind": KINDS, **SEAMS}), ids=label)
def test_every_variant_is_one_graph(case: Case) -> None:
    model = toy(**case, decoder_layers=1).train()
    assert_compiles(model, case["kind"], "aot_eager", atol=1e-12, rtol=1e-12)


@pytest.mark.skipif(
    shutil.which(inductor.cpp.cxx[1]) is None,
    reason="compiling to machine code needs a C++ compiler",
)
@pytest.mark.parametrize("settings", SHRUNK, ids=SHRUNK.values())
def test_every_preset_compiles_to_machine_code(settings: ModelSettings) -> None:
    assert_compiles(build(settings).train(), settings.kind, "inductor", atol=1e-5, rtol=1e-5)
