"""Start the server and stop it: addresses, signals, and what it prints."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from glassformer import pretrained
from glassformer.errors import CheckpointError, MissingPackageError, SettingsError
from glassformer.extras import is_installed

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
RUNS, FINDINGS = "runs", "results/lab"  # where `train` and `lab run` write
HOST, PORT = "127.0.0.1", 8642
MIN_TOKEN = 16  # characters: one that cannot be guessed


def check_address(host: str, token: str | None) -> None:
    """Refuse an address that others reach without a token that they must know."""
    if token is not None and (len(token) < MIN_TOKEN or not token.isprintable()):
        raise SettingsError(
            "The token is too short." if token.isprintable() else "The token is not plain text.",
            f"Whoever guesses it can use the server; it has at least {MIN_TOKEN} characters.",
            'Make one: python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )
    if token is None and not is_loopback(host):
        raise SettingsError(
            f"The address {host} can be reached by other machines, and no token is given.",
            "Everyone in the network could use the models and see what they answer.",
            f"Add one: glassformer serve --host {host} --token TOKEN; or leave --host out.",
        )


def is_loopback(host: str) -> bool:
    if host in LOOPBACK:
        return True
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return False


def serve(
    models: Sequence[str] = (),
    *,
    host: str = HOST,
    port: int = PORT,
    token: str | None = None,
    allow_hosts: Sequence[str] = (),
    cors: Sequence[str] = (),
    deadline: float | None = None,
    int8: bool | None = None,
    threads: int | None = None,
    runs: str | Path = RUNS,
    findings: str | Path = FINDINGS,
) -> None:
    """Serve models over HTTP until SIGINT or SIGTERM.

    models       runs, checkpoints or names of bundled models. Empty: all that are bundled.
    host         address to listen on. Another one than loopback needs a `token`.
    port         0: any free one.
    allow_hosts  further names by which the server is called, such as that of a proxy.
    cors         origins of other sites whose pages may call it, such as https://example.org.
    deadline     seconds that a request may take. None: 60.
    int8         compute in 8 bits. None: as each model is stored.
    threads      of the processor, at most. None: as many as the process may use.
    runs         folder of training runs whose curves the page shows, if it exists.
    findings     folder of the lab's results, likewise.
    """
    check_address(host, token)
    for package in ("starlette", "uvicorn"):
        if not is_installed(package):
            raise MissingPackageError(package, "glassformer serve", "serve")
    import uvicorn

    from glassformer.serve.app import application
    from glassformer.serve.limits import Limits
    from glassformer.serve.models import Models
    from glassformer.serve.server import Server

    bundled = sorted(pretrained.names(), key=lambda name: name != pretrained.TRANSLATOR)
    named = list(models) or bundled
    if not named:
        raise CheckpointError(
            "No model is named, and none comes with this copy of Glassformer.",
            "A server without a model has nothing to answer with.",
            "Name a run: glassformer serve --model runs/demo.",
        )
    limits = Limits() if deadline is None else replace(Limits(), deadline=deadline)
    names = {host.lower(), *(name.lower() for name in allow_hosts)}
    server = Server(
        Models(named, int8, threads),
        limits,
        token,
        frozenset(LOOPBACK | names),
        any_address=host in ("0.0.0.0", "::"),
        origins=tuple(cors),
        runs=Path(runs),
        findings=Path(findings),
    )
    server.models.warm_up()
    config = uvicorn.Config(
        application(server),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=limits.stopping,
    )
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    with suppress(KeyboardInterrupt):
        announcing(config, server, token)


def announcing(config: Any, server: Any, token: str | None) -> None:
    """Run the server; print its address when it listens."""
    import uvicorn

    from glassformer.progress import say

    class Announced(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            for one in self.servers[:1]:
                name, port = one.sockets[0].getsockname()[:2]
                shown = f"[{name}]" if ":" in name else name
                end = "/#token=TOKEN" if token else "/"
                models = ", ".join(f"{one.name} ({one.kind})" for one in server.models)
                say(f"serving {models}\nopen http://{shown}:{port}{end}\nstop with Ctrl-C")

    Announced(config).run()
