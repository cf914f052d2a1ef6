"""All attention of one pass through a model, by kind."""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.decode.replay import Speaker
from glassformer.decode.session import Session
from glassformer.model.attention import record_attention

Kind = Literal["encoder", "decoder", "cross"]
Attention = dict[Kind, Float[Tensor, "layers H T S"]]


def kind_of(name: str) -> Kind:
    """What the attention of this name in a model looks from and at."""
    if name.endswith("cross_attention"):
        return "cross"
    return "decoder" if name.startswith("decoder.") else "encoder"


def by_kind(maps: Mapping[str, Sequence[Tensor]]) -> Attention:
    """What `record_attention` recorded of one sentence in one pass, layers stacked."""
    found: dict[Kind, list[Tensor]] = {}
    for name, (weights,) in maps.items():
        found.setdefault(kind_of(name), []).append(weights[0])
    return {kind: torch.stack(layers) for kind, layers in found.items()}


@torch.no_grad()
def read(model: nn.Module, ids: Int[Tensor, "1 S"]) -> tuple[Tensor, Attention]:
    """The output of an encoder with a head, and its attention."""
    with record_attention(model) as maps:
        output = model(ids)
    return output, by_kind(maps)


@torch.no_grad()
def say(
    models: Sequence[Speaker], source: Int[Tensor, "1 S"] | None, inputs: Int[Tensor, "1 T"]
) -> tuple[Float[Tensor, "T V"], Attention]:
    """The log-probabilities of what follows each of `inputs`, and the attention meanwhile.

    Through the session that searches go through too, all at once. Of an ensemble, the attention is
    that of the first model.
    """
    with record_attention(models[0]) as maps:
        logits = Session(models, source, 1, inputs.size(1)).prefill(inputs)
    return logits[0].log_softmax(-1), by_kind(maps)
