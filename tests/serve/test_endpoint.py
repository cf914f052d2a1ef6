"""Limits of size, time and number; and what happens when a client leaves."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from glassformer.serve.app import application
from glassformer.serve.continuations import Continuation
from glassformer.serve.limits import Limits
from glassformer.serve.models import Models
from glassformer.serve.server import Server

BODY = {"q": "a dog", "source": "en", "target": "fr"}
TEXT = {"model": "toy-text", "prompt": "a", "max_tokens": 500}


def limited(models: Models, **limits: Any) -> TestClient:
    server = Server(models, replace(Limits(), **limits))
    return TestClient(application(server), base_url="http://localhost")


def test_a_large_body_is_refused_before_it_is_read(models: Models) -> None:
    with limited(models, body=100) as client:
        answer = client.post("/translate", json=BODY | {"q": "a" * 200})
        assert answer.status_code == 413
        assert answer.json()["error"] == "The body has more than 100 bytes."
        parts = iter([b'{"q": "', b"a" * 200, b'"}'])  # without a stated length
        assert client.post("/translate", content=parts).status_code == 413
        lie = {"Content-Length": "9" * 30}
        assert client.post("/translate", content=b"", headers=lie).status_code == 413


def test_too_many_characters_are_refused(models: Models) -> None:
    with limited(models, characters=10) as client:
        answer = client.post("/translate", json=BODY | {"q": ["a dog"] * 3})
        assert answer.status_code == 413 and "15 characters" in answer.json()["error"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "The body is not JSON."),
        (b"{", "The body is not JSON."),
        (b"\xff\xfe", "The body is not JSON."),
        (b"[" * 100_000, "The body is not JSON."),
        (b'{"q": NaN}', "The body is not JSON."),
        (b"9" * 5_000, "The body is not JSON."),
        (b"[]", "The body is list, not a JSON object."),
        (b'{"q": 3}', "The field 'q' is not valid: Input should be a valid string."),
        (b'{"q": "\\ud800", "source": "en", "target": "fr"}', "unable to parse raw data"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(
    client: TestClient, content: bytes, problem: str
) -> None:
    answer = client.post("/translate", content=content)
    assert answer.status_code == 422
    found = answer.json()
    assert found.keys() == {"error", "why", "next"} and problem in json.dumps(found)


def test_a_form_is_read_like_json_and_a_broken_one_is_refused(client: TestClient) -> None:
    assert (
        client.post("/translate", data=BODY).json() == client.post("/translate", json=BODY).json()
    )
    several = client.post("/translate", data=BODY | {"q": ["a dog", "a cat"]}).json()
    assert len(several["translatedText"]) == 2
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    for content in (b"q=%ff", b"\xff", b"&".join([b"q=1"] * 3_000)):
        answer = client.post("/translate", content=content, headers=headers)
        assert answer.status_code == 422 and "form" in answer.json()["error"]


def test_unknown_paths_and_methods_have_the_error_block(client: TestClient) -> None:
    for method, path, status in (("GET", "/x", 404), ("GET", "/translate", 405)):
        answer = client.request(method, path)
        assert answer.status_code == status
        assert answer.json().keys() == {"error", "why", "next"}


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make continuations of endless pieces; return the numbers of those that were written."""
    written: list[int] = []

    def pieces(_: Continuation) -> Iterator[str]:
        while True:
            time.sleep(0.01)
            written.append(1)
            yield "word "

    monkeypatch.setattr(Continuation, "pieces", pieces)
    return written


@pytest.mark.usefixtures("slow")
def test_a_request_ends_at_its_deadline(models: Models) -> None:
    with limited(models, deadline=0.2) as client:
        answer = client.post("/v1/completions", json=TEXT)
        assert answer.status_code == 503 and answer.headers["retry-after"] == "5"
        assert "not ready after 0.2 seconds" in answer.json()["error"]["message"]
        events = client.post("/v1/completions", json=TEXT | {"stream": True}).text
        assert "word " in events and "not ready after 0.2 seconds" in events


@pytest.mark.parametrize("stream", [True, False])
def test_work_stops_when_the_client_leaves(
    server: Server, serving: Callable[..., Any], slow: list[int], stream: bool
) -> None:
    content = json.dumps(TEXT | {"stream": stream}).encode()
    with serving(server) as address:
        host, port = urlsplit(address).hostname, urlsplit(address).port
        with socket.create_connection((host or "", port or 0), 5) as connection:
            head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\n"
            head += f"Content-Length: {len(content)}\r\n\r\n"
            connection.sendall(head.encode() + content)
            while not slow:
                time.sleep(0.01)
        time.sleep(0.3)
        stopped_at = len(slow)
        time.sleep(0.2)
        assert len(slow) == stopped_at


def test_too_many_continuations_are_refused(models: Models) -> None:
    server = Server(models, replace(Limits(), waiting=4))
    server.writer.waiting = 4
    with TestClient(application(server), base_url="http://localhost") as client:
        assert client.post("/v1/completions", json=TEXT).status_code == 429


def test_a_defect_is_told_without_its_traceback(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Continuation) -> Iterator[str]:
        raise KeyError("secret")

    monkeypatch.setattr(Continuation, "pieces", broken)
    app = application(Server(models))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        answer = client.post("/v1/completions", json=TEXT)
    assert answer.status_code == 500 and "secret" not in answer.text
    assert answer.json()["error"] == "The server failed to answer."
