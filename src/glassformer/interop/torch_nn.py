"""Links to `torch.nn`'s attention, layers and Transformer, for equivalence tests and benchmarks."""

from collections.abc import Iterable
from typing import Any

from torch import nn

from glassformer.interop.links import Link, linear_links, norm_links
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.transformer import Transformer


def attention_links(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> Iterable[Link]:
    d = theirs.embed_dim
    parts = [(ours.q, slice(0, d)), (ours.kv, slice(d, None))] if ours.cross else []
    for linear, rows in parts or [(ours.qkv, slice(None))]:
        yield Link(linear.weight, theirs.in_proj_weight, their_rows=rows)
        if linear.bias is not None and theirs.in_proj_bias is not None:
            yield Link(linear.bias, theirs.in_proj_bias, their_rows=rows)
    yield from linear_links(ours.output, theirs.out_proj)


def layer_links(
    ours: Any, theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
) -> Iterable[Link]:
    """Link an encoder or decoder layer; torch numbers norms in the order of the sub-layers."""
    yield from attention_links(ours.self_attention, theirs.self_attn)
    residuals = [ours.self_attention_residual]
    if isinstance(theirs, nn.TransformerDecoderLayer):
        yield from attention_links(ours.cross_attention, theirs.multihead_attn)
        residuals.append(ours.cross_attention_residual)
    residuals.append(ours.feed_forward_residual)
    yield from linear_links(ours.feed_forward.expand, theirs.linear1)
    yield from linear_links(ours.feed_forward.contract, theirs.linear2)
    for number, residual in enumerate(residuals, 1):
        yield from norm_links(residual.norm, getattr(theirs, f"norm{number}"))


def transformer_links(ours: Transformer, theirs: nn.Transformer) -> Iterable[Link]:
    """Link both stacks; nn.Transformer has neither embeddings nor an output projection."""
    for mine, other in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for my_layer, other_layer in zip(mine.layers, other.layers, strict=True):
            yield from layer_links(my_layer, other_layer)
        if other.norm is not None:
            yield from norm_links(mine.final_norm, other.norm)
