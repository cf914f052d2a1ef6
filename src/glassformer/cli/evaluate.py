"""`glassformer evaluate`: a score card that can be published, as tables, JSON and Markdown."""

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer import picture
from glassformer.cli import options as o
from glassformer.cli.examples import VALID, Data, check_data, read
from glassformer.cli.progress import progress
from glassformer.cli.train import say as tell
from glassformer.errors import CheckpointError, SettingsError
from glassformer.output import save_text

if TYPE_CHECKING:
    from glassformer.evaluate.card import Circumstances, Sheet
    from glassformer.evaluate.classification import Answers
    from glassformer.evaluate.examples import Examples
    from glassformer.evaluate.translation import Said
    from glassformer.pipeline import Classifier, Translator

WIDTH = 110  # of the tables; signatures and checksums run on


@dataclass(frozen=True)
class How:
    """How the model is run."""

    int8: bool  # computed in eight bits, asked for or stored so
    batch_tokens: int
    truncate: bool
    threads: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return what a score card says about it; the machine's part of the card has threads."""
        return {"int8": self.int8, "batch_tokens": self.batch_tokens, "truncate": self.truncate}


@dataclass(frozen=True)
class Extras:
    """What a translator is asked besides its card."""

    beams: bool
    plot: Path | None
    failures: int
    training_text: Path | None


@dataclass(frozen=True)
class Tokens:
    """How what a translator says becomes tokens, beside references that are tokenised."""

    spoken: bool  # it says tokens
    language: str | None  # of Moses' rules otherwise; None: what the model speaks


@dataclass
class Report:
    """What is told: sheets for the terminal, and the same as JSON and as Markdown."""

    sheets: "list[Sheet]"
    content: dict[str, Any]
    markdown: str
    lines: list[str]  # what the model said
    pictures: list[Callable[[], None]] = field(default_factory=list)


