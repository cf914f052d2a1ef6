"""Initialisation: `xavier` gives every parameter of a model its first value.

matrices        uniform in ±√(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010), W^Q, W^K and
                W^V each by its own size although they are one matrix
embeddings      normal, standard deviation 1/√d_model: vectors of standard deviation 1 after the
                factor √d_model, and logits of that size where the table is tied to the output
gains, biases   1, 0

A registered variant (`glassformer.register`) keeps the values of its own constructor.
"""

from math import sqrt

from torch import nn

from glassformer.errors import InputError
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.embedding import TokenEmbedding
from glassformer.model.feed_forward import FeedForward, SwiGLUFeedForward
from glassformer.model.norm import LayerNorm, RMSNorm
from glassformer.model.positions import LearnedBias, LearnedPositions
from glassformer.model.residual import PostNorm, PreNorm
from glassformer.model.stack import Stack


def xavier(model: nn.Module) -> None:
    """Initialise as most implementations do; the paper names no initialisation."""
    tables = {
        id(m.weight) for m in model.modules() if isinstance(m, TokenEmbedding | LearnedPositions)
    }
    packed = _packed_widths(model)
    of_variants = [m for m in model.modules() if getattr(m, "initialises_itself", False)]
    done = {id(part) for variant in of_variants for part in variant.modules()}
    for module in model.modules():
        if id(module) in done:
            continue
        if isinstance(module, nn.Linear):
            if id(module.weight) not in tables:  # a tied output projection is an embedding
                _xavier_blocks(module, packed.get(id(module), [module.out_features]))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, TokenEmbedding | LearnedPositions):
            nn.init.normal_(module.weight, std=1 / sqrt(module.weight.size(1)))
        elif isinstance(module, LearnedBias):
            nn.init.zeros_(module.weight)
        elif isinstance(module, LayerNorm | RMSNorm):
            nn.init.ones_(module.gain)
            if isinstance(module, LayerNorm):
                nn.init.zeros_(module.bias)
        elif next(module.parameters(recurse=False), None) is not None:
            raise InputError(
                f"{type(module).__name__} has parameters that init.py does not know.",
                "A parameter left as it was allocated is noise.",
                "Add its rule to xavier() in model/init.py.",
            )


def depth_scaled(model: nn.Module) -> None:
    """Initialise by `xavier`, with the output of each residual branch divided by √(branches).

    The sum over all branches of a stack then has the variance of one, whatever the depth (the
    scaling of GPT-2: Radford et al., 2019).
    """
    xavier(model)
    for stack in model.modules():
        if isinstance(stack, Stack):
            modules = list(stack.layers.modules())
            branches = sum(isinstance(m, PreNorm | PostNorm) for m in modules)
            for module in modules:
                if isinstance(module, MultiHeadAttention):
                    module.output.weight.data /= sqrt(branches)
                elif isinstance(module, FeedForward | SwiGLUFeedForward):
                    module.contract.weight.data /= sqrt(branches)


def _packed_widths(model: nn.Module) -> dict[int, list[int]]:
    """Return the widths of the matrices that are one Linear, by its id."""
    widths: dict[int, list[int]] = {}
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            q, kv = module.n_heads * module.d_k, module.n_kv_heads * module.d_k
            if module.cross:
                widths[id(module.kv)] = [kv, kv]
            else:
                widths[id(module.qkv)] = [q, kv, kv]
        elif isinstance(module, SwiGLUFeedForward):
            widths[id(module.expand)] = [module.contract.in_features] * 2
    return widths


def _xavier_blocks(linear: nn.Linear, widths: list[int]) -> None:
    for block in linear.weight.data.split(widths):
        nn.init.xavier_uniform_(block)
