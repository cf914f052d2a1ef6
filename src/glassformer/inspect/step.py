"""One step of one head, stage by stage: the numbers, the equation and the lines that compute it.

    step = step_of(model, source, inputs, ("cross", 1, 2), row=4)
    step.stages     # embedding, input, queries and keys, scores, weights, …, logits

The numbers are recorded in one pass through the model itself; `test_step.py` checks that the
stages follow from each other.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import InputError
from glassformer.inspect.maps import Changed
from glassformer.inspect.masking import HeadIndex, attention_names, check_heads
from glassformer.inspect.source_lines import Code, lines_of
from glassformer.model.attention import (
    Kernel,
    MultiHeadAttention,
    attentions,
    replaced_kernels,
    scaled_dot_product_attention,
)
from glassformer.model.residual import PreNorm
from glassformer.model.stack import Stack

TOP = 10  # tokens of the logits that are shown


@dataclass(frozen=True)
class Stage:
    """Named rows of numbers of one stage, and what computes them."""

    name: str
    equation: str
    text: str
    rows: dict[str, list[float]]
    columns: str  # what a column is: "feature", "token", "output token"
    code: tuple[Code, ...]


@dataclass(frozen=True)
class Step:
    """The stages of a row of an attention; `likely` are ids of the columns of the logits."""

    head: HeadIndex
    row: int
    stages: tuple[Stage, ...]
    likely: tuple[int, ...] = ()


@dataclass
class _Recorded:
    """Tensors of one pass, without the batch."""

    embedded: list[Tensor] = field(default_factory=list)  # what goes into the first layer
    attended: list[Tensor] = field(default_factory=list)  # input and output of the attention
    kernel: list[Any] = field(default_factory=list)  # q, k, v, mask, bias, scale, output, weights
    residual: list[Tensor] = field(default_factory=list)  # input and output of its residual
    fed: list[Tensor] = field(default_factory=list)  # the same of the feed-forward's
    transformed: list[Tensor] = field(default_factory=list)  # output of the feed-forward
    logits: list[Tensor] = field(default_factory=list)


def step_of(
    model: nn.Module,
    ids: Sequence[Sequence[int]],
    head: HeadIndex,
    row: int,
    changed: Changed = nullcontext,
) -> Step:
    """Return the stages of a head at one row of its attention.

    `ids` are what the model reads: a source and the decoder's input, or one of them.
    """
    check_heads(model, [head])
    kind, layer, _ = head
    name = attention_names(model)[kind, layer]
    stack: Any = model.get_submodule(name.split(".", 1)[0])
    read = [torch.tensor([list(one)]) for one in ids]
    own = read[0 if kind == "encoder" else -1]
    if not 0 <= row < own.size(-1):
        raise InputError(
            f"Row {row} is asked for.",
            f"The {kind} attention of this text has {own.size(-1)} rows, from 0.",
            "Choose one of them.",
        )
    with torch.no_grad(), _recording(model, stack, name) as found, changed():
        model(*read)
    layer_module = stack.get_submodule(name.split(".", 1)[1].rpartition(".")[0])
    stages = _Stages(model, stack, layer_module, attentions(model)[name], found, own, head, row)
    with torch.no_grad():
        return Step(head, row, tuple(stages.all()), stages.likely)


@contextmanager
def _recording(model: nn.Module, stack: Any, name: str) -> Iterator[_Recorded]:
    """Record the stages of one attention; its kernel is the readable one meanwhile."""
    found = _Recorded()
    attention = attentions(model)[name]
    layer: Any = model.get_submodule(name.rpartition(".")[0])
    output: Any = model.output
    own = name.rpartition(".")[2]

    def record(place: list[Tensor], module: nn.Module, given: bool, made: bool) -> Any:
        def hook(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
            place.extend([*([inputs[0][0]] if given else []), *([output[0]] if made else [])])

        return module.register_forward_hook(hook)

    def before_layers(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        found.embedded.append(inputs[0][0])

    with ExitStack() as hooks:
        for handle in (
            stack.layers[0].register_forward_pre_hook(before_layers),
            record(found.attended, attention, True, True),
            record(found.residual, layer.get_submodule(f"{own}_residual"), True, True),
            record(found.fed, layer.feed_forward_residual, True, True),
            record(found.transformed, layer.feed_forward, False, True),
            record(found.logits, output, False, True),
        ):
            hooks.callback(handle.remove)
        kernel = _recording_kernel(found.kernel)
        hooks.enter_context(
            replaced_kernels(model, lambda one, old: kernel if one == name else old)
        )
        yield found


def _recording_kernel(place: list[Any]) -> Kernel:
    def kernel(
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, *more: Any
    ) -> tuple[Tensor, Tensor]:
        output, weights = scaled_dot_product_attention(q, k, v, mask, bias, *more)
        place.extend([q[0], k[0], v[0], mask, bias, more[1], output[0], weights[0]])
        return output, weights

    return kernel


class _Stages:
    """Builds the stages from what was recorded."""

    def __init__(
        self,
        model: Any,
        stack: Any,
        layer: Any,
        attention: MultiHeadAttention,
        found: _Recorded,
        ids: Tensor,
        head: HeadIndex,
        row: int,
    ) -> None:
        self.model, self.stack, self.layer, self.attention = model, stack, layer, attention
        self.found, self.ids, self.row = found, ids, row
        (self.kind, _, self.head) = head
        self.likely: tuple[int, ...] = ()

    def all(self) -> Iterator[Stage]:
        yield self._embedding()
        yield self._input()
        yield self._projections()
        yield self._scores()
        yield self._weights()
        yield self._weighted_sum()
        yield self._output()
        yield self._residual(
            "residual and norm", self._residual_of("attention"), self.found.residual
        )
        yield self._feed_forward()
        if self.kind != "encoder":
            yield self._logits()

    def _embedding(self) -> Stage:
        stack, place = self.stack, torch.arange(self.ids.size(-1))
        tokens = stack.embed_tokens(self.ids, place)
        summed = stack.positions.embed(tokens, place)
        rows = {"token": tokens, "position": summed - tokens, "sum": summed}
        if not isinstance(stack.embedding_norm, nn.Identity):
            rows["after its norm"] = self.found.embedded[0][None]
        return Stage(
            "embedding + position",
            "x = E[id] · √d + PE(t)",
            "The token's row of the table, and what its position adds. A scheme that rotates "
            "queries and keys, or adds to scores, adds nothing here.",
            {name: values[0, self.row].tolist() for name, values in rows.items()},
            "feature",
            (
                lines_of(type(stack.embedding).forward, "return"),
                lines_of(type(stack.positions).embed, "return"),
                lines_of(Stack.embed, "return"),
            ),
        )

    def _residual_of(self, part: str) -> Any:
        if part == "feed-forward":
            return self.layer.feed_forward_residual
        own = "cross_attention" if self.kind == "cross" else "self_attention"
        return self.layer.get_submodule(f"{own}_residual")

    def _input(self) -> Stage:
        residual = self._residual_of("attention")
        rows = {"into the layer": self.found.residual[0][self.row].tolist()}
        if isinstance(residual, PreNorm):
            rows["after its norm"] = self.found.attended[0][self.row].tolist()
        return Stage(
            "input of the attention",
            "norm(x)" if isinstance(residual, PreNorm) else "x",
            "The vector of this row after the layers before.",
            rows,
            "feature",
            (lines_of(type(residual).forward, "return"),),
        )

    @property
    def _of_head(self) -> tuple[Tensor, Tensor, Tensor]:
        """The query of the row, (K,), and keys and values of the head, (S, K)."""
        q, k, v = self.found.kernel[:3]
        shared = self.head // (q.size(0) // k.size(0))  # several query heads may share one
        return q[self.head, self.row], k[shared], v[shared]

    def _projections(self) -> Stage:
        q, k, v = self._of_head
        most = self.found.kernel[7][self.head, self.row].argmax()
        projected = ("self.q(x)", "self.keys_values") if self.kind == "cross" else ("self.qkv(x)",)
        return Stage(
            "query, key and value of the head",
            "q = x W^Q,  k = y W^K,  v = y W^V",
            "One head's part of the projections. Key and value are those of the token with the "
            "largest weight; a scheme that rotates has done so already.",
            {"query": q.tolist(), "key": k[most].tolist(), "value": v[most].tolist()},
            "feature",
            (lines_of(MultiHeadAttention.forward, *projected, "rotate(q, k)"),),
        )

    @property
    def _products(self) -> Tensor:
        q, k, _ = self._of_head
        return k @ q

    @property
    def _scale(self) -> float:
        scale: float | None = self.found.kernel[5]
        return 1 / sqrt(self.attention.d_k) if scale is None else scale

    def _part(self, of: Tensor | None) -> Tensor | None:
        """Return the values of a mask or a bias for this head and row, (S,)."""
        if of is None:
            return None
        whole = of[0] if of.dim() == 4 else of
        return whole[min(self.head, whole.size(0) - 1), min(self.row, whole.size(1) - 1)]

    def _scores(self) -> Stage:
        products = self._products
        rows = {"q · k": products.tolist(), "scaled": (products * self._scale).tolist()}
        bias = self._part(self.found.kernel[4])
        if bias is not None:
            rows["with bias"] = (products * self._scale + bias).tolist()
        return Stage(
            "scores",
            f"s = q Kᵀ · {self._scale:.4g}" + (" + b" if bias is not None else ""),
            f"A score for each token that may be attended to. 1/√d_k = 1/√{self.attention.d_k} "
            "keeps them small, so that the softmax is not one token's alone.",
            rows,
            "token",
            (lines_of(scaled_dot_product_attention, "scores = q @", "scores + bias"),),
        )

    def _weights(self) -> Stage:
        weights = self.found.kernel[7][self.head, self.row]
        mask = self._part(self.found.kernel[3])
        allowed = torch.ones_like(weights) if mask is None else mask.expand(len(weights)).float()
        return Stage(
            "mask and softmax",
            "w = softmax(s)",
            "Masked tokens get nothing; the weights of the others add up to 1. It is this row of "
            "the picture above.",
            {"may be attended to": allowed.tolist(), "weight": weights.tolist()},
            "token",
            (lines_of(scaled_dot_product_attention, "masked_fill", "softmax"),),
        )

    def _weighted_sum(self) -> Stage:
        _, _, v = self._of_head
        weights = self.found.kernel[7][self.head, self.row]
        most = weights.topk(min(2, len(weights))).indices.tolist()
        parts = {f"{weights[i]:.2f} × value {i + 1}": (weights[i] * v[i]).tolist() for i in most}
        return Stage(
            "weighted sum of the values",
            "head = w V",
            "The two largest parts, and the sum of all.",
            parts | {"sum": self.found.kernel[6][self.head, self.row].tolist()},
            "feature",
            (lines_of(scaled_dot_product_attention, "return"),),
        )

    def _output(self) -> Stage:
        heads = self.found.kernel[6][:, self.row]
        begin = self.head * self.attention.d_k
        own = self.attention.output.weight[:, begin : begin + self.attention.d_k]
        return Stage(
            "all heads joined",
            "Concat(head₁, …) W^O",
            "What this head alone adds, and the output of all heads.",
            {
                "this head": (own @ heads[self.head]).tolist(),
                "all heads": self.found.attended[1][self.row].tolist(),
            },
            "feature",
            (lines_of(MultiHeadAttention.forward, "self.kernel(", "self.output("),),
        )

    def _residual(self, name: str, residual: Any, found: list[Tensor]) -> Stage:
        before = isinstance(residual, PreNorm)
        return Stage(
            name,
            "x + sublayer(norm(x))" if before else "norm(x + sublayer(x))",
            "The input goes around the sub-layer and is added to its output"
            + ("." if before else ", and the sum is normed."),
            {"before": found[0][self.row].tolist(), "after": found[1][self.row].tolist()},
            "feature",
            (lines_of(type(residual).forward, "return"), lines_of(type(residual.norm).forward)),
        )

    def _feed_forward(self) -> Stage:
        made = self._residual("", self._residual_of("feed-forward"), self.found.fed)
        rows = {
            "into it": made.rows["before"],
            "its output": self.found.transformed[0][self.row].tolist(),
            "after the layer": made.rows["after"],
        }
        return Stage(
            "feed-forward",
            "FFN(x) = f(x W₁ + b₁) W₂ + b₂",
            "The same two layers for every token by itself, again with residual and norm.",
            rows,
            "feature",
            (lines_of(type(self.layer.feed_forward).forward), *made.code[:1]),
        )

    def _logits(self) -> Stage:
        logits = self.found.logits[0][self.row]
        found = logits.topk(min(TOP, len(logits)))
        self.likely = tuple(found.indices.tolist())
        probabilities = logits.softmax(-1)[found.indices]
        return Stage(
            "logits",
            "p = softmax(z W + b)",
            "After all layers: a number for every token of the vocabulary, and its probability.",
            {"logit": found.values.tolist(), "probability": probabilities.tolist()},
            "output token",
            (lines_of(type(self.model).forward, "return"),),
        )
