"""`glassformer serve`: the explorer and the HTTP API on this machine."""

from typing import Annotated

import typer

from glassformer.cli import options as o
from glassformer.serve.run import FINDINGS, HOST, PORT, RUNS
from glassformer.serve.run import serve as run


def serve(
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL",
            help="A run, a checkpoint or one of `models`. May be repeated.",
            show_default="all bundled models",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Address to listen on; others need --token."),
    ] = HOST,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, metavar="N", help="Port; 0 is any free one.")
    ] = PORT,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar="GLASSFORMER_TOKEN",
            show_envvar=False,
            help="Answer only requests that have it; $GLASSFORMER_TOKEN keeps it off the command "
            "line.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further name of the server, such as its proxy's."),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="A site whose pages may call it, such as https://example.org."
        ),
    ] = None,
    deadline: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Time that a request may take.")
    ] = 60.0,
    runs: Annotated[
        str, typer.Option(metavar="FOLDER", help="Training runs whose curves the page shows.")
    ] = RUNS,
    lab: Annotated[
        str, typer.Option(metavar="FOLDER", help="Results of the lab that the page shows.")
    ] = FINDINGS,
    int8: o.Int8 = False,
    threads: o.Threads = None,
) -> None:
    """Serve models: a page to look inside them, and an HTTP API.

    The page is at /, its API at /docs. POST /translate is LibreTranslate's, /v1/completions is
    OpenAI's. It listens on this machine only, unless --host names another address.
    """
    run(
        model or [],
        host=host,
        port=port,
        token=token,
        allow_hosts=allow_host or [],
        cors=cors or [],
        deadline=deadline,
        int8=int8 or None,
        threads=threads,
        runs=runs,
        findings=lab,
    )
