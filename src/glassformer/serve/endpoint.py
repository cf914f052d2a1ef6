"""An endpoint: body in, answer out, with limits, deadline and errors in one place."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from glassformer.errors import GlassformerError
from glassformer.serve.guard import authorise
from glassformer.serve.refusals import (
    RequestError,
    block,
    invalid,
    openai_block,
    status_of,
    too_late,
)
from glassformer.serve.server import Server

Style = Literal["libretranslate", "openai", "glassformer"]
Handler = Callable[[Server, Any], Awaitable[Any]]
FORM = "application/x-www-form-urlencoded"
FIELDS = 2_000  # of a form


@dataclass(frozen=True)
class Endpoint:
    """A path, what it reads and what it answers; the OpenAPI document lists it."""

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    answer: Any  # a type, for the document
    summary: str
    style: Style
    body: type[BaseModel] | None = None
    form: bool = False  # the body may be a form as well
    streams: bool = False
    public: bool = False  # needs no token

    @property
    def block(self) -> Callable[[GlassformerError], dict[str, Any]]:
        """How clients of this endpoint read an error."""
        return openai_block if self.style == "openai" else block

    def app(self, server: Server) -> Callable[[Request], Awaitable[Response]]:
        """Return the function that answers requests to this endpoint."""

        async def answer(request: Request) -> Response:
            try:
                return await self._answer(server, request)
            except GlassformerError as error:
                headers = error.headers if isinstance(error, RequestError) else {}
                return JSONResponse(self.block(error), status_of(error), headers)
            except ClientDisconnect:
                return Response(status_code=499)  # the client has left

        return answer

    async def _answer(self, server: Server, request: Request) -> Response:
        fields = await self._fields(server, request) if self.body is not None else {}
        api_key = fields.get("api_key") if self.style == "libretranslate" else None
        if not self.public:
            authorise(server, request, api_key if isinstance(api_key, str) else None)
        try:
            body = self.body.model_validate(fields) if self.body is not None else None
        except ValidationError as error:
            raise invalid(error) from None
        found = await finished(self.handler(server, body), request, server.limits.deadline)
        if isinstance(found, AsyncIterator):
            events = timed(found, server.limits.deadline, self.block)
            return StreamingResponse(events, media_type="text/event-stream")
        return JSONResponse(to_json(found))

    async def _fields(self, server: Server, request: Request) -> dict[str, Any]:
        content = await read(request, server.limits.body, server.limits.reading)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if self.form and kind == FORM:
            return form_fields(content)
        try:
            # Bad numbers are refused: JSON has none, and they would not be written back.
            found = json.loads(content, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise RequestError(
                422,
                "The body is not JSON.",
                f"{str(error)[:200]}.",
                "Send a JSON object with the header `Content-Type: application/json`.",
            ) from None
        if not isinstance(found, dict):
            raise RequestError(
                422,
                f"The body is {type(found).__name__}, not a JSON object.",
                "Its fields are named.",
                "See /docs for the fields of each request.",
            )
        return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def form_fields(content: bytes) -> dict[str, Any]:
    """Return the fields of a form; a field that comes several times is a list."""
    try:
        pairs = parse_qsl(
            content.decode(), keep_blank_values=True, max_num_fields=FIELDS, errors="strict"
        )
    except ValueError as error:
        raise RequestError(
            422,
            "The form cannot be read.",
            f"{str(error)[:200]}.",
            "Send it as UTF-8, urlencoded; or send JSON.",
        ) from None
    found: dict[str, Any] = {}
    for name, value in pairs:
        found[name] = [*_listed(found[name]), value] if name in found else value
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


async def read(request: Request, limit: int, seconds: float) -> bytes:
    """Return the body; refuse one that is too large or comes too slowly."""
    too_large = RequestError(
        413,
        f"The body has more than {limit:,} bytes.",
        "A request is limited, so that one client does not take the memory of all.",
        "Send the texts in several requests.",
    )
    stated = request.headers.get("content-length", "0")
    if not stated.isdecimal() or len(stated) > 18 or int(stated) > limit:
        raise too_large
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise RequestError(
            408,
            f"The body did not arrive within {seconds:g} seconds.",
            "A connection is not kept open for a client that sends nothing.",
            "Send the request again.",
        ) from None
    return b"".join(parts)


async def finished(work: Awaitable[Any], request: Request, seconds: float) -> Any:
    """Return the result of `work`; end it at the deadline, or when the client leaves."""
    task = asyncio.ensure_future(_awaited(work))
    gone = asyncio.create_task(_left(request))
    try:
        await asyncio.wait({task, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if gone.done():
            raise ClientDisconnect
        raise too_late(seconds)
    finally:
        gone.cancel()
        task.cancel()


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def timed(
    events: AsyncIterator[str], seconds: float, made: Callable[[GlassformerError], dict[str, Any]]
) -> AsyncIterator[str]:
    """Yield events up to the deadline; an error becomes the last event."""
    try:
        async with asyncio.timeout(seconds):
            async for event in events:
                yield event
    except TimeoutError:
        yield event_of(made(too_late(seconds)))
    except GlassformerError as error:
        yield event_of(made(error))


DONE = "data: [DONE]\n\n"  # the last event of a stream that is whole


def event_of(content: Any) -> str:
    """Return a server-sent event with JSON."""
    return f"data: {json.dumps(to_json(content), ensure_ascii=False)}\n\n"


def to_json(content: Any) -> Any:
    """Return what JSON can hold; fields without a value are left out of models."""
    if isinstance(content, BaseModel):
        return content.model_dump(mode="json", exclude_none=True)
    if isinstance(content, list):
        return [to_json(one) for one in content]
    return content
