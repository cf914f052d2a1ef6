"""Checks of every request before it is read, and the headers of every answer.

A page of another site can make a browser send requests to a server on this machine. Its Origin
gives it away; where it has its own name point to this machine, so does its Host.
"""

from hmac import compare_digest
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.serve.refusals import SHOWN, RequestError, block
from glassformer.serve.server import Server

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Guard:
    """Refuses requests of other sites, and adds the headers."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self.app, self.server = app, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(Headers(scope=scope))
        if refusal is None:
            await self.app(scope, receive, send_with_headers)
        else:
            answer = JSONResponse(block(refusal), refusal.status)
            await answer(scope, receive, send_with_headers)

    def _refusal(self, headers: Headers) -> RequestError | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_own(host):
            return RequestError(
                403,
                f"The request is for the host {host[:SHOWN]!r}.",
                "The server answers to its own names only, so that no other site can reach it "
                "through a browser.",
                "Use the address that it printed, or name this one: --allow-host NAME.",
            )
        own = {f"http://{host}", f"https://{host}"}
        if origin is not None and origin not in own and origin not in self.server.origins:
            return RequestError(
                403,
                f"The request comes from a page of {origin[:SHOWN]!r}.",
                "Pages of other sites may not call this server.",
                "If this one may, start the server with --cors and its origin.",
            )
        return None

    def _is_own(self, host: str) -> bool:
        name = name_of(host)
        return name in self.server.hosts or (self.server.any_address and is_address(name))


def name_of(host: str) -> str:
    """Return a Host header without its port and brackets, in small letters."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().removesuffix(".")


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def authorise(server: Server, request: Request, api_key: str | None = None) -> None:
    """Refuse a request without the token of the server, if it has one."""
    if server.token is None:
        return
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    given = token.strip() if scheme.lower() == "bearer" else (api_key or "")
    if not compare_digest(given.encode(errors="replace"), server.token.encode()):
        raise RequestError(
            401,
            "The token is missing or wrong." if given else "The request has no token.",
            "The server was started with --token: it answers those who know it.",
            "Send the header `Authorization: Bearer TOKEN`, or to LibreTranslate's "
            "endpoints the field api_key.",
        )
