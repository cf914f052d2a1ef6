"""The encoder: the left half of Figure 1."""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.model.attention import MultiHeadAttention, Rotation
from glassformer.model.residual import ResidualFactory
from glassformer.model.stack import Stack


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside a residual (§3.1)."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        feed_forward: nn.Module,
        residual: ResidualFactory,
    ) -> None:
        super().__init__()
        self.self_attention, self.self_attention_residual = self_attention, residual()
        self.feed_forward, self.feed_forward_residual = feed_forward, residual()

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        mask: Tensor | None = None,
        rotate: Rotation | None = None,
        bias: Float[Tensor, "H S S"] | None = None,
    ) -> Float[Tensor, "B S D"]:
        attend = partial(self.self_attention, mask=mask, rotate=rotate, bias=bias)
        x = self.self_attention_residual(x, attend)
        return self.feed_forward_residual(x, self.feed_forward)


class TransformerEncoder(Stack):
    """Map token ids to one vector per token, computed from all tokens."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Float[Tensor, "B S D"]:
        positions = torch.arange(ids.size(-1), device=ids.device)
        x = self.embed(ids, positions)
        rotate, bias = self.geometry(positions, positions)
        for layer in self.layers:
            x = self.run(layer, x, mask, rotate, bias)
        return self.final_norm(x)
