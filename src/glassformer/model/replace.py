"""Other modules in the place of a model's own, for inference."""

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


def replace(model: nn.Module, convert: Convert, path: str = "") -> None:
    """Put convert(part, name) in the place of each part; where it gives None, look inside."""
    for name, child in model.named_children():
        new = convert(child, path + name)
        if new is None:
            replace(child, convert, f"{path}{name}.")
        else:
            setattr(model, name, new)
