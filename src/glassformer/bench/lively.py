"""Untrained weights that say many things.

A freshly initialised model repeats one token for ever, whatever it is asked: no beam is reordered,
and engines that compute different things may still say the same. Speed should be measured, and
engines be compared, on text that varies.
"""

from typing import Any

import torch
from torch import nn

from glassformer.model.norm import LayerNorm
from glassformer.model.transformer import Transformer

LOUDER, FAINTER = 4.0, 0.3
NEVER = -20.0  # as a logit


@torch.no_grad()
def lively(model: Transformer, unsayable: list[int]) -> Transformer:
    """Change the weights of a translator with layer norms so that its answers vary.

    Tokens count for more than their positions, the source for less than what was said already;
    what all features have in common is taken off, and with it the reason to repeat a token. Our
    search never says the marks of padding and beginning, others may: they are made `unsayable`.
    """
    for weight in {model.encoder.embedding.weight, model.decoder.embedding.weight}:
        weight.mul_(LOUDER)
    layers: Any = model.decoder.layers
    for layer in layers:
        layer.cross_attention.output.weight.mul_(FAINTER)
    norm, (n_words, width) = _last_norm(model), model.output.weight.shape
    norm.gain.copy_(torch.randint(0, 2, (width,)) * 2 - 1)  # a tied output echoes its input else
    norm.bias.zero_()
    source, target = torch.randint(4, n_words, (2, 32, 24))
    norm.bias.copy_(-model.features(source, target).mean((0, 1)))
    norm.gain[0], norm.bias[0] = 0.0, 1.0  # a feature that is always 1: its weights are a bias
    model.output.weight[:, 0] = 0.0
    model.output.weight[unsayable, 0] = NEVER
    return model


def _last_norm(model: Transformer) -> LayerNorm:
    last: Any = model.decoder.layers[-1]
    norm = model.decoder.final_norm
    if isinstance(norm, nn.Identity):  # post-norm has one at the end of every layer
        norm = last.feed_forward_residual.norm
    assert isinstance(norm, LayerNorm), "a norm with a bias"
    return norm