def evaluate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run, a checkpoint or one of `models`.")
    ],
    source: Annotated[Path | None, typer.Option(help="Text to translate, a line each.")] = None,
    reference: Annotated[Path | None, typer.Option(help="Its translations, a line each.")] = None,
    references: Annotated[
        Path | None,
        typer.Option(
            help="Or a TSV file of several references a line, after the text; with --source the "
            "references only."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="LANGUAGE",
            help="Target language of a model of two directions. [its main one; with --behaviour "
            "or --sets both]",
        ),
    ] = None,
    tokenised_reference: Annotated[
        Path | None, typer.Option(help="The same, lower-cased and Moses-tokenised as published.")
    ] = None,
    tokenised_output: Annotated[
        bool,
        typer.Option(
            "--tokenised-output",
            help="What the model says is tokenised already: it is scored on those references as "
            "it is.",
        ),
    ] = False,
    data: Annotated[Path | None, typer.Option(help="Or one JSONL, TSV or CSV file.")] = None,
    columns: Annotated[
        str,
        typer.Option(
            help="Its columns, by name or number: en,fr. [the model's languages, or text,label]"
        ),
    ] = "",
    name: Annotated[str | None, typer.Option("--set", help="Or a set of `data list`.")] = None,
    split: Annotated[str | None, typer.Option(help=f"Which part of the set. [{VALID}]")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many rows.")] = None,
    skip_bad: o.SkipBad = False,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Width of the search; 1 is greedy. [5]")
    ] = None,
    length_penalty: o.LengthPenalty = None,
    int8: Annotated[bool, typer.Option("--int8", help="Quantise the model first.")] = False,
    threads: o.Threads = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a batch.")] = 4_096,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut texts too long.")] = False,
    language: Annotated[
        str | None, typer.Option(help="Of tokenised references. [what the model speaks]")
    ] = None,
    beams: Annotated[bool, typer.Option("--beams", help="Compare widths of the search.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Where the picture of --beams goes: .svg or .png.")
    ] = None,
    behaviour: Annotated[
        bool,
        typer.Option(
            "--behaviour",
            help="Run the behaviour suite of hand-written cases instead; no data needed.",
        ),
    ] = False,
    kind: Annotated[
        str | None,
        typer.Option(help="Of the behaviour suite this kind of cases only, with every output."),
    ] = None,
    sets: Annotated[
        str,
        typer.Option(
            metavar="SET/SPLIT,...",
            help="Several sets of `data list`: one table of BLEU and chrF, in both directions of "
            "the model.",
        ),
    ] = "",
    card: Annotated[
        Path | None,
        typer.Option(
            help="With --sets or --behaviour: a model card, in which the section on scores or on "
            "behaviour is replaced."
        ),
    ] = None,
    failures: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Analyse failures; show the worst N. With --behaviour: show N of them. "
            "[0; with --behaviour all]",
        ),
    ] = None,
    training_text: Annotated[
        Path | None, typer.Option(help="Target side of the training text, to tell rare words.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="The card as JSON.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="The card as Markdown.")] = None,
    output: Annotated[Path | None, typer.Option(help="What was said, a line each.")] = None,
) -> None:
    """Score MODEL on two parallel files, on one table, on a named set, or on several sets.

    A translator by BLEU, chrF and perplexity; a classifier by accuracy, F1 and calibration.
    With --behaviour, a translator by rules on hand-written cases.
    """
    chosen = tuple(filter(None, columns.split(",")))
    o.only_with("--behaviour", behaviour, kind=kind)
    o.not_with("--card", card is not None, "A card shows all kinds of cases.", kind=kind)
    o.only_with("--sets or --behaviour", bool(sets) or behaviour, card=card)
    if card and not card.is_file():
        raise SettingsError(
            f"There is no card {card}.",
            "One section of a card is replaced; the rest is written by hand.",
            "Name a card that is there, or leave --card out.",
        )
    if behaviour or sets:
        unused: dict[str, object] = {
            "source": source,
            "reference": reference,
            "references": references,
            "tokenised_reference": tokenised_reference,
            "tokenised_output": tokenised_output or None,
            "data": data,
            "columns": columns or None,
            "set": name,
            "split": split,
            "limit": limit if behaviour else None,
            "failures": None if behaviour else failures,
            "sets": sets if behaviour and sets else None,
            "skip_bad": skip_bad or None,
            "language": language,
            "beams": beams or None,
            "plot": plot,
            "training_text": training_text,
            "output": output,
        }
        flag, why = ("--behaviour", OWN_CASES) if behaviour else ("--sets", SEVERAL)
        o.not_with(flag, True, why, **unused)
        o.different(json=json_file, markdown=markdown, card=card)

        from glassformer.cli.suites import Files, run_behaviour, run_sets
        from glassformer.pipeline import load_translator

        translator = load_translator(model, int8 or None, threads=threads)
        if to is not None:
            translator.check_target(to)
        targets = translator.targets if to is None else (to,)
        files = Files(json_file, markdown, card)
        asked = {"beam_size": beam, "length_penalty": length_penalty}
        search = {name: value for name, value in asked.items() if value is not None}
        if behaviour:
            options = search | {"batch_tokens": batch_tokens, "truncate": truncate}
            run_behaviour(translator, targets, options, kind, failures, files)
            return
        how = How(translator.int8, batch_tokens, truncate, threads)
        none, plainly = Extras(False, None, 0, None), Tokens(False, None)

        def card_of(about: Data, target: str) -> dict[str, Any]:
            towards = translator.towards(target)
            return translation(model, towards, about, how, search, none, plainly).content

        run_sets(sets.split(","), targets, card_of, limit, translator, files)
        return
    about = Data(
        source,
        reference,
        tokenised_reference,
        data,
        chosen,
        name,
        split,
        limit,
        skip_bad,
        references,
    )
    extras = Extras(beams, plot, failures or 0, training_text)
    tokens = Tokens(tokenised_output, language)
    o.different(json=json_file, markdown=markdown, output=output, plot=plot)
    check(about, extras, tokens)

    from rich.console import Console

    from glassformer.evaluate.card import show
    from glassformer.pipeline import Classifier, Translator, load

    loaded = load(model, int8 or None, threads=threads)
    how = How(loaded.int8, batch_tokens, truncate, threads)
    if isinstance(loaded, Translator):
        asked = {"beam_size": beam, "length_penalty": length_penalty}
        search = {name: value for name, value in asked.items() if value is not None}
        translator = loaded.towards(to or loaded.targets[0])
        report = translation(model, translator, about, how, search, extras, tokens)
    elif isinstance(loaded, Classifier):
        refuse_texts(about, extras)
        of_text: dict[str, object] = {
            "beam": beam,
            "length_penalty": length_penalty,
            "language": language,
        }
        of_text |= {"tokenised_output": tokenised_output or None, "to": to}
        o.not_with("a classifier", True, "It answers with labels, not with text.", **of_text)
        report = classification(model, loaded, about, how)
    else:
        raise CheckpointError(
            f"{model} is neither a translator nor a classifier.",
            "To what it says there is no right answer that it could be compared with.",
            "Name the run of a translator or a classifier.",
        )
    contents = {
        json_file: json.dumps(report.content, indent=2, ensure_ascii=False) + "\n",
        markdown: report.markdown,
        output: "".join(line.replace("\n", " ") + "\n" for line in report.lines),
    }
    try:  # files first: whoever reads what is printed may stop reading, as `head` does
        for path, content in contents.items():
            if path:
                write(path, content)
        for draw in report.pictures:
            draw()
    finally:  # and what was measured is told even if a file cannot be written
        console = Console(width=WIDTH, highlight=False)
        for sheet in report.sheets:
            show(sheet, console)


