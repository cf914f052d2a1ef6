"""`bench serve`: the server under load, beside a plain server on CTranslate2.

Servers and clients have processes of their own. Both servers translate single
sentences with a beam of 5 and INT8 weights made from the same fp32 weights.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from glassformer.bench import engines
from glassformer.bench.contender_process import ContenderProcess
from glassformer.bench.report import Report
from glassformer.bench.sentences import read_model, sentence_pairs
from glassformer.callable_module import make_callable
from glassformer.data.direction import tokenizers_for
from glassformer.evaluate.card import Row, Table
from glassformer.measure import Tick

BEAM = 5
OURS, PEER = "glassformer", "CTranslate2"
EXTRA_LENGTH = 50  # tokens that an answer may be longer than its source
COLUMNS = ["server", "sentences/s", "p50 ms", "p95 ms", "p99 ms", "asked", "lost", "different"]


@dataclass(frozen=True)
class Plan:
    """Sizes of the measurement; the defaults of the command are those of published figures."""

    model: str
    limit: int
    clients: int
    seconds: float
    threads: int

    @property
    def steps(self) -> int:
        return 4  # of each server: one client alone, then all


class Load(NamedTuple):
    """The measurements of all clients."""

    seconds: float
    latencies: list[float]  # of answered requests
    lost: int
    different: int  # answers that are not the expected ones


def bench_serve(
    plan: Plan, command: str, source: Path | None = None, tick: Tick = lambda: None
) -> Report:
    """Measure both servers; failures are lost requests and wrong answers."""
    saved = read_model(plan.model, "translator")
    data = saved.settings.data
    sentences = sentence_pairs(source, None, plan.limit, data.name)
    bodies = [
        json.dumps({"q": one, "source": data.source_language, "target": data.target_language})
        for one in sentences.sources
    ]
    found: dict[str, Load] = {}
    with TemporaryDirectory() as place:
        folder = Path(place)
        engines.write(saved, [engines.THEIR_INT8], folder, data.max_length + EXTRA_LENGTH)
        for name, start in ((OURS, _start_ours), (PEER, _start_peer)):
            with (
                ContenderProcess(start, plan.model, plan.threads, folder) as server,
                ContenderProcess(_clients, bodies) as clients,
            ):
                port = server()
                expected = clients(port)
                tick()
                found[name] = clients(port, plan.clients, plan.seconds, expected)
                tick()
    table = Table(
        f"{plan.clients} clients for {plan.seconds:g} s, {plan.threads} threads: {plan.model}, "
        f"{len(bodies):,} sentences of {sentences.name}",
        COLUMNS,
        [_row(name, load) for name, load in found.items()],
    )
    ratio = _speed(found[OURS]) / max(_speed(found[PEER]), 1e-9)
    notes = [
        f"Both: INT8, beam {BEAM}, HTTP over loopback, clients in a second process. The plain "
        "server translates each request by itself, on a worker for each thread.",
        "different: answers that are not those that the same server gave to one client alone.",
    ]
    failures = sum(load.lost + load.different for load in found.values())
    ratios = {f"sentences/s ÷ {PEER}": ratio}
    return Report(command, [table], ratios, notes, plan.threads, failures)


def _speed(load: Load) -> float:
    return len(load.latencies) / load.seconds


def _row(name: str, load: Load) -> Row:
    asked = len(load.latencies) + load.lost
    found = load.latencies if len(load.latencies) > 1 else [0.0, 0.0]
    cuts = quantiles(found, n=100, method="inclusive")
    shown = [round(1_000 * cuts[place - 1]) for place in (50, 95, 99)]
    return [name, round(_speed(load), 1), *shown, asked, load.lost, load.different]


# Servers


def _start_ours(model: str, threads: int, _: Path) -> Callable[[], int]:
    from glassformer.serve.app import application
    from glassformer.serve.models import Models
    from glassformer.serve.server import Server

    return _listening(application(Server(Models([model], int8=True, threads=threads))))


def _start_peer(model: str, threads: int, folder: Path) -> Callable[[], int]:
    """Start a plain server on CTranslate2: a handler that translates its request."""
    from anyio.to_thread import run_sync
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    saved = read_model(model, "translator")
    data = saved.settings.data
    sides = tokenizers_for(data, saved.tokenizers, data.target_language)
    decode = engines.load(engines.THEIR_INT8 + engines.WORKERS, folder, threads)

    def translated(text: str) -> str:
        (ids,) = sides["source"].encode([text])
        _, (answer,) = decode([[[*ids, engines.EOS]]], BEAM, len(ids) + EXTRA_LENGTH)
        return sides["target"].decode(answer)

    async def translate(request: Request) -> Response:
        text = (await request.json())["q"]
        return JSONResponse({"translatedText": await run_sync(translated, text)})

    return _listening(Starlette(routes=[Route("/translate", translate, methods=["POST"])]))


def _listening(app: Any) -> Callable[[], int]:
    """Serve on a thread; return a function that returns the port."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False))
    threading.Thread(target=server.run, daemon=True).start()

    def port() -> int:
        while not server.started:
            time.sleep(0.01)
        return int(server.servers[0].sockets[0].getsockname()[1])

    return port


# Clients


def _clients(bodies: Sequence[str]) -> Callable[..., Any]:
    requests = [_request(body) for body in bodies]

    def ask(
        port: int, clients: int = 1, seconds: float = 0.0, expected: Sequence[bytes] = ()
    ) -> Any:
        if not expected:
            return asyncio.run(_one_by_one(port, requests))
        return asyncio.run(_all_at_once(port, requests, clients, seconds, expected))

    return ask


def _request(body: str) -> bytes:
    content = body.encode()
    head = (
        "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def _one_by_one(port: int, requests: Sequence[bytes]) -> list[bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = [await _answer(reader, writer, request) for request in requests]
    writer.close()
    return found


async def _all_at_once(
    port: int, requests: Sequence[bytes], clients: int, seconds: float, expected: Sequence[bytes]
) -> Load:
    numbers = count()
    latencies: list[float] = []
    lost = different = 0
    began = time.perf_counter()

    async def client() -> None:
        nonlocal lost, different
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() - began < seconds:
            which = next(numbers) % len(requests)
            asked = time.perf_counter()
            try:
                answer = await _answer(reader, writer, requests[which])
            except (OSError, EOFError):
                lost += 1
                return
            latencies.append(time.perf_counter() - asked)
            different += answer != expected[which]
        writer.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    return Load(time.perf_counter() - began, latencies, lost, different)


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> bytes:
    """Return the status line and the body of an answer."""
    writer.write(request)
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    sizes = [int(value) for name, _, value in (line.partition(b":") for line in lines)
             if name.lower() == b"content-length"]  # fmt: skip
    return status + b"\n" + await reader.readexactly(sizes[0])


make_callable(__name__, "glassformer.api.bench", "serve")
