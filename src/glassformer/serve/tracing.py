"""Traces for the page: the readable model, one text at a time, on a thread of its own.

It needs torch, and is imported when the first trace is asked for.
"""

from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch

from glassformer.data.tokenizer import Tokenizer
from glassformer.decode.search import output_limits
from glassformer.evaluate.bleu import bleu
from glassformer.inspect.heads import agreement, information
from glassformer.inspect.lens import logit_lens
from glassformer.inspect.masking import gated, gates_without
from glassformer.inspect.parts import label_parts
from glassformer.inspect.pictures import CAUTION
from glassformer.inspect.report import data_of, html_of, summary
from glassformer.inspect.step import step_of
from glassformer.inspect.trace import Trace, text_ids, trace_of
from glassformer.inspect.trace_json import rounded
from glassformer.inspect.why import why
from glassformer.inspect.words import Side, side
from glassformer.pipeline import Classifier, Generator, Pipeline, Translator, load
from glassformer.serve.models import Served
from glassformer.serve.refusals import RequestError
from glassformer.serve.schemas import (
    LookRequest,
    PartsOfLabels,
    ReportResponse,
    StageResponse,
    StepRequest,
    StepResponse,
    TraceRequest,
    TraceResponse,
    WhyRequest,
    WhyResponse,
)

MOST_NGRAMS = 100  # of a text: the ones with the largest parts


@dataclass(eq=False)
class Tracer:
    """The models on torch, each loaded when a trace of it is first asked for."""

    limit: int  # attention weights of a trace
    loaded: dict[tuple[str, bool], Pipeline] = field(default_factory=dict)

    def trace(self, served: Served, body: TraceRequest) -> tuple[Pipeline, Trace]:
        pipeline = self.pipeline(served, body.int8)
        if isinstance(pipeline, Translator):
            pipeline = pipeline.towards(body.to or pipeline.targets[0])
        check(pipeline, body, self.limit)
        found = trace_of(
            pipeline,
            body.text,
            body.target,
            name=served.name,
            truncate=body.truncate,
            prefix=body.prefix,
            heads_off=body.heads_off,
            **_search(pipeline, body),
        )
        return pipeline, found

    def report(self, served: Served, body: TraceRequest) -> ReportResponse:
        _, found = self.trace(served, body)
        return ReportResponse(html=html_of(found))

    def answer(self, served: Served, body: TraceRequest) -> TraceResponse:
        pipeline, found = self.trace(served, body)
        prompt = 0
        if isinstance(pipeline, Generator) and body.target is None:
            read = ids_of(pipeline, body.text, body.truncate)
            prompt = len(read) - 1  # the first is not predicted
        return TraceResponse(
            **data_of(found),
            summary=summary(found),
            aligned=aligned(found),
            log_probability=None if found.answer is None else _log_probability(found),
            bleu=_bleu(found, body.reference),
            lens=lens(pipeline, found, body),
            prompt=prompt,
            parts=parts(pipeline, found, body),
            marks=marks(pipeline),
            caution=CAUTION,
        )

    def step(self, served: Served, body: StepRequest) -> StepResponse:
        read = self._read(served, body)
        model = read.pipeline.model
        off = partial(gated, model, gates_without(model, body.heads_off))
        found = step_of(model, read.ids, body.head, body.row, off)
        likely = read.subwords.pieces(found.likely)
        stages = [
            StageResponse(**asdict(stage) | {"rows": rounded_rows(stage.rows)})
            for stage in found.stages
        ]
        return StepResponse(head=found.head, row=found.row, stages=stages, likely=likely)

    def why(self, served: Served, body: WhyRequest) -> WhyResponse:
        read = self._read(served, body)
        pipeline = read.pipeline
        if not isinstance(pipeline, Translator | Generator) or read.target is None:
            raise RequestError(
                422,
                f"The model {served.name!r} writes no tokens.",
                "A token of an output is explained; a classifier's label is explained in its "
                "trace.",
                "Ask /api/trace.",
            )
        if body.step >= len(body.output):
            raise RequestError(
                422,
                f"Step {body.step:,} is asked for.",
                f"The output has {len(body.output):,} tokens; steps count from 0.",
                "Give the ids of the output, and a step among them.",
            )
        model, token = pipeline.model, body.output[body.step]
        with gated(model, gates_without(model, body.heads_off)):
            found = why(model, read.source, read.target, body.step, token, body.against)
        return WhyResponse(**asdict(found))

    def _read(self, served: Served, body: LookRequest) -> "Read":
        pipeline = self.pipeline(served, body.int8)
        if isinstance(pipeline, Translator):
            pipeline = pipeline.towards(body.to or pipeline.targets[0])
        return read_by(pipeline, body, self.limit)

    def pipeline(self, served: Served, int8: bool) -> Pipeline:
        key = served.name, int8
        if key not in self.loaded:
            self.loaded[key] = load(served.place, int8 or None, engine="torch")
        return self.loaded[key]


