"""Traces as JSON. docs/trace.md describes the format.

Attention is stored in units of 1/65,535, as 16-bit integers in base64. Rounding keeps the sum of a
row, and keeps zeros: a masked cell differs from one with little attention.
"""

import json
from base64 import b64decode, b64encode
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glassformer import __version__
from glassformer.errors import DataError
from glassformer.inspect.trace import Trace
from glassformer.inspect.tree import Node
from glassformer.inspect.words import Side, Word

FORMAT = "glassformer-trace"
VERSION = 1
LEVELS = 65_535
DIGITS = 7  # significant digits: those of a float32


def quantised(weights: Float[Tensor, "*L S"]) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Quantise rows of attention by largest remainders, with an error of at most one level."""
    exact = weights.double().clamp(0, 1) * LEVELS
    whole = exact.floor()
    missing = exact.sum(-1).round() - whole.sum(-1)
    remainders = exact - whole
    rank = remainders.argsort(-1, descending=True).argsort(-1)
    levels = whole + (rank < missing[..., None])
    return levels.numpy().astype("<u2")


def _packed(weights: Tensor) -> dict[str, Any]:
    data = b64encode(quantised(weights).tobytes()).decode("ascii")
    return {"shape": list(weights.shape), "data": data}


def _unpacked(packed: dict[str, Any]) -> Tensor:
    levels = np.frombuffer(b64decode(packed["data"], validate=True), "<u2").astype(np.float64)
    return torch.from_numpy(levels / LEVELS).float().reshape(packed["shape"])


def rounded(value: Any) -> Any:
    """Round floats, also inside lists, to seven significant digits."""
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def to_dict(trace: Trace) -> dict[str, Any]:
    """Return the content of `Trace.to_json`."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "glassformer": __version__,
        "kind": trace.kind,
        "model": trace.model,
        "source": side_to_dict(trace.source),
        "target": side_to_dict(trace.target),
        "attention": {kind: _packed(weights) for kind, weights in trace.attention.items()},
        "saliency": {name: rounded(rows.tolist()) for name, rows in trace.saliency.items()},
        "probabilities": {label: rounded(p) for label, p in trace.probabilities.items()},
        "pooling": trace.pooling,
        "search": trace.search,
        "answer": trace.answer,
        "nodes": [_node(node) for node in trace.nodes],
        "vocabulary": {str(token): piece for token, piece in trace.vocabulary.items()},
    }


def side_to_dict(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    words = [[word.text, word.start, word.end] for word in side.words]
    return {"text": side.text, "ids": side.ids, "tokens": side.tokens, "words": words}


def _node(node: Node) -> dict[str, Any]:
    return {name: rounded(value) for name, value in asdict(node).items()}


def from_text(text: str) -> Trace:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise _refused("it is not JSON", str(error)) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _refused(f'its "format" is not {FORMAT!r}', "Other JSON is not a trace.")
    if content.get("version") != VERSION:
        raise _refused(
            f"it has version {content.get('version')!r}",
            f"This Glassformer reads version {VERSION}.",
        )
    try:
        return _from_dict(content)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
        raise _refused("it is damaged", f"{type(error).__name__}: {error}.") from None


def _refused(what: str, why: str) -> DataError:
    return DataError(
        f"This cannot be read as a trace: {what}.",
        why,
        "Write it again with `glassformer inspect RUN TEXT --json F`.",
    )


def _from_dict(content: dict[str, Any]) -> Trace:
    return Trace(
        kind=content["kind"],
        model=content["model"],
        source=_side_of(content["source"]),
        target=_side_of(content["target"]),
        attention={kind: _unpacked(packed) for kind, packed in content["attention"].items()},
        saliency={name: torch.tensor(rows) for name, rows in content["saliency"].items()},
        nodes=tuple(_node_of(node) for node in content["nodes"]),
        answer=content["answer"],
        search=content["search"],
        vocabulary={int(token): piece for token, piece in content["vocabulary"].items()},
        probabilities=content["probabilities"],
        pooling=content["pooling"],
    )


def _side_of(content: dict[str, Any] | None) -> Side | None:
    if content is None:
        return None
    words = tuple(Word(*word) for word in content["words"])
    return Side(content["text"], tuple(content["ids"]), tuple(content["tokens"]), words)


def _node_of(content: dict[str, Any]) -> Node:
    """Read a node; unknown fields of later versions are ignored."""
    known = {field.name: content[field.name] for field in fields(Node) if field.name in content}
    return Node(**known | {"next": tuple((token, value) for token, value in content["next"])})
