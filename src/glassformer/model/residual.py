"""The residual connection around a sub-layer, with the norm after or before it.

PostNorm (§3.1, §5.4)                    PreNorm (Xiong et al., 2020)

x ──┬── sublayer ── dropout ──┐          x ──┬── norm ── sublayer ── dropout ──┐
    └─────────────────────────+── norm       └─────────────────────────────────+──
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from glassformer.model.dropout import Dropout

Sublayer = Callable[[Tensor], Tensor]


class PostNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))): the paper's."""

    def __init__(self, norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm, self.dropout = norm, Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        return self.norm(x + self.dropout(sublayer(x)))


class PreNorm(nn.Module):
    """x + Dropout(Sublayer(LayerNorm(x))): the identity runs through; the stack ends in a norm."""

    def __init__(self, norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm, self.dropout = norm, Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        return x + self.dropout(sublayer(self.norm(x)))


Residual = PostNorm | PreNorm
ResidualFactory = Callable[[], Residual]
