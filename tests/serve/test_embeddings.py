"""Vectors of texts over HTTP, by the real client: those of Python."""

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import numpy as np
import openai
import pytest
from starlette.testclient import TestClient

from glassformer.serve.server import Server

MODEL = "toy-vectors"
TEXTS = ["a dog", "the old cat sees a dog", "two", "two children want some tea"]


@pytest.fixture
def remote(server: Server, serving: Any) -> Iterator[openai.OpenAI]:
    with (
        serving(server) as address,
        openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as found,
    ):
        yield found


@pytest.mark.parametrize("form", ["float", "base64", None])
def test_the_real_client_gets_the_vectors_of_python(
    remote: openai.OpenAI, pipelines: dict[str, Any], form: Any
) -> None:
    how = {} if form is None else {"encoding_format": form}
    found = remote.embeddings.create(model=MODEL, input=TEXTS, **how)
    assert [one.index for one in found.data] == list(range(len(TEXTS)))
    vectors: Any = [one.embedding for one in found.data]
    if form == "base64":
        vectors = [np.frombuffer(b64decode(one), "<f4") for one in vectors]
    expected = pipelines[MODEL].embed(TEXTS)
    assert np.array_equal(np.array(vectors, np.float32), expected)


def test_a_text_has_the_same_vector_alone_and_among_others(client: TestClient) -> None:
    def vectors(texts: Any) -> list[Any]:
        answer = client.post("/v1/embeddings", json={"model": MODEL, "input": texts}).json()
        return [one["embedding"] for one in answer["data"]]

    assert vectors(TEXTS) == [vectors(text)[0] for text in TEXTS]
    assert vectors([]) == []


def test_the_tokens_are_counted_with_their_marks(
    client: TestClient, pipelines: dict[str, Any]
) -> None:
    tokenizer = pipelines[MODEL].tokenizer
    used = client.post("/v1/embeddings", json={"model": MODEL, "input": TEXTS}).json()["usage"]
    read = sum(len(tokenizer.source(ids)) for ids in tokenizer.encode(TEXTS))
    assert used == {"prompt_tokens": read, "total_tokens": read}


@pytest.mark.parametrize(
    ("change", "status", "problem"),
    [
        ({"model": "toy-text"}, 422, "is a language model, not an embedder"),
        ({"dimensions": 8}, 422, "makes vectors of 16"),
        ({"input": "a dog " * 30}, 422, "has 60 subwords"),
        ({"input": [1, 2]}, 422, "'input"),
    ],
)
def test_what_has_no_vector_is_refused(
    client: TestClient, change: dict[str, Any], status: int, problem: str
) -> None:
    answer = client.post("/v1/embeddings", json={"model": MODEL, "input": "a"} | change)
    assert answer.status_code == status and problem in answer.json()["error"]["message"]


def test_a_long_text_is_cut_where_that_is_asked_for(client: TestClient) -> None:
    body = {"model": MODEL, "input": "a dog " * 30, "truncate": True}
    answer = client.post("/v1/embeddings", json=body)
    assert answer.status_code == 200 and answer.json()["usage"]["prompt_tokens"] < 60
