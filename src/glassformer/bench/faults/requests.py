"""Campaign `requests`: damaged and odd bodies for every endpoint of the server.

A request is lost where the answer is a server error or no JSON, or where the server stops
answering. The application is called as a web server calls it, without a network.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from glassformer import pretrained
from glassformer.bench.faults.campaign import Campaign, Result, Trial
from glassformer.bench.faults.inputs import PIECES, damaged, odd_text
from glassformer.bench.faults.threads import MODEL
from glassformer.serve.app import ENDPOINTS, application
from glassformer.serve.endpoint import FORM
from glassformer.serve.models import Models
from glassformer.serve.server import Server

App = Callable[..., Any]
KINDS = ("application/json", FORM, "text/plain", "", "application/json; charset=utf-16", "\xff")
WRONG: tuple[Any, ...] = (None, True, -1, 0, 2**70, 1e308, "", [], {}, [[]], [None], {"a": {}})


def begin(_: Path) -> Trial:
    return trials([MODEL, pretrained.CLASSIFIER])


def trials(models: list[str]) -> Trial:
    """Return the trial of a seed: one request to a server of these models."""
    app = application(Server(Models(models, threads=1)))
    runner = asyncio.Runner()  # the queue of the server belongs to one event loop

    def trial(seed: int) -> Result:
        random = Random(seed)
        endpoint = ENDPOINTS[seed % len(ENDPOINTS)]
        method = endpoint.method if random.random() < 0.95 else random.choice(("GET", "POST"))
        kind = KINDS[0] if random.random() < 0.8 else random.choice(KINDS)
        content = body(random, models)
        status, answer = runner.run(ask(app, method, endpoint.path, kind, content))
        problem = wrong(status, answer)
        return Result(lost=(f"{method} {endpoint.path}: {problem}",) if problem else ())

    return trial


def wrong(status: int, answer: bytes) -> str | None:
    """Return what is wrong with an answer."""
    if status >= 500:
        return f"status {status}: {answer[:200]!r}"
    if answer.startswith(b"data: "):
        return None if answer.endswith(b"data: [DONE]\n\n") else "a stream without its end"
    try:
        json.loads(answer)
    except ValueError:
        return f"no JSON: {answer[:200]!r}"
    return None


def body(random: Random, models: list[str]) -> bytes:
    """Return the body of a request, most often damaged in its fields or in its bytes."""
    text = odd_text(random) if random.random() < 0.7 else "A man is riding a red bicycle."
    fields: dict[str, Any] = {
        "q": random.choice((text, [text, "x"], f"<p>{text}<b>a dog</b></p>")),
        "source": random.choice(("en", "auto", "fr", text)),
        "target": random.choice(("fr", "en", text)),
        "format": random.choice(("text", "html")),
        "alternatives": random.randrange(-1, 4),
        "model": random.choice((*models, text)),
        "prompt": text,
        "text": text,
        "max_tokens": random.randrange(20),
        "messages": [{"role": "user", "content": text}],
    }
    for name in random.sample(sorted(fields), random.randrange(len(fields))):
        del fields[name]
    if fields and random.random() < 0.4:
        fields[random.choice(sorted(fields))] = random.choice(WRONG)
    content = json.dumps(fields).encode()
    if random.random() < 0.4:
        content = damaged(content, random)
    return content if random.random() < 0.95 else random.choice(PIECES)


async def ask(app: App, method: str, path: str, kind: str, content: bytes) -> tuple[int, bytes]:
    """Call the application with one request; return the status and the body of its answer."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        "headers": [(b"host", b"localhost"), (b"content-type", kind.encode("latin-1"))],
    }  # fmt: skip
    unread = [{"type": "http.request", "body": content, "more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if unread:
            return unread.pop()
        await asyncio.Event().wait()  # the client stays
        raise AssertionError("this event is never set")

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return int(sent[0]["status"]), b"".join(message.get("body", b"") for message in sent)


CAMPAIGN = Campaign("requests", begin, trials=10_000, quick=100, seconds=60.0, memory=2 << 30)
