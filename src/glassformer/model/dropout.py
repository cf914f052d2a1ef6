"""Dropout (§5.4), on a CPU with a quarter of the random draws."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import InputError

LANES = 4  # of 16 bits, in one draw of 64
LEVELS = 2**16


def dropout(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """Zero each value with probability `p` (to 1 part in 65,536) and scale the rest to keep E[x].

    On a CPU torch draws one random number per value and takes five times as long over it. Four
    values share a draw here. Compiled code and GPUs fuse torch's own, so they get that.
    """
    if check_probability(p) == 0.0:
        return x
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return F.dropout(x, p)
    dropped = min(round(p * LEVELS), LEVELS - 1)
    draws = torch.empty(-(-x.numel() // LANES), dtype=torch.int64, device=x.device)
    bits = draws.random_(-(2**63), None).view(torch.int16)[: x.numel()].view(x.shape)
    keep = torch.ge(bits, dropped - LEVELS // 2, out=torch.empty_like(x, requires_grad=False))
    return x * keep.mul_(LEVELS / (LEVELS - dropped))


def check_probability(p: float) -> float:
    if not 0.0 <= p < 1.0:
        raise InputError(
            f"dropout = {p}.",
            "It is the share of values to zero: 0 ≤ dropout < 1.",
            "Use 0.1 as in the paper, up to 0.3 for small data, or 0 for none.",
        )
    return p


class Dropout(nn.Module):
    """`dropout` while training, nothing otherwise."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = check_probability(p)

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return dropout(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        return f"p={self.p}"
