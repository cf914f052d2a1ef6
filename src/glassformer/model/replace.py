"""Other modules in the place of a model's own."""

from collections.abc import Callable

from torch import nn

Convert = Callable[[nn.Module, str], nn.Module | None]  # of a module and its name: its heir
Fill = Callable[[nn.Module, str], None]  # gives a module of this name its weights


class Heir(nn.Module):
    """A module in another's place, whose `weight` is worked out each time it is asked for."""

    def __dir__(self) -> list[str]:
        """Without it: what looks at all that is here, as recording does, would work it out too."""
        names: list[str] = super().__dir__()  # type: ignore[no-untyped-call]
        return [name for name in names if name != "weight"]


def nothing(module: nn.Module, name: str) -> None:
    """The `Fill` of a model that has its weights."""


def replace(model: nn.Module, convert: Convert) -> None:
    """Put convert(part, name) in the place of each part; where it gives None, look inside.

    A part that stands in several places, such as an embedding that encoder and decoder share, has
    one heir.
    """
    _look_inside(model, "", convert, {})


def _look_inside(
    parent: nn.Module, path: str, convert: Convert, heirs: dict[int, nn.Module | None]
) -> None:
    """`heirs` are by the identity of what was there: parts that are replaced are let go at once."""
    for name in [name for name, _ in parent.named_children()]:
        child = parent.get_submodule(name)
        if id(child) not in heirs:
            heirs[id(child)] = convert(child, path + name)
        heir = heirs[id(child)]
        if heir is None:
            _look_inside(child, f"{path}{name}.", convert, heirs)
        else:
            setattr(parent, name, heir)