@dataclass(frozen=True)
class Read:
    """The input of a model whose output is forced."""

    pipeline: Translator | Generator | Classifier
    source: Side | None
    target: Side | None  # the decoder's input

    @property
    def ids(self) -> list[list[int]]:
        return [list(side.ids) for side in (self.source, self.target) if side is not None]

    @property
    def subwords(self) -> Tokenizer:
        if isinstance(self.pipeline, Translator):
            return self.pipeline.target_tokenizer
        return self.pipeline.tokenizer


def read_by(pipeline: Pipeline, body: LookRequest, limit: int) -> Read:
    """Return what a model reads for a closer look; refuse what it has no place for."""
    if not isinstance(pipeline, Translator | Generator | Classifier):
        raise RequestError(
            422, "A model of embeddings writes nothing.", "A step is one of an output.",
            "Choose another model.",
        )  # fmt: skip
    text_ids = ids_of(pipeline, body.text, body.truncate)
    cells = (len(text_ids) + len(body.output) + 2) ** 2 * pipeline.settings.model.n_heads
    if cells > limit:
        raise RequestError(
            413,
            f"One layer may have {cells:,} attention weights.",
            f"A look holds up to {limit:,}.",
            "Give a shorter text or output.",
        )
    if isinstance(pipeline, Classifier):
        return Read(pipeline, side(pipeline.tokenizer, body.text, text_ids), None)
    subwords = pipeline.tokenizer
    if isinstance(pipeline, Translator):
        subwords = pipeline.target_tokenizer
    size = len(subwords)
    if any(not 0 <= i < size for i in body.output):
        raise RequestError(
            422, "An id of the output is outside the vocabulary.",
            f"Ids run from 0 to {size - 1:,}.", "Give the ids of `target` of the trace.",
        )  # fmt: skip
    if isinstance(pipeline, Translator):
        source = side(pipeline.source_tokenizer, body.text, text_ids)
        begin = pipeline.target_tokenizer.bos_id
    else:
        source, begin = None, text_ids[0]
    read = [begin, *body.output[:-1]]
    return Read(pipeline, source, side(subwords, subwords.decode(read), read))


def ids_of(pipeline: Translator | Generator | Classifier, text: str, truncate: bool) -> list[int]:
    """Return the ids of a text as the model reads them, marks included."""
    ids = text_ids(pipeline, text, truncate)
    if isinstance(pipeline, Translator):
        return pipeline.source_tokenizer.source(ids)
    if isinstance(pipeline, Generator):
        return pipeline.begun(ids)
    return [pipeline.tokenizer.bos_id, *ids]


def rounded_rows(rows: dict[str, list[float]]) -> dict[str, list[float]]:
    return {name: rounded(values) for name, values in rows.items()}


