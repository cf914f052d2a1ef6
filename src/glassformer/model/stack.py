"""The common part of encoder and decoder: embedding, positions, layers, final norm."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from glassformer.errors import InputError
from glassformer.model.attention import Rotation
from glassformer.model.dropout import Dropout
from glassformer.model.embedding import TokenEmbedding
from glassformer.model.positions import NoPositions


class Stack(nn.Module):
    """N layers over embedded tokens.

    `activation_checkpointing` stores only the input of each layer and recomputes the rest in the
    backward pass: less memory, more time, the same gradients.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        positions: NoPositions,
        layers: Iterable[nn.Module],
        final_norm: nn.Module | None = None,
        dropout: float = 0.0,
        embedding_norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.positions = embedding, positions
        self.embedding_norm = nn.Identity() if embedding_norm is None else embedding_norm
        self.layers = nn.ModuleList(layers)
        if not self.layers:
            raise InputError(
                "A stack was given no layers.",
                "An encoder or decoder is one or more layers.",
                "Pass at least one layer.",
            )
        self.final_norm = nn.Identity() if final_norm is None else final_norm
        self.dropout = Dropout(dropout)
        self.activation_checkpointing = False

    def embed(self, ids: Tensor, positions: Int[Tensor, "T"]) -> Float[Tensor, "B T D"]:
        """Dropout(Embedding(ids) + PE): the bottom of Figure 1. BERT and BART norm the sum."""
        x = self.positions.embed(self.embed_tokens(ids, positions), positions)
        return self.dropout(self.embedding_norm(x))

    def embed_tokens(self, ids: Tensor, positions: Int[Tensor, "T"]) -> Float[Tensor, "B T D"]:
        """Return the vectors of `ids`, before positions are added."""
        return self.embedding(ids)

    def geometry(
        self, q_positions: Int[Tensor, "T"], k_positions: Int[Tensor, "S"]
    ) -> tuple[Rotation, Tensor | None]:
        """Return the rotation and bias of self-attention, which are the same in every layer.

        Keys are rotated before they are cached, so only new keys are, at the queries' positions.
        """
        rotate = partial(self.positions.rotate, q_positions=q_positions, k_positions=q_positions)
        return rotate, self.positions.bias(q_positions, k_positions)

    def run(self, layer: nn.Module, *args: Any) -> Float[Tensor, "B T D"]:
        if self.activation_checkpointing and self.training and torch.is_grad_enabled():
            output: Tensor = checkpoint(layer, *args, use_reentrant=False)
            return output
        return layer(*args)
