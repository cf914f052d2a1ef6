"""Errors with an HTTP status, and their JSON."""

from typing import Any

from pydantic import ValidationError

from glassformer.errors import CheckpointError, GlassformerError, MissingPackageError

SHOWN = 200  # characters of a value that an error repeats


class RequestError(GlassformerError):
    """A request that is not answered: what, why, and what to do, with an HTTP status."""

    def __init__(
        self, status: int, what: str, why: str, remedy: str, retry_after: int | None = None
    ) -> None:
        super().__init__(what, why, remedy)
        self.status, self.retry_after = status, retry_after

    @property
    def headers(self) -> dict[str, str]:
        found = {"WWW-Authenticate": "Bearer"} if self.status == 401 else {}
        if self.retry_after is not None:
            found["Retry-After"] = str(self.retry_after)
        return found


def status_of(error: GlassformerError) -> int:
    """Return the status of an error: most are about what the request asks for."""
    if isinstance(error, RequestError):
        return error.status
    if isinstance(error, MissingPackageError):
        return 501
    return 500 if isinstance(error, CheckpointError) else 422


def block(error: GlassformerError) -> dict[str, Any]:
    """Return the error block of LibreTranslate's and our own endpoints."""
    return {"error": error.what, "why": error.why, "next": error.remedy}


def openai_block(error: GlassformerError) -> dict[str, Any]:
    """Return the error block as OpenAI's clients read it."""
    status = status_of(error)
    kind = "server_error" if status >= 500 else "invalid_request_error"
    detail = {"message": str(error), "type": kind, "param": None, "code": str(status)}
    return {"error": detail | {"why": error.why, "next": error.remedy}}


def invalid(error: ValidationError) -> RequestError:
    """Return the refusal of a body whose fields are not those of the schema."""
    first = error.errors(include_url=False, include_context=False)[0]
    # Behind the name come the kinds of a union, which mean nothing to a client, and places.
    places = [part for part in first["loc"][1:] if isinstance(part, int)]
    place = ".".join(map(str, [*first["loc"][:1], *places])) or "body"
    problem = first["msg"].removeprefix("Value error, ")
    return RequestError(
        422,
        f"The field {place[:SHOWN]!r} is not valid: {problem[:SHOWN]}.",
        f"{len(error.errors()):,} of the fields of the body do not match the schema.",
        "The schema of every request is at /docs and /openapi.json.",
    )


def busy(what: str, limit: int) -> RequestError:
    return RequestError(
        429,
        f"The queue is full: {limit:,} {what} are waiting.",
        "They are answered in turn, and a longer queue would outlast the deadline of requests.",
        "Send the request again in a few seconds.",
        retry_after=2,
    )


def too_late(seconds: float) -> RequestError:
    return RequestError(
        503,
        f"The answer was not ready after {seconds:g} seconds.",
        "Each request has a deadline, so that one of them does not keep others waiting.",
        "Send less text at once, or start the server with a longer --deadline.",
        retry_after=5,
    )
