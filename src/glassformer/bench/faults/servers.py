"""Campaign `servers`: downloads from a server on loopback that cuts, stalls, lies and refuses."""

import hashlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

from glassformer.bench.faults.campaign import Campaign, Result, Trial
from glassformer.data.download import BLOCK, SLOWEST, fetch, part_of
from glassformer.errors import DataError

CONTENT = Random(0).randbytes(5 * BLOCK + 17)
TIMEOUT, ATTEMPTS = 0.2, 2  # s, and tries of a download
SHA256, SIZE = hashlib.sha256(CONTENT).hexdigest(), len(CONTENT)


class Site(ThreadingHTTPServer):
    """Serves CONTENT. `cuts` are the bytes after which the next answers break off."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server_port}/file.gz"
        self.asked: list[str | None] = []  # the Range of each request
        self.cuts: list[int] = []
        self.codes: list[int] = []  # answered to the next requests, instead of the file
        self.ranges, self.resets, self.released = True, False, threading.Event()
        self.lie: Lie | None = None  # answers instead

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that went away."""


class Answer(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        site, wanted = self.server, self.headers["Range"]
        site.asked.append(wanted)
        if site.lie:
            site.lie(self)
            return
        if self.path == "/silence":
            site.released.wait()
            return
        if site.codes:
            self.send_error(site.codes.pop(0))
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        if site.ranges and start >= len(CONTENT):
            self.send_error(416)
            return
        start = start if site.ranges else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        end = site.cuts.pop(0) if site.cuts else None
        self.wfile.write(CONTENT[start:][:end])
        if site.resets and end is not None:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def log_message(self, *args: Any) -> None:
        """Log nothing."""


Lie = Callable[[Answer], object]


@contextmanager
def serving() -> Iterator[Site]:
    """Run a site in a thread."""
    with Site() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


def raw(*lines: str, body: bytes = CONTENT) -> Lie:
    """Answer with these lines as the status and the headers, then with `body`."""
    head = "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")
    return lambda handler: handler.wfile.write(head + body)


def endless(pieces: Iterable[bytes], pause: float = 0.0) -> Lie:
    """Answer with pieces again and again until the client leaves or the site is released."""

    def answer(handler: Answer) -> None:
        start, *rest = pieces
        handler.wfile.write(start)
        while not handler.server.released.wait(pause):
            handler.wfile.write(b"".join(rest))

    return answer


OK = "HTTP/1.0 200 OK"
HEAD = f"{OK}\r\n\r\n".encode()
# Answers with the right file: it arrives, whatever the headers are.
HARMLESS: dict[str, Lie] = {
    "no length": raw(OK),
    "length of words": raw(OK, "Content-Length: very long"),
    "negative length": raw(OK, "Content-Length: -1"),
    "length beyond the file": raw(OK, f"Content-Length: {10**30}"),
    "more than the file": raw(OK, body=CONTENT + b"more"),
    "a file without an end": endless([HEAD + CONTENT, b"x" * BLOCK]),
    "headers in another alphabet": raw(OK, "Content-Type: \xe9\xff\x00", "Content-Length: \xb2"),
    "an unrequested part": raw("HTTP/1.0 206 Partial", "Content-Range: bytes 9-1/x"),
    "a range of nonsense": raw(OK, "Content-Range: lots", "Accept-Ranges: none"),
}
HARMFUL: dict[str, Lie] = {
    "two lengths": raw(OK, "Content-Length: 7", f"Content-Length: {SIZE}"),
    "less than the file": raw(OK, body=CONTENT[:100]),
    "nothing": raw(OK, f"Content-Length: {SIZE}", body=b""),
    "not HTTP": raw("SSH-2.0-OpenSSH_9.6", body=b""),
    "no answer at all": lambda _: None,
    "a status of words": raw("HTTP/1.0 fine OK"),
    "another file of the size": raw(OK, body=bytes(SIZE)),
    "zeros without an end": endless([HEAD, bytes(BLOCK)]),
    "chunks of nonsense": raw("HTTP/1.1 200 OK", "Transfer-Encoding: chunked"),
    "a chunk of a negative size": raw(
        "HTTP/1.1 200 OK", "Transfer-Encoding: chunked", body=b"-5\r\nabc\r\n0\r\n\r\n"
    ),
    "too many headers": raw(OK, *(f"X-{i}: y" for i in range(1000))),
    "a header too long": raw(OK, "X: " + "y" * 100_000),
    "a redirection to nonsense": raw("HTTP/1.0 302 Found", "Location: http://[", body=b""),
    "a redirection to a file": raw("HTTP/1.0 302 Found", "Location: file:///etc/passwd", body=b""),
    "a redirection to itself": raw("HTTP/1.0 302 Found", "Location: /file.gz", body=b""),
    "a redirection without an end": endless(
        [b"HTTP/1.0 302 Found\r\nLocation: /file.gz\r\n\r\n", bytes(BLOCK)]
    ),
    "bytes that drip": endless([HEAD, b"x"], 0.01),
    "headers that drip": endless([f"{OK}\r\n".encode(), b"X: y\r\n"], 0.02),
    "one header that drips": endless([f"{OK}\r\nX: ".encode(), b"y"], 0.01),
    "please wait, without an end": endless([b"", b"HTTP/1.1 100 Continue\r\n\r\n"], 0.01),
}


