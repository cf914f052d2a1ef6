"""Trace of one decode: tokens, attention, saliency and the search tree.

    trace = trace_of(load("runs/multi30k"), "A man is riding a red bicycle.", beam_size=5)
    trace.attention["cross"][layer, head]       # output tokens × source tokens
    trace.nodes                                 # the search tree

`Trace.to_json` and `from_json` write and read it; docs/trace.md describes the format.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from glassformer.decode.options import SearchOptions, penalty
from glassformer.decode.search import search
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.errors import DataError, InputError
from glassformer.inspect import maps, saliency
from glassformer.inspect.maps import Attention
from glassformer.inspect.masking import HeadIndex, gated, gates_without
from glassformer.inspect.tree import TOP, Node, SearchTree, best, path
from glassformer.inspect.words import Side, Subwords, side
from glassformer.pipeline import Classifier, Embedder, Generator, Pipeline, Translator

TraceKind = Literal["translator", "language-model", "classifier", "embedder"]
Saliency = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything about one text that went through a model.

    Rows of decoder and cross attention are the steps, each named by its output token; columns of
    decoder attention are the decoder inputs: the first one and the tokens before. The first is the
    begin mark, or the first token of the text where a language model has no such mark.
    """

    kind: TraceKind
    model: str
    source: Side | None  # None for a language model
    target: Side | None  # the output, with </s> if complete; None for an encoder alone
    attention: Attention
    saliency: Saliency  # gradient × input: see saliency.py
    nodes: tuple[Node, ...] = ()  # of the search, the root first
    answer: int | None = None  # the last node of the output
    search: dict[str, Any] | None = None  # its options; None if the output was forced
    vocabulary: dict[int, str] = field(default_factory=dict)  # the tokens of all nodes
    probabilities: dict[str, float] = field(default_factory=dict)  # of a classifier's labels
    pooling: str | None = None  # of an encoder alone: mean, first or max

    @property
    def decoder_input(self) -> Side | None:
        """Input tokens of the decoder at each step."""
        if self.target is None:
            return None
        bos = self.nodes[0].token
        return self.target.shifted(bos, self.vocabulary[bos])

    @property
    def answer_path(self) -> list[int]:
        """Nodes of the output, one per step."""
        return [] if self.answer is None else path(self.nodes, self.answer)

    def sides(self, kind: maps.Kind) -> tuple[Side, Side]:
        """Return the tokens of the rows and of the columns of a kind of attention."""
        rows = self.source if kind == "encoder" else self.target
        columns = self.decoder_input if kind == "decoder" else self.source
        assert rows is not None and columns is not None, f"there is no {kind} attention"
        return rows, columns

    def show(self) -> None:
        """Open the interactive view: in a notebook below the cell, elsewhere in a browser."""
        from glassformer.inspect.report import show

        show(self)

    def save(self, path: str | Path) -> None:
        """Write the interactive view as one HTML file that needs nothing else."""
        from glassformer.inspect.report import write_report

        write_report(self, Path(path))

    def _repr_html_(self) -> str:
        from glassformer.inspect.report import frame_of

        return frame_of(self)

    def to_json(self) -> str:
        from glassformer.inspect.trace_json import to_dict

        content = to_dict(self)
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Trace":
        from glassformer.inspect.trace_json import from_text

        return from_text(text)


def trace_of(
    model: Pipeline,
    text: str,
    target: str | None = None,
    *,
    name: str = "",
    top: int = TOP,
    truncate: bool = False,
    prefix: Sequence[int] = (),
    heads_off: Sequence[HeadIndex] = (),
    **options: Any,
) -> Trace:
    """Translate, classify, embed or continue `text`, and return its trace.

    `options` are those of `SearchOptions`. With a `target` there is no search; the output is
    forced. `truncate` cuts a text that is longer than the model was trained for. The output begins
    with the ids of `prefix`, which for a language model follow the text. The output of the heads in
    `heads_off`, of the first model of an ensemble, is zero.
    """
    first = model.models[0] if isinstance(model, Translator) else model.model
    changed = partial(gated, first, gates_without(first, heads_off))
    if not isinstance(model, Translator | Generator):
        if target is not None or options or prefix:
            given = "target" if target is not None else next(iter(options), "prefix")
            what = "A classifier" if isinstance(model, Classifier) else "A model of embeddings"
            raise InputError(
                f"{what} was given {given}.",
                "It has no output text and no search.",
                f"Leave {given} out.",
            )
        if isinstance(model, Classifier):
            return _classified(model, text, name, truncate, changed)
        return _embedded(model, text, name, truncate, changed)
    make = model.options if isinstance(model, Translator) else SearchOptions
    return _Tracer(model, name, top, truncate, prefix, changed).trace(text, target, make(**options))


