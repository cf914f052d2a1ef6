"""One file over HTTP: resumed where it was cut, checked, and in place whole or not at all.

A server is not trusted. No header of its answer decides how much is read or how long that takes:
the manifest knows the size and the checksum of each file.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import file_digest
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from socket import SHUT_RDWR
from ssl import SSLError
from threading import Timer
from time import monotonic, sleep
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    Request,
    build_opener,
)

from glassformer.errors import DataError

Progress = Callable[[int, int], None]  # bytes done, bytes in all

BLOCK = 1 << 16
SLOWEST = 10_000  # bytes a second, on average: below, the connection is cut and tried again
CUT = (URLError, HTTPException, ConnectionError, TimeoutError, SSLError)
TRY_AGAIN = {HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, HTTPStatus.TOO_MANY_REQUESTS}


def fetch(
    url: str,
    path: Path,
    sha256: str,
    size: int,
    *,
    by_hand: str | None = None,
    progress: Progress = lambda done, total: None,
    timeout: float = 30.0,
    attempts: int = 4,
    pause: float = 1.0,
) -> None:
    """Bring the file at `url`, whose checksum and size in bytes are known, to `path`.

    What has come so far lies in a `.part` file beside it, from where the next attempt, or the next
    run, goes on. `by_hand` is the place that the user is told of when there is no way to fetch it.
    `timeout` is in seconds: for a connection, for each read, and before `SLOWEST` counts.
    """
    part, place = part_of(path), by_hand or str(path)
    with _alone_in(path.parent):
        if path.is_file() and sha256_of(path) == sha256:  # another process was faster
            return
        for attempt in range(1, attempts + 1):
            try:
                _go_on(url, part, size, progress, timeout)
                break
            except CUT as error:
                if not _passing(error, part) or attempt == attempts:
                    raise _not_fetched(url, error, place) from None
            except OSError as error:
                raise DataError(
                    f"{part} cannot be written: {error.strerror}.",
                    f"It is to hold what comes from {url}.",
                    "Make room there, or set XDG_CACHE_HOME to a folder that can be written.",
                ) from None
            sleep(pause * 2 ** (attempt - 1))
        _check(url, part, sha256)
        put_in_place(part, path)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Only one process at a time goes on with what lies in a folder, where there are such locks.

    It is the folder that is locked: the file comes, goes and is renamed.
    """
    with ExitStack() as stack:
        with suppress(OSError, ImportError):  # what cannot be written is told by whoever writes
            from fcntl import LOCK_EX, flock

            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            flock(descriptor, LOCK_EX)
        yield


def part_of(path: Path) -> Path:
    """Where a file is written until it is whole."""
    return path.with_name(path.name + ".part")


def put_in_place(part: Path, path: Path) -> None:
    """Rename a finished file, after its bytes are safe on the disk: a crash leaves old or new."""
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    part.replace(path)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _go_on(url: str, part: Path, size: int, progress: Progress, timeout: float) -> None:
    part.parent.mkdir(parents=True, exist_ok=True)
    done = part.stat().st_size if part.exists() else 0
    if done == size:
        return
    if done > size:  # of another version of the file
        part.unlink()
        done = 0
    request = Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    with _answer(request, timeout) as response, part.open("ab") as file:
        if not _continues(response, done):  # asked or not, the whole file comes
            done = 0
            file.truncate(done)
        begin, began = done, monotonic()
        progress(done, size)
        while done < size and (block := response.read1(min(BLOCK, size - done))):
            done += file.write(block)
            progress(done, size)
            if monotonic() - began > timeout + (done - begin) / SLOWEST:
                raise TimeoutError(f"less than {SLOWEST:,} bytes a second came")
    if done < size:
        raise ConnectionError(f"the connection was cut after {done} of {size} bytes")


def _continues(response: HTTPResponse, done: int) -> bool:
    """Return whether the answer holds the bytes from `done` on."""
    start = response.headers.get("Content-Range", "").partition("-")[0]
    return response.status == HTTPStatus.PARTIAL_CONTENT and start in ("", f"bytes {done}")


@contextmanager
def _answer(request: Request, timeout: float) -> Iterator[HTTPResponse]:
    """Open `request`, and cut the connection if its headers take more than two timeouts.

    The timeout of a socket is that of one read. A server may send a byte of a header every second.
    """
    watched = _Watched()
    opener = build_opener(watched, _Redirects)
    watch = Timer(2 * timeout, watched.cut)
    watch.start()
    try:
        response = opener.open(request, timeout=timeout)
    except ValueError as error:  # a redirection to what is no address
        watched.close()
        raise HTTPException(f"the server's answer makes no sense ({error})") from None
    finally:
        watch.cancel()
    with response:
        yield response


class _Watched(HTTPHandler, HTTPSHandler):
    """Opens http and https on connections that another thread can cut."""

    def __init__(self) -> None:
        super().__init__()
        self.connections: list[HTTPConnection] = []
        self.responses: list[HTTPResponse] = []

    def cut(self) -> None:
        for connection in self.connections:
            with suppress(OSError, AttributeError):  # closed or never opened: there is no socket
                connection.sock.shutdown(SHUT_RDWR)

    def close(self) -> None:
        for response in self.responses:
            response.close()

    def do_open(self, http_class: Any, req: Request, **arguments: Any) -> HTTPResponse:
        def connect(*where: Any, **how: Any) -> HTTPConnection:
            self.connections.append(http_class(*where, **how))
            return self.connections[-1]

        self.responses.append(super().do_open(connect, req, **arguments))
        return self.responses[-1]


class _Redirects(HTTPRedirectHandler):
    """Follows without reading the body of the redirection, which may have no end."""

    def redirect_request(self, req: Request, fp: Any, *answer: Any) -> Request | None:
        fp.close()
        return super().redirect_request(req, fp, *answer)


def _passing(error: Exception, part: Path) -> bool:
    """Return whether another attempt may succeed."""
    if not isinstance(error, HTTPError):
        return True
    error.close()
    if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        part.unlink(missing_ok=True)  # a part longer than the file: of another version
    return error.code in TRY_AGAIN or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR


def _not_fetched(url: str, error: Exception, place: str) -> DataError:
    if isinstance(error, HTTPError):
        return DataError(
            f"{url} was not given: {error.code} {error.reason}.",
            "The server was reached and has no such file for us.",
            f"Get the file elsewhere and put it at {place}.",
        )
    reason = error.reason if isinstance(error, URLError) else error
    return DataError(
        f"{url} could not be fetched: {reason}.",
        "There is no network here, or the server is down.",
        f"Run it again with a network, it goes on where it stopped; or put the file at {place}.",
    )


def _check(url: str, part: Path, sha256: str) -> None:
    got = sha256_of(part)
    if got != sha256:
        part.unlink()
        raise DataError(
            f"What came from {url} is not the file that was asked for.",
            f"Its SHA-256 should be {sha256} and is {got}.",
            "Run it again. If that does not help, the file there was changed: do not use it.",
        )
