"""`glassformer chat`: talk to a language model by its own chat template."""

import sys
from typing import Annotated, Any

import typer

from glassformer.cli import options as o


def chat(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="An imported model, or a folder of one.")
    ],
    messages: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MESSAGE",
            help="Messages of the user, in turn.",
            show_default="the lines of standard input",
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Instruction before the chat.", show_default="the model's own"
        ),
    ] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Take the most likely token at each step.")
    ] = False,
    temperature: o.Temperature = None,
    top_k: o.TopK = None,
    top_p: o.TopP = None,
    seed: o.Seed = None,
    int8: o.Int8 = False,
    threads: o.Threads = None,
) -> None:
    """Answer messages one after the other; each answer is printed as it is decoded.

    The model reads the whole chat so far each time. An empty line or the end of the input ends it.
    """
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    o.not_with("--greedy", greedy, "Greedy search does not sample.", **drawn)
    search: dict[str, Any] = {k: value for k, value in drawn.items() if value is not None}
    if greedy:
        search["sample"] = False

    from glassformer.pipeline import load_generator

    generator = load_generator(model, int8 or None, threads=threads)
    so_far = [{"role": "system", "content": system}] if system else []
    for number, message in enumerate(messages or _typed()):
        so_far.append({"role": "user", "content": message})
        answer = ""
        for piece in generator.stream_chat(so_far, number=number, **search):
            print(piece, end="", flush=True)
            answer += piece
        print()
        so_far.append({"role": "assistant", "content": answer})


def _typed() -> "Any":
    """Yield the lines of standard input up to an empty one, with a prompt on a terminal."""
    while True:
        if sys.stdin.isatty():
            print("> ", end="", flush=True)
        line = sys.stdin.readline().rstrip("\n")
        if not line:
            return
        yield line
