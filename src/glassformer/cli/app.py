"""The application: its verbs, what it prints without arguments, and how it reports errors.

A verb is a module of its own, which is imported only when that verb is run.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated

import typer

from glassformer import __version__
from glassformer.errors import GlassformerError

EXAMPLES = f"""\
Glassformer {__version__}: the Transformer from scratch, to read, to trust, to use.

  glassformer translate "A man is riding a red bicycle."      English to French, a bundled model
  glassformer classify "A dull film that one forgets."        another: is a review positive?
  glassformer models                                          both, and their cards
  glassformer doctor                                          is all well on this machine?

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

# Each is a module of this package, with an `app` of its own or a function of that name.
VERBS = {
    "demo": "Train a translator in about three minutes, and look inside.",
    "train": "Train what a recipe describes, or resume a run.",
    "average": "Average the last checkpoints of a run.",
    "ablate": "Train a recipe again with one setting changed at a time.",
    "translate": "Translate texts, a file or standard input.",
    "classify": "Label texts, a file or standard input.",
    "generate": "Continue prompts with a language model.",
    "models": "List the bundled models, or print the card of one.",
    "evaluate": "Score a model: BLEU, chrF, perplexity; accuracy, F1.",
    "align": "Word alignments by attention, and their error rate.",
    "inspect": "Show attention, search and saliency of one text.",
    "quantize": "Write a checkpoint in eight bits, and compare it.",
    "profile": "Measure where the time and memory of decoding go.",
    "describe": "Print parts, shapes, parameters and FLOPs of a preset.",
    "settings": "Print every setting of a recipe and its default.",
    "lab": "Claims about the Transformer as experiments.",
    "data": "Named data sets, and what a recipe makes of one.",
    "bench": "Measure speed and memory side by side with peers.",
    "doctor": "Check this installation: versions, kernels, models.",
}


def main() -> None:
    """Run the command line. Exit codes: 2 usage, 3 data, 4 checkpoint, 130 Ctrl-C."""
    try:
        application(sys.argv[1:])(prog_name="glassformer")
    except GlassformerError as error:
        if "--debug" in sys.argv:
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def application(arguments: Sequence[str] = ()) -> typer.Typer:
    """Return the application with the verb that `arguments` ask for.

    Without a verb, all of them are there by name, to be listed.
    """
    app = typer.Typer(
        help="The Transformer from scratch: to read, to trust, to use on a CPU.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(invoke_without_command=True)(start)
    asked = next((word for word in arguments if not word.startswith("-")), None)
    for verb in [asked] if asked in VERBS else VERBS:
        add(app, verb, verb == asked)
    return app


def add(app: typer.Typer, verb: str, whole: bool) -> None:
    """Add a verb to the application: `whole`, or its name and what it does."""
    if not whole:
        app.command(verb, help=VERBS[verb])(_listed)
        return
    module = import_module(f"glassformer.cli.{verb}")
    if hasattr(module, "app"):
        app.add_typer(module.app, name=verb, help=VERBS[verb])
    else:
        run: Callable[..., None] = getattr(module, verb)
        app.command(verb)(run)


def _listed() -> None:
    """Stand for a verb whose module has not been imported."""


def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    if version:
        print(__version__)
    elif context.invoked_subcommand is None:
        print(EXAMPLES, end="")