def check(about: Data, extras: Extras, tokens: Tokens) -> None:
    """No option that would be passed over, and no picture that could not be drawn."""
    check_data(about)
    two_files = about.reference is not None
    o.only_with("--source with --reference", two_files, tokenised_reference=about.tokenised)
    several = {"beams": extras.beams or None, "failures": extras.failures or None}
    o.not_with("--references", about.references is not None, ONE_REFERENCE, **several)
    o.not_with("--tokenised-output", tokens.spoken, AS_IT_IS, language=tokens.language)
    o.only_with("--beams", extras.beams, plot=extras.plot)
    o.only_with("--failures", extras.failures > 0, training_text=extras.training_text)
    if extras.plot:
        picture.check(extras.plot)


OWN_CASES = "The suite has its own cases and rules."
SEVERAL = "It scores named sets, one after the other, and shows the scores only."
ONE_REFERENCE = "It compares each translation with one reference."
AS_IT_IS = "What is tokenised already is scored as it is, by the rules of no language."


def refuse_texts(about: Data, extras: Extras) -> None:
    """What only a translator has a use for."""
    if about.source or about.references or extras.beams or extras.failures:
        raise SettingsError(
            "A classifier is not evaluated with --source, --references, --beams or --failures.",
            "It answers with labels, not with text.",
            "Name its texts and labels: --data reviews.jsonl --columns text,label, or a --set.",
        )


def translation(
    model: str,
    translator: "Translator",
    about: Data,
    how: How,
    search: dict[str, Any],
    extras: Extras,
    tokens: Tokens,
) -> Report:
    from glassformer.data.direction import from_language
    from glassformer.evaluate.card import markdown
    from glassformer.evaluate.examples import check_fit, turns
    from glassformer.evaluate.moses import as_published
    from glassformer.evaluate.translation import perplexity, say, search_settings, translation_card

    options = translator.options(**search)
    trained_on = translator.settings.data
    to = translator.to or translator.targets[0]
    languages = from_language(trained_on, to), to
    asked = tokens.spoken or tokens.language is not None
    one = bool(extras.beams or extras.failures)  # these compare with one reference
    tokenised_too = asked or can_tokenise(about)
    examples = read(about, languages, tokenised=tokenised_too, several=not one)
    plain = translator.plain
    sources = [plain(row[0], languages[0]) for row in examples.rows]
    several = examples.several
    wanted = [row[1:] if several else row[1:2] for row in examples.rows]
    every = [[plain(reference, to) for reference in row] for row in wanted]
    references = [row[0] for row in every]
    tokenised = None if several else [row[2] for row in examples.rows if len(row) > 2]
    given = {"tokenised_output": tokens.spoken or None, "language": tokens.language}
    o.only_with("tokenised references", bool(tokenised), **given)
    language = None if tokens.spoken else tokens.language or to
    if tokenised and language:
        as_published(sources[:1], language)  # a package that is missing is missed before the work
    if not how.truncate:
        check_fit(sources, translator.source_tokenizer, translator.max_length)
    translator.target_ids(references)  # perplexity would refuse what is too long after the work
    run: dict[str, Any] = {"batch_tokens": how.batch_tokens, "truncate": how.truncate}
    with progress("translating", len(turns(sources))) as tick:
        said = say(translator, sources, options, **run, tick=tick)
    of_references = perplexity(translator, sources, references, **run)
    settings = search_settings(options) | how.to_dict()
    if len(translator.targets) > 1:
        settings["to"] = to
    if trained_on.typography:
        settings["typography"] = "normalised in sources, output and references"
    if several:
        settings["references"] = f"{_spread(every)} a sentence; perplexity of the first"
    if tokenised:
        settings |= {"tokenised output": tokens.spoken, "tokenised as": language}
    around = circumstances(model, examples, settings, said, how.threads)
    scored_on = every if several else references
    card = translation_card(said, scored_on, of_references, around, tokenised or None, language)
    report = Report([card.sheet()], card.to_json(), markdown(card.sheet()), said.texts)
    if extras.beams:
        compare(report, translator, sources, references, extras, search | run)
    if extras.failures:
        analyse_failures(report, model, translator, sources, references, extras)
    return report


