"""One file over HTTP: resumed where it was cut, checked, and in place whole or not at all."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import file_digest
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from ssl import SSLError
from time import sleep
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from glassformer.errors import DataError

Progress = Callable[[int, int | None], None]  # bytes done, bytes in all where the server tells

BLOCK = 1 << 16
CUT = (URLError, HTTPException, ConnectionError, TimeoutError, SSLError)
TRY_AGAIN = {HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, HTTPStatus.TOO_MANY_REQUESTS}


def fetch(
    url: str,
    path: Path,
    sha256: str,
    *,
    by_hand: str | None = None,
    progress: Progress = lambda done, total: None,
    timeout: float = 30.0,
    attempts: int = 4,
    pause: float = 1.0,
) -> None:
    """Bring the file at `url`, whose checksum is known, to `path`.

    What has come so far lies in a `.part` file beside it, from where the next attempt, or the next
    run, goes on. `by_hand` is the place that the user is told of when there is no way to fetch it.
    """
    part, place = part_of(path), by_hand or str(path)
    with _alone_in(path.parent):
        if path.is_file() and sha256_of(path) == sha256:  # another process was faster
            return
        for attempt in range(1, attempts + 1):
            try:
                _go_on(url, part, progress, timeout)
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


def _go_on(url: str, part: Path, progress: Progress, timeout: float) -> None:
    part.parent.mkdir(parents=True, exist_ok=True)
    done = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    with urlopen(request, timeout=timeout) as response, part.open("ab") as file:
        if response.status != HTTPStatus.PARTIAL_CONTENT:  # asked or not, the whole file comes
            done = 0
            file.truncate(done)
        length = response.headers["Content-Length"]
        total = done + int(length) if length else None
        progress(done, total)
        while block := response.read(BLOCK):
            done += file.write(block)
            progress(done, total)
    if total is not None and done < total:  # urllib itself ends a cut body without a word
        raise ConnectionError(f"the connection was cut after {done} of {total} bytes")


def _passing(error: Exception, part: Path) -> bool:
    """Whether another attempt may fare better."""
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
