"""The peers of `bench model` and `bench train`: other libraries with the same weights."""

import warnings
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.interop.links import send
from glassformer.interop.marian import to_marian
from glassformer.interop.torch_nn import transformer_links
from glassformer.model.positions import sinusoids
from glassformer.model.transformer import Transformer


class TorchPeer(nn.Module):
    """nn.Transformer, with the embeddings, positions and output that it leaves to its user.

    Dropout is where ours is, so that all contenders do the same work.
    """

    def __init__(self, model: Transformer, max_length: int) -> None:
        super().__init__()
        layer: Any = model.encoder.layers[0]
        table = model.encoder.embedding.weight
        d_model, dropout = table.size(1), model.encoder.dropout.p
        self.pad_id = model.pad_id
        self.transformer = nn.Transformer(
            d_model,
            layer.self_attention.n_heads,
            len(model.encoder.layers),
            len(model.decoder.layers),
            layer.feed_forward.expand.out_features,
            dropout,
            batch_first=True,
        )
        self.transformer.encoder.norm = self.transformer.decoder.norm = None
        send(transformer_links(model, self.transformer), self.transformer)
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout = nn.Dropout(0.0)  # the one between the two products
        self.embedding = nn.Embedding.from_pretrained(table.detach().clone(), freeze=False)
        self.dropout = nn.Dropout(dropout)
        self.positions: Tensor
        self.register_buffer("positions", sinusoids(torch.arange(max_length), d_model).float())

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding = source == self.pad_id
        causal = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        with warnings.catch_warnings():  # its fast path warns of nested tensors
            warnings.simplefilter("ignore", UserWarning)
            hidden = self.transformer(
                self.embed(source),
                self.embed(target),
                tgt_mask=causal,
                tgt_is_causal=True,
                src_key_padding_mask=padding,
                memory_key_padding_mask=padding,
            )
        return F.linear(hidden, self.embedding.weight)

    def embed(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) * sqrt(self.embedding.embedding_dim)
        return self.dropout(x + self.positions[: ids.size(1)])


class MarianPeer(nn.Module):
    """Hugging Face's MarianMTModel, attention through torch's SDPA."""

    def __init__(self, model: Transformer, max_length: int) -> None:
        super().__init__()
        self.marian = to_marian(model, max_length)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.marian(
            input_ids=source,
            attention_mask=source != self.marian.config.pad_token_id,
            decoder_input_ids=target,
            use_cache=False,
        ).logits
