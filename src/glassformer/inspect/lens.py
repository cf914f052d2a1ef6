"""Logit lens: the output that each layer of a decoder would predict (nostalgebraist, 2020).

The residual stream after a layer goes through the last norm and the output projection, as if the
layers behind it were not there.
"""

from collections.abc import Sequence
from contextlib import ExitStack

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.model.transformer import LanguageModel, Transformer


@torch.no_grad()
def logit_lens(
    model: Transformer | LanguageModel, source: Sequence[int] | None, inputs: Sequence[int]
) -> Float[Tensor, "layers T V"]:
    """Return the log-probabilities after the embedding and after each layer, for each step."""
    stream: list[Tensor] = []
    layers = model.decoder.layers
    read = torch.tensor([list(inputs)])
    with ExitStack() as hooks:
        before = layers[0].register_forward_pre_hook(lambda _, given: stream.append(given[0]))
        hooks.callback(before.remove)
        for layer in layers:
            after = layer.register_forward_hook(lambda *given: stream.append(given[-1]))
            hooks.callback(after.remove)
        if isinstance(model, Transformer):
            model(torch.tensor([list(source or [])]), read)
        else:
            model(read)
    norm = model.decoder.final_norm
    return torch.stack([model.output(norm(x))[0].log_softmax(-1) for x in stream])
