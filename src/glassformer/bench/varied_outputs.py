"""Random weights whose outputs vary.

A freshly initialised model repeats one token whatever its source is: no beam is reordered, and
engines that compute different things may still agree. Speed is measured on outputs that vary.
"""

from typing import Any

import torch
from torch import nn

from glassformer.model.norm import LayerNorm
from glassformer.model.transformer import Transformer

EMBEDDING_FACTOR = 4.0  # tokens count for more than their positions
CROSS_ATTENTION_FACTOR = 0.3  # the source counts for less than the output so far
BANNED_LOGIT = -20.0


@torch.no_grad()
def vary_outputs(model: Transformer, banned: list[int]) -> Transformer:
    """Change the weights of a translator with layer norms so that its outputs vary.

    The mean of the features is subtracted, since it favours the same token everywhere. Tokens in
    `banned` get a low logit: our search bans padding and the begin token, others do not.
    """
    for weight in {model.encoder.embedding.weight, model.decoder.embedding.weight}:
        weight.mul_(EMBEDDING_FACTOR)
    layers: Any = model.decoder.layers
    for layer in layers:
        layer.cross_attention.output.weight.mul_(CROSS_ATTENTION_FACTOR)
    norm, (vocab_size, width) = _last_norm(model), model.output.weight.shape
    norm.gain.copy_(torch.randint(0, 2, (width,)) * 2 - 1)  # else a tied output repeats its input
    norm.bias.zero_()
    source, target = torch.randint(4, vocab_size, (2, 32, 24))
    norm.bias.copy_(-model.features(source, target).mean((0, 1)))
    norm.gain[0], norm.bias[0] = 0.0, 1.0  # a feature that is always 1: its weights are a bias
    model.output.weight[:, 0] = 0.0
    model.output.weight[banned, 0] = BANNED_LOGIT
    return model


def _last_norm(model: Transformer) -> LayerNorm:
    last: Any = model.decoder.layers[-1]
    norm = model.decoder.final_norm
    if isinstance(norm, nn.Identity):  # post-norm has one at the end of every layer
        norm = last.feed_forward_residual.norm
    assert isinstance(norm, LayerNorm), "a norm with a bias"
    return norm