def parts(pipeline: Pipeline, trace: Trace, body: TraceRequest) -> PartsOfLabels | None:
    """Return the parts of a classifier's scores that its encoder and its n-grams have."""
    if not isinstance(pipeline, Classifier) or trace.source is None:
        return None
    model = pipeline.model
    with gated(model, gates_without(model, body.heads_off)):
        found = label_parts(pipeline, trace.source.ids)
    if found is None:
        return None
    shown = [(text, rounded(values)) for text, values in found.each[:MOST_NGRAMS]]
    return PartsOfLabels(encoder=found.encoder, ngrams=found.ngrams, each=shown)


def _search(pipeline: Pipeline, body: TraceRequest) -> dict[str, Any]:
    """Return the options of the search; a forced output and an encoder alone have none."""
    if not isinstance(pipeline, Translator | Generator) or body.target is not None:
        return {}
    longest = {} if body.max_length is None else {"max_length": body.max_length}
    return {"beam_size": body.beam_size, **longest}


def check(pipeline: Pipeline, body: TraceRequest, limit: int) -> None:
    """Refuse a trace with more attention weights than a page can hold."""
    shape = pipeline.settings.model
    (ids,) = pipeline.tokenizer.encode([body.text])
    read = min(len(ids), pipeline.settings.data.max_length) + 1
    written = body.max_length or int(output_limits(read))
    if body.target is not None:
        written = len(body.target)  # at most: a subword has a character or more
    by_kind = {
        "translator": shape.encoder_layers * read**2
        + shape.decoder_layers * (written**2 + written * read),
        "language-model": shape.decoder_layers * (read + written) ** 2,
    }
    weights = shape.n_heads * by_kind.get(shape.kind, shape.encoder_layers * read**2)
    if weights > limit:
        raise RequestError(
            413,
            f"The trace may have {weights:,} attention weights.",
            f"A page holds up to {limit:,}; the text has {read:,} subwords.",
            "Give a shorter text, or a smaller max_length.",
        )


def aligned(trace: Trace) -> list[int] | None:
    """Return layer and head to open with.

    Of a translator it is the head of cross-attention that agrees best with gradient × input: it
    looks at the words that each step's token depends on. Of others it is the one that tells most.
    """
    if "cross" in trace.attention:
        told = agreement(trace.attention["cross"], trace.saliency["source"])
    else:
        told = information(next(iter(trace.attention.values())))
    layer, head = divmod(int(told.argmax()), told.size(1))
    return [layer, head]


def lens(
    pipeline: Pipeline, trace: Trace, body: TraceRequest
) -> list[list[tuple[str, float, float]]]:
    """Return the prediction of each layer at each step; only models that write text have one."""
    if not isinstance(pipeline, Translator | Generator):
        return []
    if trace.target is None or trace.decoder_input is None:
        return []
    model = pipeline.model
    source = None if trace.source is None else trace.source.ids
    with gated(model, gates_without(model, body.heads_off)):
        found = logit_lens(model, source, trace.decoder_input.ids).exp()
    best, tokens = found.max(-1)
    written = found[:, torch.arange(found.size(1)), list(trace.target.ids)]
    subwords = pipeline.tokenizer
    if isinstance(pipeline, Translator):
        subwords = pipeline.target_tokenizer
    rows = zip(tokens.tolist(), best.tolist(), written.tolist(), strict=True)
    return [list(zip(subwords.pieces(ids), p, own, strict=True)) for ids, p, own in rows]


def marks(pipeline: Pipeline) -> list[int]:
    """Return the ids of tokens that no output can be forced to go on from."""
    subwords = pipeline.target_tokenizer if isinstance(pipeline, Translator) else pipeline.tokenizer
    found = {subwords.pad_id, subwords.unk_id, subwords.bos_id, subwords.eos_id}
    return sorted(i for i in found if i >= 0)  # -1: the tokenizer has no such mark


def _log_probability(trace: Trace) -> float:
    assert trace.answer is not None
    return trace.nodes[trace.answer].log_probability


def _bleu(trace: Trace, reference: str | None) -> float | None:
    if reference is None or not reference.strip() or trace.target is None:
        return None
    return bleu([trace.target.text], [[reference]])
