"""`glassformer evaluate`: score a model, as tables, JSON and Markdown."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer import picture
from glassformer.cli import options as o
from glassformer.cli.examples import Choice
from glassformer.errors import SettingsError
from glassformer.progress import columns as table_width

if TYPE_CHECKING:
    from glassformer.evaluate.behaviour import BehaviourReport
    from glassformer.evaluate.evaluation import Evaluation


def evaluate(
    model: o.Model,
    source: o.Source = None,
    reference: o.Reference = None,
    references: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TSV file of several references per line, after the source; with --source of "
            "the references only.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="LANGUAGE",
            help="Target language of a model of two directions.",
            show_default="the first one it was trained for; both with --behaviour or --sets",
        ),
    ] = None,
    tokenised_reference: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="--reference lower-cased and Moses-tokenised, as published for Multi30k.",
        ),
    ] = None,
    tokenised_output: Annotated[
        bool,
        typer.Option(
            "--tokenised-output",
            help="The model's output is tokenised already: do not tokenise it again.",
        ),
    ] = False,
    data: o.Table = None,
    columns: o.Columns = "",
    name: o.Set = None,
    split: o.Split = None,
    limit: o.Limit = None,
    skip_bad: o.SkipBad = False,
    beam: o.Beam = None,
    length_penalty: o.LengthPenalty = None,
    int8: o.Int8 = False,
    threads: o.Threads = None,
    device: o.Device = "cpu",
    batch_tokens: o.BatchTokens = 4_096,
    truncate: o.Truncate = False,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="LANGUAGE",
            help="Language whose rules tokenise the output for tokenised references.",
            show_default="the target language",
        ),
    ] = None,
    beams: Annotated[
        bool, typer.Option("--beams", help="Compare beam sizes: scores, speed, significance.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the comparison of --beams as .svg or .png."),
    ] = None,
    behaviour: Annotated[
        bool,
        typer.Option(
            "--behaviour",
            help="Run the behaviour suite of hand-written cases instead; it needs no data.",
        ),
    ] = False,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="Run one kind of behaviour cases, and print every output."
        ),
    ] = None,
    sets: Annotated[
        str,
        typer.Option(
            metavar="SET/SPLIT,...",
            help="Score several sets of `data list` in each direction: one table of BLEU and chrF.",
        ),
    ] = "",
    card: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Replace the scores of --sets, or the table of --behaviour, in this model card.",
        ),
    ] = None,
    failures: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Analyse failures and show the N worst; with --behaviour show N failures.",
            show_default="0; all with --behaviour",
        ),
    ] = None,
    training_text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Target side of the training text, with --failures: to find rare words.",
        ),
    ] = None,
    json_file: o.Json = None,
    markdown: o.Markdown = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the model's output, one per line.")
    ] = None,
) -> None:
    """Score MODEL on two parallel files, on one table, on a named set, or on several sets.

    A translator is scored by BLEU, chrF and perplexity, a classifier by accuracy, F1 and
    calibration. With --behaviour a translator is checked by rules on hand-written cases.
    """
    search: dict[str, Any] = {"beam_size": beam, "length_penalty": length_penalty}
    of_text: dict[str, object] = {
        "source": source, "reference": reference, "references": references,
        "tokenised_reference": tokenised_reference, "tokenised_output": tokenised_output or None,
        "language": language, "beams": beams or None, "plot": plot,
        "training_text": training_text,
    }  # fmt: skip
    o.only_with("--behaviour", behaviour, kind=kind)
    o.not_with("--card", card is not None, "A card shows all kinds of cases.", kind=kind)
    o.only_with("--sets or --behaviour", bool(sets) or behaviour, card=card)
    if behaviour or sets:
        of_data: dict[str, object] = {
            "data": data, "columns": columns or None, "set": name, "split": split,
            "skip_bad": skip_bad or None, "output": output,
            "limit": limit if behaviour else None, "sets": sets if behaviour and sets else None,
            "failures": None if behaviour else failures,
        }  # fmt: skip
        flag, why = ("--behaviour", OWN_CASES) if behaviour else ("--sets", SEVERAL_SETS)
        o.not_with(flag, True, why, **of_text, **of_data)
        o.different(json=json_file, markdown=markdown, card=card)
        files = Files(json_file, markdown, card)
        given = {key: value for key, value in search.items() if value is not None}
        given |= {"to": to, "int8": int8 or None, "threads": threads, "device": device}
        given |= {"batch_tokens": batch_tokens, "truncate": truncate}
        if behaviour:
            run_behaviour(model, kind, failures, files, given)
        else:
            run_sets(model, sets.split(","), files, given | {"limit": limit})
        return
    o.different(json=json_file, markdown=markdown, output=output, plot=plot)
    chosen = Choice(
        source, reference, data, columns, name, split, limit, skip_bad, references,
        tokenised_reference,
    )  # fmt: skip
    both = {"beams": beams or None, "failures": failures or None}
    o.not_with("--references", references is not None, ONE_REFERENCE, **both)
    o.not_with("--tokenised-output", tokenised_output, AS_IT_IS, language=language)
    o.only_with("--beams", beams, plot=plot)
    o.only_with("--failures", bool(failures), training_text=training_text)
    if plot:
        picture.check(plot)

    from glassformer.api.evaluate import evaluate as score
    from glassformer.pipeline import Classifier, load

    loaded = load(model, int8 or None, threads=threads, device=device)
    if isinstance(loaded, Classifier):
        of_text |= {"to": to, "beam": beam, "length_penalty": length_penalty}
        refuse_for_a_classifier(of_text | {"failures": failures or None})
    select = chosen.selection
    found = score(
        loaded, chosen.data(), split=select.split, columns=select.columns, limit=limit,
        skip_bad=skip_bad, to=to, **search, batch_tokens=batch_tokens, truncate=truncate or None,
        tokenised_output=tokenised_output, language=language, beams=beams, failures=failures or 0,
        training_text=training_text, name=model, command=o.written_command(),
    )  # fmt: skip
    tell(found, json_file, markdown, output, plot)


OWN_CASES = "The behaviour suite has its own cases and rules."
SEVERAL_SETS = "It scores named sets, one after the other, and shows the scores only."
ONE_REFERENCE = "It compares each translation with one reference."
AS_IT_IS = "Tokenised output is compared without tokenising it again."


def refuse_for_a_classifier(options: dict[str, object]) -> None:
    for_text = ("source", "references", "beams", "failures")
    if any(options[name] for name in for_text):
        raise SettingsError(
            "A classifier is not evaluated with --source, --references, --beams or --failures.",
            "It answers with labels, not with text.",
            "Name its texts and labels: --data reviews.jsonl --columns text,label, or a --set.",
        )
    o.not_with("a classifier", True, "It answers with labels, not with text.", **options)


def tell(
    found: "Evaluation",
    json_file: Path | None,
    markdown: Path | None,
    output: Path | None,
    plot: Path | None,
) -> None:
    """Write the files, then print the tables."""
    from rich.console import Console

    from glassformer.evaluate.beam_figure import beam_figure
    from glassformer.evaluate.evaluation import WIDTH

    contents = {
        json_file: json.dumps(found.to_json(), indent=2, ensure_ascii=False) + "\n",
        markdown: found.to_markdown(),
        output: "".join(line.replace("\n", " ") + "\n" for line in found.outputs),
    }
    try:  # files first: a reader of the tables may stop early, as `head` does
        for path, content in contents.items():
            if path:
                o.save(path, content)
        if plot and found.beams:
            beam_figure(found.beams, plot)
    finally:  # the scores are printed even if a file cannot be written
        found.show(Console(width=table_width(WIDTH), highlight=False))


@dataclass(frozen=True)
class Files:
    """The output files of a suite."""

    json: Path | None
    markdown: Path | None
    card: Path | None  # an existing model card, of which one section is replaced

    def __post_init__(self) -> None:
        if self.card and not self.card.is_file():
            raise SettingsError(
                f"There is no card {self.card}.",
                "One section of a card is replaced; the rest is written by hand.",
                "Name an existing card, or leave --card out.",
            )

    def write(self, content: dict[str, Any], markdown: str) -> None:
        if self.json:
            o.save(self.json, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        if self.markdown:
            o.save(self.markdown, markdown)


def run_behaviour(
    model: str, kind: str | None, shown: int | None, files: Files, options: dict[str, Any]
) -> None:
    """Run the behaviour suite in each direction; print its tables and failures, or all of a kind.

    The JSON file is the report of one direction, or an object of reports by direction.
    """
    from glassformer.api.evaluate import evaluate_behaviour
    from glassformer.evaluate.behaviour import section
    from glassformer.evaluate.card import with_section

    reports: list[BehaviourReport] = evaluate_behaviour(model, kind=kind, **options)
    found = [report.to_dict() for report in reports]
    content = found[0] if len(found) == 1 else {one["direction"]: one for one in found}
    tables = [report.markdown() if kind is None else report.outputs() for report in reports]
    files.write(content, "\n".join(tables))
    if files.card:
        old = files.card.read_text("utf-8")
        o.save(files.card, with_section(old, "Behaviour", section(found, o.written_command())))
    print("\n\n".join(report.table() for report in reports))
    for report in reports:
        for result in (report.failures if kind is None else report.results)[:shown]:
            print(f"\n{result}")


def run_sets(model: str, sets: list[str], files: Files, options: dict[str, Any]) -> None:
    """Score the model on each set in each direction; print one table."""
    from rich.console import Console

    from glassformer.api.evaluate import evaluate_sets
    from glassformer.evaluate import suite as suites
    from glassformer.evaluate.card import markdown, show, with_fact, with_section
    from glassformer.evaluate.evaluation import WIDTH

    suite = evaluate_sets(model, sets, command=o.written_command(), **options)
    sheet = suites.sheet(suite)
    files.write(suite, markdown(sheet))
    if files.card:
        old = with_fact(files.card.read_text("utf-8"), "score", suites.best(suite))
        o.save(files.card, with_section(old, "Scores", suites.section(suite)))
    show(sheet, Console(width=table_width(WIDTH), highlight=False))
