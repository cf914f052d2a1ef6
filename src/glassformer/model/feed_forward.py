"""Position-wise feed-forward networks (§3.3): the same two or three products at every position."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.model.dropout import Dropout


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W₁ + b₁) W₂ + b₂: Equation 2."""

    def __init__(self, d_model: int, d_ff: int, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff, bias)
        self.contract = nn.Linear(d_ff, d_model, bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.contract(self.dropout(F.relu(self.expand(x))))


class GELUFeedForward(FeedForward):
    """FFN(x) = GELU(x W₁ + b₁) W₂ + b₂ (Hendrycks and Gimpel, 2016)."""

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.contract(self.dropout(F.gelu(self.expand(x))))


class TanhGELUFeedForward(FeedForward):
    """FFN(x) = GELU(x W₁ + b₁) W₂ + b₂ with GELU(x) ≈ x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))."""

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.contract(self.dropout(F.gelu(self.expand(x), approximate="tanh")))


class SiLUFeedForward(FeedForward):
    """FFN(x) = SiLU(x W₁ + b₁) W₂ + b₂ with SiLU(x) = x σ(x) (Ramachandran et al., 2017)."""

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.contract(self.dropout(F.silu(self.expand(x))))


class SwiGLUFeedForward(nn.Module):
    """FFN(x) = (SiLU(x W) ⊙ x V) W₂ (Shazeer, 2020); W and V are one product."""

    def __init__(self, d_model: int, d_ff: int, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, 2 * d_ff, bias)
        self.contract = nn.Linear(d_ff, d_model, bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        gate, value = self.expand(x).chunk(2, dim=-1)
        return self.contract(self.dropout(F.silu(gate) * value))


class TanhGEGLUFeedForward(SwiGLUFeedForward):
    """FFN(x) = (GELU(x W) ⊙ x V) W₂ (Shazeer, 2020), with GELU by tanh as T5 1.1 has it."""

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        gate, value = self.expand(x).chunk(2, dim=-1)
        return self.contract(self.dropout(F.gelu(gate, approximate="tanh") * value))
