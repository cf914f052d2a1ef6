"""`glassformer evaluate`: score a model, as tables, JSON and Markdown."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer import picture
from glassformer.cli import options as o
from glassformer.cli.examples import Choice
from glassformer.errors import SettingsError

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
            show_default="the first one it was trained for; both with --behaviour",
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
            help="The model's output is tokenised: compare it as it is with tokenised references.",
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
            help="Target side of the training text, with --failures: tells which words are rare.",
        ),
    ] = None,
    json_file: o.Json = None,
    markdown: o.Markdown = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the model's output, one per line.")
    ] = None,
) -> None:
    """Score MODEL on two parallel files, on one table, or on a named set.

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
    if behaviour:
        of_data: dict[str, object] = {
            "data": data, "columns": columns or None, "set": name, "split": split, "limit": limit,
            "skip_bad": skip_bad or None, "output": output,
        }  # fmt: skip
        why = "The suite has its own cases and rules."
        o.not_with("--behaviour", True, why, **of_text, **of_data)
        o.different(json=json_file, markdown=markdown)
        given = {key: value for key, value in search.items() if value is not None}
        run_behaviour(
            model, to, int8, threads, failures, json_file, markdown,
            {"batch_tokens": batch_tokens, "truncate": truncate, **given},
        )  # fmt: skip
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

    loaded = load(model, int8 or None, threads=threads)
    if isinstance(loaded, Classifier):
        of_text |= {"to": to, "beam": beam, "length_penalty": length_penalty}
        refuse_for_a_classifier(of_text | {"failures": failures or None})
    select = chosen.selection
    found = score(
        loaded, chosen.data(), split=select.split, columns=select.columns, limit=limit,
        skip_bad=skip_bad, to=to, **search, batch_tokens=batch_tokens, truncate=truncate,
        tokenised_output=tokenised_output, language=language, beams=beams, failures=failures or 0,
        training_text=training_text, name=model, command=o.written_command(),
    )  # fmt: skip
    tell(found, json_file, markdown, output, plot)


ONE_REFERENCE = "It compares each translation with one reference."
AS_IT_IS = "Tokenised output is compared as it is, by the rules of no language."


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
        found.show(Console(width=WIDTH, highlight=False))


def run_behaviour(
    model: str,
    to: str | None,
    int8: bool,
    threads: int | None,
    shown: int | None,
    json_file: Path | None,
    markdown: Path | None,
    options: dict[str, Any],
) -> None:
    """Run the behaviour suite in each direction of the model; print its tables and failures.

    The JSON file is the report of one direction, or an object of reports by direction.
    """
    from glassformer.api.evaluate import evaluate_behaviour

    reports: list[BehaviourReport] = evaluate_behaviour(
        model, to=to, int8=int8 or None, threads=threads, **options
    )
    found = [report.to_dict() for report in reports]
    content = found[0] if len(found) == 1 else {one["direction"]: one for one in found}
    if json_file:
        o.save(json_file, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    if markdown:
        o.save(markdown, "\n".join(report.markdown() for report in reports))
    print("\n\n".join(report.table() for report in reports))
    for report in reports:
        for failure in report.failures[:shown]:
            print(f"\n{failure}")
