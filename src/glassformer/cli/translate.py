"""`glassformer translate`: text in, text out, line by line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli import options as o
from glassformer.cli.models import default
from glassformer.cli.text import (
    NO_BREAKS,
    answer_lines,
    check_input,
    lines,
    ranked,
    stream_lines,
    warn_of_cost,
)
from glassformer.errors import SettingsError
from glassformer.pretrained import TRANSLATOR

if TYPE_CHECKING:
    from glassformer.decode.options import SearchOptions
    from glassformer.pipeline import Translator


def translate(
    texts: o.Texts = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="A run, a checkpoint or one of `models`. May be repeated for an ensemble.",
            show_default=TRANSLATOR,
        ),
    ] = None,
    to: o.To = None,
    file: o.File = None,
    beam: o.Beam = None,
    n_best: o.NBest = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Print the score and a tab before each translation.")
    ] = False,
    length_penalty: o.LengthPenalty = None,
    min_length: o.MinLength = 0,
    max_length: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Longest output, in subwords; up to 4096.",
            show_default="those of the text + 50",
        ),
    ] = None,
    no_repeat_ngram: o.NoRepeatNgram = 0,
    repetition_penalty: o.RepetitionPenalty = 1.0,
    prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text that every translation begins with.")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample at random instead of searching.")
    ] = False,
    temperature: o.Temperature = None,
    top_k: o.TopK = None,
    top_p: o.TopP = None,
    seed: o.Seed = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Print tokens one by one, by greedy search or sampling."),
    ] = False,
    split: Annotated[
        bool | None,
        typer.Option(
            "--split/--no-split",
            help="Translate a line sentence by sentence and keep its layout.",
            show_default="split, but not with --n-best or --prefix",
        ),
    ] = None,
    typeset: Annotated[
        bool,
        typer.Option(
            "--typeset/--no-typeset",
            help="Print French with ’ « » … and no-break spaces, for models that are trained on "
            "plain typography.",
        ),
    ] = True,
    truncate: o.Truncate = False,
    int8: o.Int8 = False,
    threads: o.Threads = None,
    device: o.Device = "cpu",
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Tokens in a batch. More is faster and takes more memory.",
            show_default="4096",
        ),
    ] = None,
) -> None:
    """Translate texts, or the lines of a file or of standard input, to as many lines.

    A line without a sentence, such as a blank one or a lone URL, comes back as it is. With
    --n-best the index of a line counts from 0, the best answer comes first, and scores are
    log-probabilities over the length penalty.
    """
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    check_input(texts, file)
    o.only_with("--sample", sample, **drawn)
    o.not_with("--sample", sample, "Sampling does not search.", beam=beam)
    if sample:  # a single sample is not ranked
        ranked = scores or n_best is not None
        o.only_with("--n-best or --scores", ranked, length_penalty=length_penalty)
    o.not_with("--split", split is True, SPLIT, n_best=n_best, prefix=prefix)
    o.not_with("--stream", stream, STREAM, n_best=n_best, scores=scores or None, prefix=prefix)
    o.not_with("--stream", stream, STREAM, beam=None if beam == 1 else beam)
    o.not_with("--stream", stream, ALONE, length_penalty=length_penalty, batch_tokens=batch_tokens)
    check_prefix(prefix)
    search: dict[str, Any] = {
        "beam_size": 1 if stream or sample else 5 if beam is None else beam,
        "n_best": n_best or 1,
        "min_length": min_length,
        "max_length": max_length,
        "no_repeat_ngram": no_repeat_ngram,
        "repetition_penalty": repetition_penalty,
        "sample": sample,
    }
    given = {"length_penalty": length_penalty, **drawn}
    search |= {name: value for name, value in given.items() if value is not None}
    named: Sequence[str | Path] = model or [default(TRANSLATOR, OWN)]

    from glassformer.decode.options import SearchOptions
    from glassformer.pipeline import BATCH_TOKENS, load_translator
    from glassformer.pipeline.batches import check_batch_tokens

    budget = BATCH_TOKENS if batch_tokens is None else batch_tokens
    check_batch_tokens(budget)
    SearchOptions(**search)  # refuse bad options before a model is loaded
    warn_of_cost(min_length, 1 if stream else search["n_best"] if sample else search["beam_size"])
    several = named if len(named) > 1 else named[0]
    translator = load_translator(several, int8 or None, threads=threads, device=device)
    if to is not None:
        translator = translator.towards(to)
    options = translator.options(**search)
    if split is None:
        split = n_best is None and prefix is None
    job = Job(translator, options, split, typeset, truncate, budget, prefix, scores, bool(n_best))
    whole = (
        split or n_best is not None or prefix is not None
    )  # each line is one sentence, or must stay whole
    too_long = f"{'Make it shorter' if whole else 'Cut it into sentences: --split'}; or --truncate."
    if stream:
        stream_lines(lines(texts, file), lambda text: job.stream(text, search), too_long)
    else:
        answer_lines(lines(texts, file), job.answer, too_long)


def check_prefix(prefix: str | None) -> None:
    """Refuse a prefix with a line break."""
    if prefix is not None and prefix.translate(NO_BREAKS) != prefix:
        raise SettingsError(
            f"--prefix {prefix!r} has a line break.",
            "A translation is one line of output, which begins with the prefix.",
            "Replace it by a space.",
        )


SPLIT = "It would apply to each sentence of a line."
OWN = "--model runs/demo. To train that one takes three minutes: glassformer demo."
ALONE = "One answer is decoded at a time: nothing is ranked, and there is no batch."
STREAM = "Tokens are printed as they are decoded, before the end and the score are known."


@dataclass
class Job:
    """The translation of lines, and their count: indices and samples depend on it."""

    translator: "Translator"
    options: "SearchOptions"
    split: bool
    typeset: bool
    truncate: bool
    batch_tokens: int
    prefix: str | None
    scores: bool
    n_best: bool
    lines: int = 0
    sentences: int = 0

    def answer(self, texts: list[str]) -> list[list[str]]:
        layout = self.translator.layout(texts, self.split)
        sentences = layout.sentences
        found = self.translator.in_layout(
            layout,
            self.translator.target_languages(texts),
            self.options,
            None if self.prefix is None else [self.prefix] * len(sentences),
            typeset=self.typeset,
            batch_tokens=self.batch_tokens,
            truncate=self.truncate,
            first=self.sentences,
        )
        first, self.lines = self.lines, self.lines + len(texts)
        self.sentences += len(sentences)
        if self.n_best:
            return [ranked(index, answers) for index, answers in enumerate(found, first)]
        best = [one for one, *_ in found]
        answers = layout.join([one.text for one in best])
        scores = [sum(one.score for one in part) for part in layout.of_each_text(best)]
        return [
            [f"{score:.4f}\t{answer}" if self.scores and text.strip() else answer]
            for text, answer, score in zip(texts, answers, scores, strict=True)
        ]

    def stream(self, text: str, search: dict[str, Any]) -> Iterator[str]:
        number = self.sentences
        self.sentences += len(self.translator.layout([text], self.split).sentences)
        how: dict[str, Any] = {"split": self.split, "typeset": self.typeset, "number": number}
        return self.translator.stream(text, truncate=self.truncate, **how, **search)
