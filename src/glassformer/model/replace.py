"""Replace modules of a model by others."""

from collections.abc import Callable

from torch import nn

Convert = Callable[[nn.Module, str], nn.Module | None]  # of a module and its name


def replace(model: nn.Module, convert: Convert) -> None:
    """Replace each module by convert(module, name); where that is None, go on inside the module.

    A module that is used in several places, such as a shared embedding, is converted once.
    """
    _replace_children(model, "", convert, {})


def _replace_children(
    parent: nn.Module, path: str, convert: Convert, replacements: dict[int, nn.Module | None]
) -> None:
    """Replace the children of `parent`; `replacements` are by the id of the replaced module."""
    for name in [name for name, _ in parent.named_children()]:
        child = parent.get_submodule(name)
        if id(child) not in replacements:
            replacements[id(child)] = convert(child, path + name)
        replacement = replacements[id(child)]
        if replacement is None:
            _replace_children(child, f"{path}{name}.", convert, replacements)
        else:
            setattr(parent, name, replacement)
