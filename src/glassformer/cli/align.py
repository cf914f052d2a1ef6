"""`glassformer align`: which words translate which, read off cross-attention."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli import options as o
from glassformer.cli.evaluate import write
from glassformer.cli.progress import progress
from glassformer.cli.text import lines
from glassformer.cli.train import say as tell
from glassformer.errors import DataError, SettingsError
from glassformer.extras import require_torch

if TYPE_CHECKING:
    from glassformer.cli.align_report import Report
    from glassformer.data.grammar import AlignedPair
    from glassformer.evaluate.card import Circumstances
    from glassformer.inspect.alignment import Head
    from glassformer.inspect.links import Tally, TextPair
    from glassformer.pipeline import Translator

CHOICE = 1_000  # sentences, at most, that a head is chosen on
PICTURES = 10
HEAD = "--head"


def align(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run, a checkpoint or one of `models`.")
    ],
    source: Annotated[Path | None, typer.Option(help="Your own text, a line each.")] = None,
    target: Annotated[
        Path | None, typer.Option(help="Its translation. [what the model says]")
    ] = None,
    to: o.MainTo = None,
    tokenised: Annotated[
        bool, typer.Option("--tokenised", help="Words are what stands between spaces.")
    ] = False,
    head: Annotated[
        str | None,
        typer.Option(HEAD, metavar="HEAD", help="3.2 or 3.2+1 or 3:share or all+1:share. [chosen]"),
    ] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Width of the search, without --target. [5]")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where the links go: 0-0 1-2, a line each. [here]")
    ] = None,
    words: Annotated[
        Path | None, typer.Option(help="Where the words go: source ||| target, a line each.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where pictures go, as SVG and PNG.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help=f"How many pictures. [{PICTURES}]")
    ] = None,
    sentences: Annotated[
        int | None,
        typer.Option(min=1, help="Of the grammar, to choose on, and to measure on. [1000]"),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="The report as JSON.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="The report as Markdown.")] = None,
    int8: o.Int8Weights = False,
    threads: o.TorchThreads = 2,
    batch_tokens: o.BatchTokens = 2_048,
) -> None:
    """Score the word alignments of MODEL's attention, or align your own text by them.

    Without --source it is the embedded grammar, whose true alignment is known: the error rate of
    every head and average, the best chosen on one part and measured on another.

    With --source each line gives the links of its words, counted from 0, source-target. Words
    stand between spaces, and punctuation is split off: l' homme, king 's, do n't, est-ce, 3.5.

    A HEAD is layer.head; a layer alone averages its heads, `all` those of all. +1 reads it one
    step later, :share links words by their share of attention. If none is named, it is the best on
    the grammar for a model that was trained on it; for others the average whose links tell most of
    one word by the other (mutual information), or all:share for fewer than 30 lines.
    """
    own = source is not None
    o.only_with("--source", own, target=target, output=output, words=words, beam=beam)
    o.only_with("--source", own, tokenised=tokenised or None, to=to)
    o.not_with("--target", target is not None, "Nothing is searched for.", beam=beam)
    why = "Of your own text the true alignment is not known."
    o.not_with("--source", own, why, sentences=sentences, json=json_file, markdown=markdown)
    o.only_with("--figure", figure is not None, limit=limit)

    require_torch("glassformer align")

    from glassformer.inspect.alignment import Head
    from glassformer.pipeline import load_translator

    named = Head.parse(head) if head else None
    pictures = Pictures(figure, limit or PICTURES) if figure else None
    translator = load_translator(model, int8 or None, engine="torch", threads=threads)
    translator = translator.towards(to or translator.targets[0])
    if named:
        named.check(translator.settings.model.decoder_layers, translator.settings.model.n_heads)
    job = Job(model, translator, named, batch_tokens, pictures)
    if source is None:
        report = job.on_grammar(sentences or CHOICE)
        report.tell(json_file, markdown)
    else:
        text = job.read(source, target, beam or 5, tokenised)
        job.on_text(text, output, words)


class Pictures:
    """A folder of alignments, each as SVG and as PNG."""

    def __init__(self, folder: Path, limit: int) -> None:
        from glassformer import picture

        picture.check()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"{folder} cannot be written to: {error.strerror}.",
                "Pictures go to a folder that is there, or that can be made.",
                "Name another place.",
            ) from None
        self.folder, self.limit = folder, limit

    def draw(
        self,
        translator: "Translator",
        head: "Head",
        pairs: "Sequence[TextPair | AlignedPair]",
        gold: "Sequence[frozenset[tuple[int, int]]] | None" = None,
    ) -> None:
        """The first sentences that have words, each called by its number."""
        from glassformer.inspect.alignment import align as aligned
        from glassformer.inspect.figures import links_figure
        from glassformer.picture import save

        chosen = [i for i, p in enumerate(pairs) if p.source_words and p.target_words]
        chosen = chosen[: self.limit]
        digits = len(str(chosen[-1] + 1)) if chosen else 1
        found = aligned(translator, [pairs[i] for i in chosen], head)
        for i, (attention, links) in zip(chosen, found, strict=True):
            truth = gold[i] if gold else None
            title = str(head)
            if truth is not None:
                title += f": {len(links & truth)} of {len(truth)} true links, {len(links)} found"
            source, target = pairs[i].source_words, pairs[i].target_words
            figure = links_figure(attention, links, source, target, title, truth)
            for suffix in ("svg", "png"):
                save(figure, self.folder / f"{i + 1:0{digits}}.{suffix}")
        tell(f"{len(chosen)} pictures, as SVG and as PNG, in {self.folder}")


@dataclass(frozen=True)
class Job:
    """A translator whose attention is read."""

    model: str
    translator: "Translator"
    named: "Head | None"
    batch_tokens: int
    pictures: Pictures | None

    # The grammar

    def on_grammar(self, count: int) -> "Report":
        from glassformer.cli.align_report import Report, Row, baselines
        from glassformer.data import grammar
        from glassformer.inspect.alignment import best_of_each
        from glassformer.machine import peak_memory

        data = self.translator.settings.data
        if (data.source_language, data.target_language) != ("en", "fr"):
            raise SettingsError(
                f"{self.model} translates {data.source_language} to {data.target_language}.",
                "The sentences whose true alignment is known are English and French.",
                "Align text of your own: --source F --target F.",
            )
        start = perf_counter()
        dev, test = (list(grammar.pairs(split, count)) for split in ("valid", "test"))
        rates = self.tallies("dev", dev)
        chosen = best_of_each(rates)
        best = min(rates, key=lambda head: rates[head].error_rate)
        if self.named:
            chosen["named"] = self.named
        measured = self.tallies("test", test)
        rows = [
            Row(family, head, rates[head].error_rate, measured[head])
            for family, head in chosen.items()
        ]
        rows += [Row(name, None, None, tally) for name, tally in baselines(test).items()]
        seconds, memory = perf_counter() - start, peak_memory()
        if self.pictures:
            gold = [pair.alignment for pair in test]
            self.pictures.draw(self.translator, self.named or best, test, gold)
        about = self.circumstances(count, seconds, memory)
        return Report(len(dev), len(test), rates, rows, best, about, data.name)

    def tallies(self, part: str, pairs: "list[AlignedPair]") -> "dict[Head, Tally]":
        from glassformer.inspect.alignment import tallies

        with progress(f"reading {part}", len(pairs)) as tick:
            return tallies(self.translator, pairs, self.batch_tokens, tick)

    def circumstances(self, count: int, seconds: float, memory: int | None) -> "Circumstances":
        from glassformer.evaluate.card import Circumstances
        from glassformer.evaluate.examples import from_set
        from glassformer.inspect.links import RESAMPLES
        from glassformer.machine import machine

        settings = {
            "int8": self.translator.int8,
            "batch_tokens": self.batch_tokens,
            "resamples": RESAMPLES,
        }
        sets = [from_set("grammar", split, limit=count) for split in ("valid", "test")]
        checksums = {name: digest for one in sets for name, digest in one.checksums.items()}
        command = shlex.join(["glassformer", *sys.argv[1:]])
        return Circumstances(command, self.model, checksums, settings, machine(), seconds, memory)

    # The user's own text

    def read(
        self, source: Path, target: Path | None, beam: int, tokenised: bool
    ) -> "list[TextPair]":
        from glassformer.data.direction import from_language
        from glassformer.inspect.links import TextPair
        from glassformer.inspect.word_attention import check_lines, split_words

        def check(texts: list[str], side: str) -> None:
            tokenizer = getattr(self.translator, f"{side}_tokenizer")
            lengths = map(len, tokenizer.encode(texts))
            check_lines(texts, lengths, self.translator.max_length, side)

        data, into = self.translator.settings.data, self.translator.to or ""
        plain = self.translator.plain  # attention is between subwords of the normalised text
        sources = [plain(text, from_language(data, into)) for text in texts_of(source)]
        check(sources, "source")
        if target:
            targets = [plain(text, into) for text in texts_of(target)]
            check(targets, "target")
        else:
            targets = self.translations(sources, beam)
        if len(sources) != len(targets):
            raise DataError(
                f"{source} has {len(sources):,} lines, and {target} has {len(targets):,}.",
                "Line for line they are translations of each other.",
                "Give two files of as many lines.",
            )
        cut = (lambda text: tuple(text.split())) if tokenised else split_words
        return [TextPair(a, b, cut(a), cut(b)) for a, b in zip(sources, targets, strict=True)]

    def translations(self, sources: list[str], beam: int) -> list[str]:
        from glassformer.evaluate.examples import turns
        from glassformer.evaluate.translation import say

        with progress("translating", len(turns(sources))) as tick:
            options = self.translator.options(beam_size=beam)
            return say(self.translator, sources, options, tick=tick).texts

    def on_text(self, pairs: "list[TextPair]", output: Path | None, words: Path | None) -> None:
        from glassformer.inspect.alignment import align as aligned
        from glassformer.inspect.links import pharaoh

        head = self.named or self.choose(pairs)
        found = []
        with progress("aligning", len(pairs)) as tick:
            for _, links in aligned(self.translator, pairs, head, self.batch_tokens):
                found.append(pharaoh(links) + "\n")
                tick()
        if words:
            sides = ((" ".join(p.source_words), " ".join(p.target_words)) for p in pairs)
            write(words, "".join(f"{source} ||| {target}\n" for source, target in sides))
        if output:
            write(output, "".join(found))
        else:
            print("".join(found), end="")
        if self.pictures:
            self.pictures.draw(self.translator, head, pairs)

    def choose(self, pairs: "list[TextPair]") -> "Head":
        from glassformer.data import grammar
        from glassformer.inspect.alignment import MIN_SENTENCES, most_informative

        if self.translator.settings.data.name == "grammar":
            rates = self.tallies("the grammar", list(grammar.pairs("valid", CHOICE)))
            head = min(rates, key=lambda head: rates[head].error_rate)
            why = "the best on the grammar"
        else:
            there = [p for p in pairs if p.source_words and p.target_words][:CHOICE]
            with progress("choosing a head", len(there)) as tick:
                head = most_informative(self.translator, there, self.batch_tokens, tick)
            why = f"by the mutual information of its links in {len(there):,} lines"
            if len(there) < MIN_SENTENCES:
                why = f"the default for fewer than {MIN_SENTENCES} lines"
        tell(f"{HEAD} {head.name}: {head}, {why}")
        return head


def texts_of(path: Path) -> list[str]:
    found = [line.text for chunk in lines(None, path) for line in chunk]
    if not found:
        raise DataError(
            f"{path} holds no line.", "There is nothing to align.", "Name a file that holds text."
        )
    return found