class _Tracer:
    """Traces a translator or a language model."""

    def __init__(
        self,
        model: Translator | Generator,
        name: str,
        top: int,
        truncate: bool,
        prefix: Sequence[int],
        changed: maps.Changed,
    ) -> None:
        self.model, self.name, self.top, self.truncate = model, name, top, truncate
        self.given, self.changed = list(prefix), changed
        self.translates = isinstance(model, Translator)
        self.models = model.models if isinstance(model, Translator) else [model.model]
        self.subwords = model.target_tokenizer if isinstance(model, Translator) else model.tokenizer
        self.eos = self.subwords.eos_id
        if self.eos in self.given:
            raise InputError(
                "The prefix has an end mark.",
                "Nothing follows an end mark, so that there is nothing to search for.",
                "Cut the prefix before it.",
            )

    def trace(self, text: str, target: str | None, options: SearchOptions) -> Trace:
        ids = text_ids(self.model, text, self.truncate)
        source: list[int] | None = None
        if isinstance(self.model, Translator):
            source, begun = self.model.source_tokenizer.source(ids), [self.subwords.bos_id]
        else:
            begun = self.model.begun(ids)  # an imported model may have no begin mark
        self.bos, prefix = begun[0], [*begun[1:], *self.given]
        if target is None:
            nodes = self._searched(source, prefix, options)
            answer = best(nodes)
        else:
            (forced,) = self.subwords.encode([target])
            nodes = self._forced(source, [*prefix, *forced, self.eos], options)
            answer = len(nodes) - 1
        outputs = [nodes[i].token for i in path(nodes, answer)]
        inputs = [self.bos, *outputs[:-1]]
        _, attention = maps.decode(self.models, source, inputs, self.changed)
        with self.changed():
            salient = saliency.output_saliency(self.model, source, inputs, outputs)
        return Trace(
            kind="translator" if self.translates else "language-model",
            model=self.name,
            source=None if source is None else side(self.model.tokenizer, text, source),
            target=side(self.subwords, self._text([self.bos, *outputs], target), outputs),
            attention=attention,
            saliency=salient,
            nodes=tuple(nodes),
            answer=answer,
            search=asdict(options) if target is None else None,
            vocabulary=_vocabulary(self.subwords, nodes),
        )

    def _text(self, outputs: list[int], target: str | None) -> str:
        """Return the output text; a forced target keeps its spelling of unknown characters."""
        if target is not None and self.translates:
            return target
        return self.subwords.decode(outputs)

    def _searched(
        self, source: list[int] | None, prefix: list[int], options: SearchOptions
    ) -> list[Node]:
        counted = options.counted_length(None if source is None else len(source))
        tree = SearchTree(self.bos, self.eos, options, self.top, counted)
        decoders = [TorchDecoder(model) for model in self.models]
        sources = None if source is None else [source]
        mark = isinstance(self.model, Translator) or self.model.begins_with_mark
        with self.changed():
            search(
                decoders,
                sources,
                self.bos,
                self.eos,
                options,
                [prefix],
                observer=tree,
                bos_is_mark=mark,
            )
        return tree.nodes()

    def _forced(
        self, source: list[int] | None, outputs: list[int], options: SearchOptions
    ) -> list[Node]:
        """Return one branch, with the most likely tokens at each of its steps."""
        read = [self.bos, *outputs[:-1]]
        log_probs, _ = maps.decode(self.models, source, read, self.changed)
        values, tokens = log_probs.topk(min(self.top, log_probs.size(-1)))
        likely = [
            tuple(zip(t, v, strict=True))
            for t, v in zip(tokens.tolist(), values.tolist(), strict=True)
        ]
        counted = options.counted_length(None if source is None else len(source))
        own = log_probs.double().gather(-1, torch.tensor(outputs)[:, None]).squeeze(-1).cumsum(0)
        totals = [0.0, *own.tolist()]
        return [
            Node(
                parent=n - 1 if n else None,
                token=token,
                log_probability=total,
                score=total / penalty(max(n, 1), options.length_penalty, counted),
                fate="given",
                complete=True if n == len(outputs) else None,
                next=likely[n] if n < len(outputs) else (),
            )
            for n, (token, total) in enumerate(zip([self.bos, *outputs], totals, strict=True))
        ]


def _classified(
    model: Classifier, text: str, name: str, truncate: bool, changed: maps.Changed
) -> Trace:
    ids = [model.tokenizer.bos_id, *text_ids(model, text, truncate)]
    encoder, attention = maps.read(model.model, torch.tensor([ids]), changed)
    logits = saliency.mixed(model, encoder, [ids])
    read = side(model.tokenizer, text, ids)
    with changed():
        salient = saliency.label_saliency(model, read)
    return Trace(
        kind="classifier",
        model=name,
        source=read,
        target=None,
        attention=attention,
        saliency=salient,
        probabilities=dict(zip(model.labels, logits[0].softmax(-1).tolist(), strict=True)),
        pooling=model.settings.model.pooling,
    )


def _embedded(
    model: Embedder, text: str, name: str, truncate: bool, changed: maps.Changed
) -> Trace:
    ids = model.tokenizer.source(text_ids(model, text, truncate))
    _, attention = maps.read(model.model, torch.tensor([ids]), changed)
    return Trace(
        kind="embedder",
        model=name,
        source=side(model.tokenizer, text, ids),
        target=None,
        attention=attention,
        saliency={},
        pooling=model.settings.model.pooling,
    )


def text_ids(model: Pipeline, text: str, truncate: bool) -> list[int]:
    """Return the ids of a text without marks; refuse one that is empty or too long."""
    (ids,) = model.tokenizer.encode([text])
    longest = model.settings.data.max_length
    if isinstance(model, Embedder):
        longest = model.max_length
    if not ids and not isinstance(model, Generator):
        raise DataError(
            f"The text {text!r} has no tokens.",
            "A trace shows how a model processes the subwords of a text.",
            "Give a text with at least one word.",
        )
    if len(ids) > longest and not truncate:
        raise DataError(
            f"The text has {len(ids):,} subwords: {text[:40]!r}…",
            f"The model was trained on texts of up to {longest}; beyond that it is untested.",
            "Give it a shorter piece, or cut it: truncate=True, --truncate.",
        )
    return ids[:longest]


def _vocabulary(subwords: Subwords, nodes: Sequence[Node]) -> dict[int, str]:
    """Return the text of every token in the nodes."""
    mentioned = {node.token for node in nodes} | {t for node in nodes for t, _ in node.next}
    ids = sorted(mentioned)
    return dict(zip(ids, subwords.pieces(ids), strict=True))
