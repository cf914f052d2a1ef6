"""`glassformer generate`: a prompt in, the prompt and what follows it out, line by line."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from glassformer.cli import options as o
from glassformer.cli.text import (
    answer_lines,
    check_input,
    lines,
    ranked,
    stream_lines,
    warn_of_cost,
)

TOGETHER = 16  # prompts per batch: their outputs are longer than translations


def generate(
    model: Annotated[
        str, typer.Option(metavar="RUN", help="A run or a checkpoint of a language model.")
    ],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROMPT",
            help="Texts to continue.",
            show_default="the lines of --file or of standard input",
        ),
    ] = None,
    file: o.File = None,
    n_best: o.NBest = None,
    min_length: o.MinLength = 0,
    max_length: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Longest prompt and output together, in subwords; up to 4096."
        ),
    ] = 256,
    no_repeat_ngram: o.NoRepeatNgram = 0,
    repetition_penalty: o.RepetitionPenalty = 1.0,
    temperature: o.Temperature = None,
    top_k: o.TopK = None,
    top_p: o.TopP = None,
    seed: o.Seed = None,
    beam: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Search with this beam size instead of sampling; 1 is greedy."
        ),
    ] = None,
    length_penalty: o.LengthPenalty = None,
    stream: Annotated[bool, typer.Option("--stream", help="Print tokens one by one.")] = False,
    int8: o.Int8 = False,
    threads: o.Threads = None,
    device: o.Device = "cpu",
) -> None:
    """Continue prompts, or the lines of a file or of standard input, by sampling.

    An empty prompt starts a text. The same seed gives the same output.
    """
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    check_input(texts, file)
    o.not_with("--beam", beam is not None, "A beam search does not sample.", **drawn)
    o.not_with("--stream", stream, STREAM, n_best=n_best, beam=None if beam == 1 else beam)
    o.not_with("--stream", stream, STREAM, length_penalty=length_penalty)
    several = beam is not None or n_best is not None
    o.only_with("--beam or --n-best", several, length_penalty=length_penalty)
    search: dict[str, Any] = {
        "sample": beam is None,
        "beam_size": beam or 1,
        "n_best": n_best or 1,
        "length_penalty": 0.6 if length_penalty is None else length_penalty,
        "min_length": min_length,
        "max_length": max_length,
        "no_repeat_ngram": no_repeat_ngram,
        "repetition_penalty": repetition_penalty,
        **{name: value for name, value in drawn.items() if value is not None},
    }

    from glassformer.decode.options import SearchOptions
    from glassformer.pipeline import load_generator

    options = SearchOptions(**search)
    warn_of_cost(min_length, options.width)
    generator = load_generator(model, int8 or None, threads=threads, device=device)
    count = 0

    def answer(prompts: list[str]) -> list[list[str]]:
        nonlocal count
        found = generator.n_best(prompts, options, first=count)
        first, count = count, count + len(prompts)
        if n_best is None:
            return [[best.text] for best, *_ in found]
        return [ranked(index, answers) for index, answers in enumerate(found, first)]

    def pieces(prompt: str) -> Iterator[str]:
        nonlocal count
        number, count = count, count + 1
        continuation = generator.stream(prompt, number=number, **search)  # or it is refused
        yield prompt
        yield from continuation

    given, too_long = lines(texts, file, TOGETHER), "Make it shorter."
    if stream:
        stream_lines(given, pieces, too_long)
    else:
        answer_lines(given, answer, too_long)


STREAM = "Tokens are printed as they are decoded, before the rest of the answer is known."
