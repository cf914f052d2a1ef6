"""The application: routes, files of the page, and errors of the framework."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from glassformer.serve import embeddings, libretranslate, openai, own, watched
from glassformer.serve.endpoint import Endpoint
from glassformer.serve.guard import Guard
from glassformer.serve.openapi import document, page
from glassformer.serve.refusals import SHOWN, RequestError, block
from glassformer.serve.server import STATIC, Server

ENDPOINTS: tuple[Endpoint, ...] = (
    *libretranslate.ENDPOINTS,
    *openai.ENDPOINTS,
    *embeddings.ENDPOINTS,
    *own.ENDPOINTS,
    *watched.ENDPOINTS,
)


# Numbers and pictures that the page shares with the report of `inspect`.
PARTS = STATIC.parent.parent / "inspect" / "templates" / "parts.js"


def application(server: Server) -> Starlette:
    """Return the application of a server."""

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        yield
        await server.close()

    middleware = [Middleware(Guard, server=server)]
    if server.origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(server.origins),
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
            )
        )
    routes = [
        *(Route(one.path, one.app(server), methods=[one.method]) for one in ENDPOINTS),
        *_pages(),
        Mount("/static", StaticFiles(directory=STATIC), name="static"),
    ]
    handlers: dict[Any, Any] = {HTTPException: _refused, 500: _failed}
    return Starlette(
        routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=life
    )


def _pages() -> list[Route]:
    content = document(ENDPOINTS)
    shown = page(content)

    async def openapi(_: Request) -> Response:
        return JSONResponse(content)

    async def docs(_: Request) -> Response:
        return HTMLResponse(shown)

    async def index(_: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def parts(_: Request) -> Response:
        return FileResponse(PARTS, media_type="text/javascript")

    found: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "/": index,
        "/static/parts.js": parts,
        "/docs": docs,
        "/openapi.json": openapi,
    }
    return [Route(path, answer, methods=["GET"]) for path, answer in found.items()]


async def _refused(request: Request, error: HTTPException) -> Response:
    """Answer a path or a method that does not exist."""
    path = request.url.path[:SHOWN]
    remedy = "See /docs for the paths and their methods."
    if error.status_code == 405:
        why = f"The path {path!r} has other methods."
        refusal = RequestError(405, f"{request.method} is not possible here.", why, remedy)
    else:
        why = "The server has other paths."
        refusal = RequestError(error.status_code, f"There is nothing at {path!r}.", why, remedy)
    return JSONResponse(block(refusal), refusal.status, error.headers)


async def _failed(_: Request, error: Exception) -> Response:
    """Answer where the server itself is at fault; the log has the traceback."""
    refusal = RequestError(
        500,
        "The server failed to answer.",
        f"It has a defect: {type(error).__name__}. The log of the server says where.",
        "Send the request again; if it fails again, report it with the request.",
    )
    return JSONResponse(block(refusal), refusal.status)
