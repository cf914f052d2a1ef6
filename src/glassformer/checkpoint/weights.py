"""Weights of a torch model by name. Only training and the torch decoder import this file."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.errors import CheckpointError


def as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Return numpy arrays. They share the memory of tensors that are on the CPU."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def as_tensors(weights: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return copies of arrays as tensors. What is a tensor already is returned as it is."""
    return {
        name: weights[name] if isinstance(weights[name], Tensor) else torch.tensor(weights[name])
        for name in weights
    }


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return every parameter and persistent buffer once, a tied one under its first name."""
    kept, names = model.state_dict(keep_vars=True), set(stored_names(model).values())
    return {name: tensor.detach() for name, tensor in kept.items() if name in names}


def stored_names(model: nn.Module) -> dict[str, str]:
    """Map each parameter to its name in `weights_of`: its own, or the first of those tied to it."""
    kept = model.state_dict(keep_vars=True)
    first = {id(tensor): name for name, tensor in reversed(kept.items())}
    return {name: first[id(tensor)] for name, tensor in kept.items()}


def set_weights(model: nn.Module, weights: Mapping[str, Any]) -> None:
    """Copy weights, arrays or tensors, into a model of the same settings."""
    check_shapes(model, {name: tuple(weights[name].shape) for name in weights})
    # Not strict: a tied weight is missing, and is set under the name that is there.
    model.load_state_dict(as_tensors(weights), strict=False)


def adopt_weights(model: nn.Module, weights: Mapping[str, Any], same_answers: bool = True) -> None:
    """Copy the stacks that both models have, such as an encoder, each of them whole.

    The output layer is copied only if it has the same shape and `same_answers`.
    """
    own, weights = weights_of(model), as_tensors(weights)
    stacks = _stacks(own) & _stacks(weights) or _stacks(own)
    mine, theirs = (
        {name: tuple(w[name].shape) for name in w if name.partition(".")[0] in stacks}
        for w in (own, weights)
    )
    if mine != theirs:
        name = next(n for n in mine | theirs if mine.get(n) != theirs.get(n))
        raise CheckpointError(
            f"The run cannot begin with those weights: {name} is {theirs.get(name, 'absent')} "
            "there.",
            f"In the new model it is {mine.get(name, 'absent')}.",
            "Give [model] of both recipes the same shape, or leave train.start_from out.",
        )
    for name, tensor in own.items():
        wanted = same_answers or not name.startswith("output.")
        if wanted and name in weights and weights[name].shape == tensor.shape:
            tensor.copy_(weights[name])


def _stacks(names: Iterable[str]) -> set[str]:
    """Return the parts that do not depend on the labels. Votes of n-grams are counted anew."""
    return {name.partition(".")[0] for name in names} - {"output", "votes"}


def check_shapes(model: nn.Module, given: dict[str, tuple[int, ...]]) -> None:
    """Refuse the weights of another model."""
    expected = {name: tuple(tensor.shape) for name, tensor in weights_of(model).items()}
    if expected != given:
        name = min(n for n in expected | given if expected.get(n) != given.get(n))
        raise CheckpointError(
            f"The weights are of another model: {name} is {given.get(name, 'absent')}.",
            f"This model has {expected.get(name, 'no such tensor')} there.",
            "Load a checkpoint with the settings that lie in its folder.",
        )
