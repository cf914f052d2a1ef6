"""The application: its verbs, what it says without arguments, and what it says of errors."""

import sys
from typing import Annotated

import typer

from glassformer import __version__
from glassformer.cli import (
    ablate,
    align,
    average,
    bench,
    classify,
    data,
    demo,
    describe,
    evaluate,
    generate,
    inspect,
    lab,
    models,
    profile,
    quantize,
    train,
    translate,
)
from glassformer.errors import GlassformerError

EXAMPLES = f"""\
Glassformer {__version__}: the Transformer from scratch, to read, to trust, to use.

  glassformer translate "A man is riding a red bicycle."      English to French, a bundled model
  glassformer classify "A dull film that one forgets."        another: is a review positive?
  glassformer models                                          both, and their cards

  glassformer demo                              train a translator in three minutes, look inside
  glassformer translate --model runs/demo --beam 8 --n-best 3 < lines.txt
  glassformer inspect runs/demo "The boy sees the dog."   what it looks at, as one HTML page
  glassformer align runs/demo                   which words translate which, by its attention
  glassformer evaluate runs/demo --set grammar  its score card: BLEU, chrF, perplexity, speed
  glassformer quantize runs/demo                the same model in eight bits: smaller and faster
  glassformer profile runs/demo                 where its time and memory go
  glassformer lab run scaling --quick           a claim of the paper, measured and judged

  glassformer train recipes/multi30k.toml       carry out a recipe; --resume goes on with it
  glassformer data list                         real data to train on
  glassformer describe tiny                     parts, shapes, parameters and FLOPs of a preset
  glassformer describe modern n_kv_heads=1      the same with a setting changed
  glassformer bench model                       speed and memory beside torch's and Hugging Face's

  glassformer --help                            every command
"""

app = typer.Typer(
    help="The Transformer from scratch: to read, to trust, to use on a CPU.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("average")(average.average)
app.command("ablate")(ablate.ablate)
app.command("translate")(translate.translate)
app.command("classify")(classify.classify)
app.command("generate")(generate.generate)
app.command("models")(models.models)
app.command("evaluate")(evaluate.evaluate)
app.command("align")(align.align)
app.command("inspect")(inspect.inspect)
app.command("quantize")(quantize.quantize)
app.command("profile")(profile.profile)
app.command("describe")(describe.describe)
app.add_typer(lab.app, name="lab", help="Claims about the Transformer as experiments.")
app.add_typer(data.app, name="data", help="Named sets of data, and what a recipe makes of one.")
app.add_typer(bench.app, name="bench", help="Measure speed and memory side by side with peers.")


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    if version:
        print(__version__)
    elif context.invoked_subcommand is None:
        print(EXAMPLES, end="")


def main() -> None:
    """Exit codes: 2 usage, 3 data, 4 checkpoint, 130 Ctrl-C."""
    try:
        app(prog_name="glassformer")
    except GlassformerError as error:
        if "--debug" in sys.argv:
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
