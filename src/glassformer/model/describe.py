"""Describe a model: parts, shapes, parameters, and FLOPs per token."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from glassformer.model.attention import MultiHeadAttention


@dataclass(frozen=True)
class Part:
    """One kind of part, which occurs in `copies` layers."""

    name: str
    shape: str
    copies: int
    parameters: int  # of all copies; 0 where the weight is another part's
    flops: int  # of all copies, for one token


@dataclass(frozen=True)
class Description:
    parts: list[Part]
    length: int

    @property
    def parameters(self) -> int:
        return sum(part.parameters for part in self.parts)

    @property
    def flops(self) -> int:
        """FLOPs of one source token and one target token together."""
        return sum(part.flops for part in self.parts)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table as text: a heading, a row per part, the total."""
        heading = ("part", "shape", "copies", "parameters", "FLOPs/token")
        body = [
            (p.name, p.shape, f"{p.copies}", f"{p.parameters:,}", f"{p.flops:,}")
            for p in self.parts
        ]
        return [heading, *body, ("total", "", "", f"{self.parameters:,}", f"{self.flops:,}")]

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

        def line(row: tuple[str, ...]) -> str:
            left = f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}"
            return "  ".join([left, *(f"{row[i]:>{widths[i]}}" for i in range(2, len(row)))])

        return "\n".join(line(row) for row in rows) + (
            f"\nFLOPs: forward, one token per stack, attending to {self.length} positions."
        )


def describe(model: nn.Module, length: int = 24) -> Description:
    """Return the parts of `model`. Attention is counted for `length` keys.

    A multiply and an add are two FLOPs. Only matrix products are counted.
    """
    merged: dict[str, Part] = {}
    for part in _parts(model, length):
        seen = merged.get(part.name)
        if seen is not None:
            part = Part(
                part.name,
                part.shape,
                seen.copies + 1,
                seen.parameters + part.parameters,
                seen.flops + part.flops,
            )
        merged[part.name] = part
    return Description(list(merged.values()), length)


def _parts(model: nn.Module, length: int) -> Iterator[Part]:
    counted: set[int] = set()
    for path, module in model.named_modules(remove_duplicate=False):
        name = re.sub(r"\.\d+\.", ".*.", path)
        own = [(n, p) for n, p in module.named_parameters(recurse=False)]
        if isinstance(module, MultiHeadAttention):
            width = module.n_heads * module.d_k
            yield Part(f"{name} (QKᵀ, ·V)", f"{width}×n", 1, 0, 2 * 2 * width * length)
        elif own:
            weight = own[0][1]
            parameters = sum(p.numel() for _, p in own if id(p) not in counted)
            counted.update(id(p) for _, p in own)
            shape = "×".join(f"{n}" for n in weight.shape)
            shape += " + bias" if isinstance(module, nn.Linear) and module.bias is not None else ""
            shape += " (tied)" if parameters == 0 else ""
            is_product = isinstance(module, nn.Linear)
            yield Part(name, shape, 1, parameters, 2 * weight.numel() if is_product else 0)
