"""All attention weights of one forward pass, by kind."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.decode.ensemble import as_one
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.model.attention import record_attention
from glassformer.model.transformer import LanguageModel, Transformer

Kind = Literal["encoder", "decoder", "cross"]
Attention = dict[Kind, Float[Tensor, "layers H T S"]]
Changed = Callable[[], AbstractContextManager[None]]  # a change of the model, such as fewer heads


def kind_of(name: str) -> Kind:
    """Return the kind of the attention of this name in a model."""
    if name.endswith("cross_attention"):
        return "cross"
    return "decoder" if name.startswith("decoder.") else "encoder"


def by_kind(maps: Mapping[str, Sequence[Tensor]]) -> Attention:
    """Stack on the CPU the layers that `record_attention` recorded of one sentence in a pass."""
    found: dict[Kind, list[Tensor]] = {}
    for name, (weights,) in maps.items():
        found.setdefault(kind_of(name), []).append(weights[0])
    return {kind: torch.stack(layers).cpu() for kind, layers in found.items()}


@torch.no_grad()
def read(
    model: nn.Module, ids: Int[Tensor, "1 S"], changed: Changed = nullcontext
) -> tuple[Tensor, Attention]:
    """Return the output of a classifier or tagger, and its attention."""
    with record_attention(model) as maps, changed():
        output = model(ids.to(next(model.parameters()).device))
    return output.cpu(), by_kind(maps)


@torch.no_grad()
def decode(
    models: Sequence[Transformer | LanguageModel],
    source: Sequence[int] | None,
    inputs: Sequence[int],
    changed: Changed = nullcontext,
) -> tuple[Float[Tensor, "T V"], Attention]:
    """Return the log-probabilities of the token after each of `inputs`, and the attention.

    It is one pass through the decoder that searches use. Of an ensemble, the attention is that of
    the first model. `changed` is entered after the kernels that record, which replace others.
    """
    decoder = as_one([TorchDecoder(model) for model in models])
    with record_attention(models[0]) as maps, changed():
        decoding = decoder.start(None if source is None else [source], 1, 1, len(inputs))
        rows = decoding.prefill(np.array([inputs], np.int64)).rows()
    return torch.from_numpy(rows[0]), by_kind(maps)
