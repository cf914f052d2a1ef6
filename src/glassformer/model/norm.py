"""Layer normalisation: each equation as a function, and a module that runs it in one kernel."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


def layer_norm(
    x: Float[Tensor, "*B D"], gain: Float[Tensor, "D"], bias: Float[Tensor, "D"], eps: float
) -> Float[Tensor, "*B D"]:
    """(x - mean) / √(variance + ε) · gain + bias, over the last axis (Ba et al., 2016)."""
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    return (x - mean) / (variance + eps).sqrt() * gain + bias


def rms_norm(
    x: Float[Tensor, "*B D"], gain: Float[Tensor, "D"], eps: float
) -> Float[Tensor, "*B D"]:
    """x / √(mean(x²) + ε) · gain, over the last axis (Zhang and Sennrich, 2019)."""
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * gain


class LayerNorm(nn.Module):
    """`layer_norm` with its gain and bias, in torch's fused kernel."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, self.eps)


class RMSNorm(nn.Module):
    """`rms_norm` with its gain, in torch's fused kernel."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        return F.rms_norm(x, self.gain.shape, self.gain, self.eps)