def _spread(rows: list[list[str]]) -> str:
    fewest, most = min(map(len, rows)), max(map(len, rows))
    return f"{fewest}" if fewest == most else f"{fewest} to {most}"


def can_tokenise(about: Data) -> bool:
    """Nobody asked for the tokenised references of a set: without their package they are left."""
    from glassformer.evaluate.examples import has_tokenised
    from glassformer.evaluate.moses import is_available

    if not is_available() and about.name and has_tokenised(about.name, about.split or VALID):
        tell("BLEU on tokenised references is left out: sacremoses is not installed")
    return is_available()


def compare(
    report: Report,
    translator: "Translator",
    sources: list[str],
    references: list[str],
    extras: Extras,
    options: dict[str, Any],
) -> None:
    """Add the comparison of beams."""
    from glassformer.evaluate.beams import WIDTHS, beam_figure, compare_beams
    from glassformer.evaluate.sheets import beams_sheet

    options.pop("beam_size", None)
    with progress("comparing beams", len(WIDTHS)) as tick:
        comparison = compare_beams(translator, sources, references, tick=tick, **options)
    report.sheets.append(beams_sheet(comparison))
    report.content["beams"] = comparison.to_dict()
    report.markdown += "\n" + comparison.to_markdown()
    if extras.plot:
        report.pictures.append(partial(beam_figure, comparison, extras.plot))


def analyse_failures(
    report: Report,
    model: str,
    translator: "Translator",
    sources: list[str],
    references: list[str],
    extras: Extras,
) -> None:
    """Add the analysis of failures; attention is part of it where torch is installed."""
    from glassformer.data.corpus import Corpus, TextFiles
    from glassformer.evaluate.failures import analyse
    from glassformer.evaluate.labels import word_counts
    from glassformer.evaluate.sheets import failures_sheet
    from glassformer.extras import is_installed
    from glassformer.pipeline import load_translator

    counts = None
    if extras.training_text:
        text = Corpus(TextFiles((extras.training_text,), format="lines"), skip_bad=True)
        counts = word_counts(line for (line,) in text)
    with_attention = is_installed("torch")
    if with_attention:
        translator = load_translator(model, engine="torch").towards(translator.to)
    else:
        tell("attention is left out: torch is not installed (pip install 'glassformer[train]')")
    found = analyse(
        translator,
        sources,
        references,
        report.lines,
        extras.failures,
        counts,
        attention=with_attention,
    )
    report.sheets.append(failures_sheet(found))
    report.content["failures"] = found.to_dict()
    report.markdown += "\n" + found.to_markdown()


def classification(model: str, classifier: "Classifier", about: Data, how: How) -> Report:
    from glassformer.evaluate.card import markdown
    from glassformer.evaluate.classification import classification_card, classify
    from glassformer.evaluate.examples import check_fit, turns

    examples = read(about, (), classifier.spellings)
    texts, spelt = map(list, zip(*examples.rows, strict=True))
    labels = [classifier.spellings[label] for label in spelt]
    if not how.truncate:
        check_fit(texts, classifier.tokenizer, classifier.max_length)
    with progress("classifying", len(turns(texts))) as tick:
        answers = classify(
            classifier, texts, batch_tokens=how.batch_tokens, truncate=how.truncate, tick=tick
        )
    around = circumstances(model, examples, how.to_dict(), answers, how.threads)
    card = classification_card(answers, labels, around)
    said = [answers.labels[i] for i in answers.best]
    return Report([card.sheet()], card.to_json(), markdown(card.sheet()), said)


def circumstances(
    model: str,
    examples: "Examples",
    settings: dict[str, Any],
    done: "Said | Answers",
    threads: int | None,
) -> "Circumstances":
    from glassformer.evaluate.card import Circumstances
    from glassformer.machine import machine

    return Circumstances(
        command=shlex.join(["glassformer", *sys.argv[1:]]),
        model=model,
        checksums=examples.checksums,
        settings=settings,
        machine=machine(threads),
        seconds=done.seconds,
        peak_memory=done.peak_memory,
    )


def write(path: Path, content: str) -> None:
    save_text(path, content)
    tell(f"written: {path}")