def begin(folder: Path) -> Trial:
    """Fetch from a server that tells each lie once, then from servers that draw one."""
    os.environ["no_proxy"] = "*"  # a proxy of the user knows no loopback
    lies = [*HARMLESS.values(), *HARMFUL.values()]

    def trial(seed: int) -> Result:
        number = seed % 1_000_000
        lie = lies[number] if number < len(lies) else drawn(Random(seed))
        place = folder / str(seed)
        place.mkdir()
        with serving() as site:
            site.lie = lie
            problem = outcome(site, place / "file.gz", arrives=number < len(HARMLESS))
        return Result(lost=(problem,) if problem else ())

    return trial


def drawn(random: Random) -> Lie:
    """Return an answer with a damaged head, a damaged body, or both; it may have no end."""
    status = random.choice((200, 206, 204, 301, 302, 307, 304, 400, 404, 416, 500, 503, 999, 100))
    headers = [
        f"HTTP/1.{random.randrange(2)} {status} {random.choice(('OK', '', 'x' * 500))}",
        *(f"{random.choice(NAMES)}: {random.choice(VALUES)}" for _ in range(random.randrange(4))),
    ]
    head = bytearray("\r\n".join((*headers, "", "")).encode("latin-1"))
    for _ in range(random.choice((0, 0, 1, 3))):
        head[random.randrange(len(head))] = random.randrange(256)
    body = CONTENT[: random.choice((0, 1, 100, BLOCK, SIZE - 1, SIZE, SIZE))]
    if random.random() < 0.2:
        body = body[:100] + random.randbytes(10) + body[110:]
    if random.random() < 0.2:
        return endless([bytes(head) + body, b"x"], random.choice((0.0, 0.01)))
    return lambda handler: handler.wfile.write(bytes(head) + body)


NAMES = (
    "Content-Length", "Transfer-Encoding", "Content-Encoding", "Location", "Content-Range",
    "Connection", "Retry-After", "",
)  # fmt: skip
VALUES = (
    "0", "-1", "5", "1e9", str(10**40), str(SIZE), "chunked", "gzip", "/file.gz", "//", "ftp://x/",
    "file:///etc/passwd", "http://[::1", "bytes 0-1/2", "bytes */*", "close", "\xff\x00", "",
)  # fmt: skip


def outcome(site: Site, path: Path, arrives: bool) -> str | None:
    """Fetch, then fetch again from an honest server; return what went wrong, if anything did."""
    began = monotonic()
    try:
        fetch(site.url, path, SHA256, SIZE, timeout=TIMEOUT, attempts=ATTEMPTS, pause=0.001)
    except DataError as error:
        if arrives:
            return f"the right file was refused: {error.what}"
        if path.exists():
            return "an error left a file under its final name"
    if monotonic() - began > LONGEST:
        return f"the download took {monotonic() - began:.0f} s"
    site.lie = None
    for _ in range(2):  # a part that the server lied about is found out and thrown away
        if not path.exists():
            try:
                fetch(site.url, path, SHA256, SIZE, pause=0.001)
            except DataError:
                continue
    if not path.exists() or path.read_bytes() != CONTENT:
        return "the right file did not arrive from an honest server"
    return "a part was left" if part_of(path).exists() else None


# s: each attempt has 3 timeouts and the time of the slowest download, twice that if busy.
LONGEST = 2 * ATTEMPTS * (3 * TIMEOUT + SIZE / SLOWEST)
CAMPAIGN = Campaign("servers", begin, trials=300, quick=40, seconds=2 * LONGEST, memory=1 << 30)
