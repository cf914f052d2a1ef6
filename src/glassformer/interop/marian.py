"""Conversion to Hugging Face's MarianMTModel, for equivalence tests and benchmarks."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from glassformer.errors import InputError, MissingPackageError
from glassformer.interop.links import Link, linear_links, norm_links, send
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.embedding import TokenEmbedding
from glassformer.model.feed_forward import FeedForward, SiLUFeedForward
from glassformer.model.norm import LayerNorm
from glassformer.model.positions import HalvesEncoding, PositionalEncoding, sinusoids
from glassformer.model.residual import PostNorm
from glassformer.model.transformer import Transformer

ACTIVATIONS: dict[type, str] = {FeedForward: "relu", SiLUFeedForward: "swish"}


def to_marian(model: Transformer, max_length: int = 1_024) -> Any:
    """Return a MarianMTModel equivalent to `model`, for sentences of up to `max_length` tokens.

    The paper interleaves sines and cosines; Marian puts them in two halves. So its position table
    is replaced. Marian does not save that table (`set_positions`). Its attention has biases, which
    are 0 where ours has none.
    """
    try:
        from transformers import MarianConfig, MarianMTModel
    except ImportError:
        raise MissingPackageError("transformers", "A MarianMTModel", "peers") from None
    check(model)
    encoder, decoder = model.encoder, model.decoder
    layer: Any = encoder.layers[0]
    d_model = encoder.embedding.weight.size(1)
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=encoder.embedding.weight.size(0),
            decoder_vocab_size=decoder.embedding.weight.size(0),
            share_encoder_decoder_embeddings=encoder.embedding is decoder.embedding,
            tie_word_embeddings=model.output.weight is decoder.embedding.weight,
            d_model=d_model,
            encoder_layers=len(encoder.layers),
            decoder_layers=len(decoder.layers),
            encoder_attention_heads=layer.self_attention.n_heads,
            decoder_attention_heads=layer.self_attention.n_heads,
            encoder_ffn_dim=layer.feed_forward.expand.out_features,
            decoder_ffn_dim=layer.feed_forward.expand.out_features,
            activation_function=ACTIVATIONS[type(layer.feed_forward)],
            scale_embedding=True,
            max_position_embeddings=max_length,
            dropout=layer.self_attention_residual.dropout.p,
            attention_dropout=layer.self_attention.dropout,
            activation_dropout=layer.feed_forward.dropout.p,
            pad_token_id=model.pad_id,
            bos_token_id=2,
            eos_token_id=3,
            decoder_start_token_id=2,
            forced_eos_token_id=None,
            attn_implementation="sdpa",
        )
    )
    if encoder.embedding is decoder.embedding:  # Marian shares them only with the output
        for stack in (theirs.model.encoder, theirs.model.decoder):
            stack.embed_tokens = theirs.model.shared
    theirs.to(encoder.embedding.weight.dtype).train(model.training)
    send(marian_links(model, theirs), theirs)
    if model.output.bias is not None:
        theirs.final_logits_bias = model.output.bias.detach()[None].clone()
    if not isinstance(encoder.positions, HalvesEncoding):  # Marian's own layout
        set_positions(theirs)
    return theirs


def set_positions(theirs: Any) -> None:
    """Set the paper's positions in a MarianMTModel; needed again after loading it."""
    for stack in (theirs.model.encoder, theirs.model.decoder):
        table = stack.embed_positions.weight.data
        table.copy_(sinusoids(torch.arange(table.size(0)), table.size(1)))


def marian_links(ours: Transformer, theirs: Any) -> Iterable[Link]:
    pairs = ((ours.encoder, theirs.model.encoder), (ours.decoder, theirs.model.decoder))
    for mine, other in pairs:
        yield Link(mine.embedding.weight, other.embed_tokens.weight)
        for my_layer, other_layer in zip(mine.layers, other.layers, strict=True):
            yield from _layer_links(my_layer, other_layer)
    yield Link(ours.output.weight, theirs.lm_head.weight)


def _layer_links(ours: Any, theirs: Any) -> Iterable[Link]:
    sublayers = [("self_attention", "self_attn")]
    if hasattr(theirs, "encoder_attn"):
        sublayers.append(("cross_attention", "encoder_attn"))
    for mine, other in sublayers:
        yield from _attention_links(getattr(ours, mine), getattr(theirs, other))
        residual = getattr(ours, f"{mine}_residual")
        yield from norm_links(residual.norm, getattr(theirs, f"{other}_layer_norm"))
    yield from linear_links(ours.feed_forward.expand, theirs.fc1)
    yield from linear_links(ours.feed_forward.contract, theirs.fc2)
    yield from norm_links(ours.feed_forward_residual.norm, theirs.final_layer_norm)


def _attention_links(ours: MultiHeadAttention, theirs: Any) -> Iterable[Link]:
    d = theirs.embed_dim
    q, kv = (ours.q, ours.kv) if ours.cross else (ours.qkv, ours.qkv)
    first = 0 if ours.cross else d
    yield from linear_links(q, theirs.q_proj, slice(0, d))
    yield from linear_links(kv, theirs.k_proj, slice(first, first + d))
    yield from linear_links(kv, theirs.v_proj, slice(first + d, first + 2 * d))
    yield from linear_links(ours.output, theirs.out_proj)


def check(model: Transformer) -> None:
    """Refuse an architecture that Marian does not have."""
    layer: Any = model.encoder.layers[0]
    needs: dict[str, tuple[nn.Module, type | tuple[type, ...]]] = {
        "post-norm residuals": (layer.self_attention_residual, PostNorm),
        "layer-norm": (layer.self_attention_residual.norm, LayerNorm),
        "a relu or silu feed-forward": (layer.feed_forward, (FeedForward, SiLUFeedForward)),
        "sinusoidal positions": (model.encoder.positions, (PositionalEncoding, HalvesEncoding)),
        "embeddings in fp32": (model.encoder.embedding, TokenEmbedding),
    }
    for what, (module, kind) in needs.items():
        if type(module) not in (kind if isinstance(kind, tuple) else (kind,)):
            _refuse(f"{type(module).__name__} cannot be written as a MarianMTModel.", what)
    if model.decoder.zero_start:
        _refuse("A decoder that starts from zeros cannot be written.", "a vector of the mark")
    for stack in (model.encoder, model.decoder):
        if not isinstance(stack.embedding_norm, nn.Identity):
            _refuse("A norm of the embedding cannot be written as a MarianMTModel.", "none there")
    if layer.self_attention.n_kv_heads != layer.self_attention.n_heads:
        _refuse("Grouped queries cannot be written as a MarianMTModel.", "n_kv_heads = n_heads")


def _refuse(what: str, needed: str) -> None:
    raise InputError(
        what,
        f"Marian has the paper's architecture, with {needed}.",
        "Build the model from vaswani2017-base or with its settings.",
    )
