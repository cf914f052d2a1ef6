"""The application: its verbs, what it prints without arguments, and how it reports errors.

A verb is a module of its own, which is imported only when that verb is run.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer

from glassformer import __version__
from glassformer.cli.streams import OutputError, drop_output, end_as_unix_tools_do, open_streams
from glassformer.cli.verb import Verb
from glassformer.errors import GlassformerError, SettingsError
from glassformer.openmp import share_cores

UsageError: Any = typer.BadParameter.__base__  # the parser's errors; typer exports this one only

EXAMPLES = f"""\
Glassformer {__version__}: the Transformer from scratch, to read, to trust, to use.

  glassformer translate "A man is riding a red bicycle."      English to French, a bundled model
  glassformer classify "A dull film that one forgets."        the sentiment of a review
  glassformer models                                          the bundled models and their cards
  glassformer doctor                                          check this installation

  glassformer import SmolLM2.gguf --as smollm2  weights that others trained, and talk to them:
  glassformer chat smollm2 "What is the capital of Italy?"

  glassformer demo                              train a translator in three minutes, look inside
  glassformer translate --model runs/demo --beam 8 --n-best 3 < lines.txt
  glassformer inspect runs/demo "The boy sees the dog."   attention and search, as one HTML page
  glassformer serve                             a page to look inside models, and an HTTP API
  glassformer align runs/demo                   which words translate which, by its attention
  glassformer evaluate runs/demo --set grammar  its score card: BLEU, chrF, perplexity, speed
  glassformer quantize runs/demo                the same model in eight bits: smaller and faster
  glassformer profile runs/demo                 where its time and memory go
  glassformer lab run scaling --quick           a claim of the paper, measured

  glassformer train --translate pairs.tsv       a translator of your own; --classify reviews.csv
  glassformer train multi30k                    train a recipe; --resume continues it
  glassformer recipes                           the recipes of the package
  glassformer data list                         real data to train on
  glassformer describe tiny                     parts, shapes, parameters and FLOPs of a preset
  glassformer describe modern n_kv_heads=1      the same with a setting changed
  glassformer bench model                       speed and memory beside torch and Hugging Face

  glassformer --help                            every command
"""

VARIABLE = "_GLASSFORMER_COMPLETE"  # that a shell sets to ask for completions

# Each is a module of this package, with an `app` of its own or a function of that name.
VERBS = {
    "demo": "Train a translator in about three minutes, and look inside.",
    "train": "Train a recipe or on your own file, or resume a run.",
    "recipes": "List the recipes of the package, or print one.",
    "average": "Average the last checkpoints of a run.",
    "ablate": "Train a recipe again with one setting changed at a time.",
    "translate": "Translate texts, a file or standard input.",
    "classify": "Label texts, a file or standard input.",
    "generate": "Continue prompts with a language model.",
    "chat": "Talk to a language model by its own chat template.",
    "export": "Write a translator for another library, and compare.",
    "import": "Import a model of another library.",
    "models": "List the bundled models, or print the card of one.",
    "evaluate": "Score a model: BLEU, chrF, perplexity; accuracy, F1.",
    "align": "Word alignments by attention, and their error rate.",
    "inspect": "Show attention, search and saliency of one text.",
    "serve": "A page to look inside models, and an HTTP API.",
    "quantize": "Write a checkpoint in eight bits, and compare it.",
    "profile": "Measure where the time and memory of decoding go.",
    "describe": "Print parts, shapes, parameters and FLOPs of a preset.",
    "settings": "Print every setting of a recipe and its default.",
    "lab": "Claims about the Transformer as experiments.",
    "data": "Named data sets, and what a recipe makes of one.",
    "bench": "Measure speed and memory side by side with peers.",
    "completion": "Print a script that completes commands in bash, zsh or fish.",
    "doctor": "Check this installation: versions, kernels, models.",
}


KEYWORDS = {"import": "import_model"}  # modules of verbs that Python reserves


def main() -> None:
    """Run the command line.

    Exit codes: 1 output or memory, 2 usage, 3 data, 4 checkpoint, 130 Ctrl-C, 141 (SIGPIPE) when
    the reader of the output is gone.
    """
    open_streams()
    share_cores()
    try:
        try:
            app = application(_completed() or sys.argv[1:])
            sys.exit(app(prog_name="glassformer", standalone_mode=False))
        finally:
            sys.stdout.flush()  # here, where an error can be reported
    except OutputError as error:
        if error.reader_is_gone:
            end_as_unix_tools_do()
        drop_output()
        sys.exit(_report(error))
    except UsageError as error:
        sys.exit(_report_usage(error))
    except GlassformerError as error:
        if "--debug" in sys.argv:
            raise
        sys.exit(_report(error))
    except MemoryError as error:
        if "--debug" in sys.argv:
            raise
        sys.exit(_report(GlassformerError(f"Memory ran out. {error}".strip(), *NO_MEMORY)))


def _completed() -> list[str]:
    """Return the words that a shell asks to complete, if it does."""
    if VARIABLE not in os.environ:
        return []
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()
    os.environ["COLUMNS"] = "10000"  # a help text of two lines would be two candidates
    words = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    return words.split()[1:]


NO_MEMORY = (
    "The command asked the system for more than there is.",
    "Use a smaller batch, beam or length, or stop other programs.",
)


def _report(error: GlassformerError) -> int:
    """Print an error and return its exit code, also where standard error cannot be written."""
    with suppress(OSError):
        print(f"error: {error}", file=sys.stderr)
    return error.exit_code


def _report_usage(error: Any) -> int:
    """Print an error of the parser in the form of all others and return its exit code."""
    message, context = error.format_message(), error.ctx
    if context and message == context.get_help():  # a group without a command
        with suppress(OSError):
            print(message, file=sys.stderr)
        return int(error.exit_code)
    command = context.command_path if context else "glassformer"
    usage = context.get_usage().split(maxsplit=1)[1] if context else f"{command} [OPTIONS]"
    why = f"The command is: {' '.join(usage.split())}"
    return _report(SettingsError(f"{message.rstrip('.')}.", why, f"{command} -h"))


def application(arguments: Sequence[str] = ()) -> typer.Typer:
    """Return the application with the verb that `arguments` name, or with the names of all."""
    app = typer.Typer(
        help="The Transformer from scratch: to read, to trust, to use on a CPU.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},  # of every verb, too
    )
    app.callback(invoke_without_command=True)(start)
    asked = next((word for word in arguments if not word.startswith("-")), None)
    for verb in [asked] if asked in VERBS else VERBS:
        add(app, verb, verb == asked)
    return app


def add(app: typer.Typer, verb: str, whole: bool) -> None:
    """Add a verb to the application: `whole`, or only its name and help, to be listed."""
    if not whole:
        app.command(verb, help=VERBS[verb])(_listed)
        return
    name = KEYWORDS.get(verb, verb)
    module = import_module(f"glassformer.cli.{name}")
    if hasattr(module, "app"):
        app.add_typer(module.app, name=verb, help=VERBS[verb])
    else:
        run: Callable[..., None] = getattr(module, name)
        app.command(verb, cls=Verb)(run)


def _listed() -> None:
    """Stand in for a verb whose module is not imported."""


def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    if version:
        print(__version__)
    elif context.invoked_subcommand is None:
        print(EXAMPLES, end="")
