"""Rotations as complex products are those of the model, forward and backward."""

import pytest
import torch

from glassformer.config import ModelSettings
from glassformer.model.build import build
from glassformer.model.positions import RotaryEmbedding
from glassformer.train.rotary import ComplexRotary, use_complex_rotary


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("first", [0, 1_000])
def test_rotations_and_gradients_are_those_of_the_model(dtype: torch.dtype, first: int) -> None:
    """On heads that are a part of a larger tensor, as those of a projection are."""
    projected = torch.randn(2, 5, 3 * 2 * 8, dtype=dtype, requires_grad=True)
    positions, upstream = torch.arange(first, first + 5), torch.randn(2, 2, 5, 8, dtype=dtype)
    found = []
    for module in (ComplexRotary(8), RotaryEmbedding(8)):
        heads = projected.unflatten(-1, (-1, 8)).transpose(1, 2).split([2, 2, 2], dim=1)
        turned = module.turn(heads[1], positions)
        found.append((turned, *torch.autograd.grad(turned, projected, upstream)))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    ("pairs", "kind"), [("neighbours", ComplexRotary), ("halves", RotaryEmbedding)]
)
def test_a_model_turns_neighbours_by_complex_products(pairs: str, kind: type) -> None:
    settings = ModelSettings(
        vocab_size=20, d_model=8, n_heads=2, d_ff=12, encoder_layers=1, decoder_layers=1,
        positions="rope", rope_pairs=pairs, dropout=0,
    )  # fmt: skip
    model = build(settings)
    ids = torch.randint(4, 20, (2, 5))
    before = model(ids, ids)
    use_complex_rotary(model)
    assert {type(m) for m in model.modules() if isinstance(m, RotaryEmbedding)} == {kind}
    torch.testing.assert_close(model(ids, ids), before)
