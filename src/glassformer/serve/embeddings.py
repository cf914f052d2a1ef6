"""OpenAI's endpoint for vectors of texts."""

from base64 import b64encode
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from glassformer.pipeline import Embedder
from glassformer.serve import schemas as s
from glassformer.serve.endpoint import Endpoint
from glassformer.serve.libretranslate import limit_characters
from glassformer.serve.refusals import RequestError
from glassformer.serve.server import Server

Vector = NDArray[np.float32]


async def answer_embeddings(server: Server, body: s.EmbeddingRequest) -> s.EmbeddingList:
    served, embedder = server.models.of_kind(Embedder, body.model)
    texts = [body.input] if isinstance(body.input, str) else body.input
    limit_characters(texts, server.limits.characters)
    width = embedder.settings.model.d_model
    if body.dimensions not in (None, width):
        raise RequestError(
            422,
            f"Vectors of {body.dimensions:,} numbers are asked for.",
            f"The model {served.name!r} makes vectors of {width:,}, and a part of one would mean "
            "something else.",
            "Leave dimensions out.",
        )
    compute = partial(_vectors, embedder, body.truncate)
    vectors = await server.batcher.run((served.name, body.truncate), compute, texts)
    read = _tokens(embedder, texts)
    made = as_numbers if body.encoding_format == "float" else as_base64
    return s.EmbeddingList(
        data=[s.Embedding(index=i, embedding=made(one)) for i, one in enumerate(vectors)],
        model=body.model,
        usage=s.EmbeddingUsage(prompt_tokens=read, total_tokens=read),
    )


def _vectors(embedder: Embedder, truncate: bool, texts: list[str]) -> Sequence[Vector]:
    return list(embedder.embed(texts, truncate=truncate))


def _tokens(embedder: Embedder, texts: list[str]) -> int:
    """Return how many tokens the model read, marks included."""
    marks, longest = len(embedder.tokenizer.source([])), embedder.max_length
    return sum(min(len(ids), longest) + marks for ids in embedder.tokenizer.encode(texts))


def as_numbers(vector: Vector) -> list[float]:
    return [float(number) for number in vector]


def as_base64(vector: Vector) -> str:
    return b64encode(vector.astype("<f4").tobytes()).decode("ascii")


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/embeddings",
        answer_embeddings,
        s.EmbeddingList,
        "Turn texts into vectors.",
        "openai",
        s.EmbeddingRequest,
    ),
)
