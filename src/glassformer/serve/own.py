"""Our own endpoints: labels of texts, and traces of models."""

from collections.abc import Sequence
from functools import partial

from glassformer.pipeline import Classification, Classifier, Translator
from glassformer.serve import schemas as s
from glassformer.serve.endpoint import Endpoint
from glassformer.serve.libretranslate import limit_characters
from glassformer.serve.models import Served
from glassformer.serve.refusals import RequestError
from glassformer.serve.server import Server


async def answer_classify(server: Server, body: s.ClassifyRequest) -> s.ClassifyResponse:
    served, classifier = server.models.of_kind(Classifier, body.model)
    texts = [body.q] if isinstance(body.q, str) else body.q
    limit_characters(texts, server.limits.characters)
    if any(not ids for ids in classifier.tokenizer.encode(texts)):
        raise RequestError(
            422, "A text has no words.", "There is nothing to label.", "Leave empty texts out."
        )
    compute = partial(_labels, classifier, body.truncate)
    found = await server.batcher.run((served.name, body.truncate), compute, texts)
    shown = [s.Classified(**vars(one)) for one in found]
    return s.ClassifyResponse(result=shown[0] if isinstance(body.q, str) else shown)


def _labels(classifier: Classifier, truncate: bool, texts: list[str]) -> Sequence[Classification]:
    return classifier.classify(texts, truncate=truncate)


async def answer_trace(server: Server, body: s.TraceRequest) -> s.TraceResponse:
    served = _looked_at(server, body)
    return await server.looker.run(lambda tracer: tracer.answer(served, body))


async def answer_report(server: Server, body: s.TraceRequest) -> s.ReportResponse:
    served = _looked_at(server, body)
    return await server.looker.run(lambda tracer: tracer.report(served, body))


async def answer_step(server: Server, body: s.StepRequest) -> s.StepResponse:
    served = _looked_at(server, body)
    return await server.looker.run(lambda tracer: tracer.step(served, body))


async def answer_why(server: Server, body: s.WhyRequest) -> s.WhyResponse:
    served = _looked_at(server, body)
    return await server.looker.run(lambda tracer: tracer.why(served, body))


def _looked_at(server: Server, body: s.TraceRequest | s.LookRequest) -> Served:
    served = server.models.named(body.model)
    if body.to is not None and isinstance(served.pipeline, Translator):
        served.pipeline.check_target(body.to)
    return served


ENDPOINTS = (
    Endpoint(
        "POST",
        "/api/classify",
        answer_classify,
        s.ClassifyResponse,
        "Label texts with a classifier.",
        "glassformer",
        s.ClassifyRequest,
    ),
    Endpoint(
        "POST",
        "/api/trace",
        answer_trace,
        s.TraceResponse,
        "Look inside a model: attention, search and saliency of one text.",
        "glassformer",
        s.TraceRequest,
    ),
    Endpoint(
        "POST",
        "/api/step",
        answer_step,
        s.StepResponse,
        "Take one step of one head apart: numbers, equations and lines of source.",
        "glassformer",
        s.StepRequest,
    ),
    Endpoint(
        "POST",
        "/api/why",
        answer_why,
        s.WhyResponse,
        "Explain a token of an output, alone or against another one.",
        "glassformer",
        s.WhyRequest,
    ),
    Endpoint(
        "POST",
        "/api/report",
        answer_report,
        s.ReportResponse,
        "Write the same look as one HTML page.",
        "glassformer",
        s.TraceRequest,
    ),
)
