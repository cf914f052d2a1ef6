"""`glassformer train`: a recipe carried out."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli import options as o
from glassformer.cli.progress import Bar
from glassformer.config import RunSettings, parse_changes
from glassformer.errors import SettingsError
from glassformer.extras import require_torch

if TYPE_CHECKING:
    from glassformer.data.prepare import Prepared
    from glassformer.train.validate import Evaluate


def train(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="The settings of a run.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SECTION.NAME=VALUE]...", help="Settings to change."),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Where checkpoints and the log go. [runs/RECIPE]")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run.")] = False,
    skip_bad: o.SkipBad = False,
    verify_resume: Annotated[
        bool,
        typer.Option("--verify-resume", help="Prove that --resume goes on to the same bits."),
    ] = False,
) -> None:
    """Train what RECIPE.toml describes; Ctrl-C saves and stops, --resume goes on."""
    settings = read_recipe(recipe, changes or [], skip_bad)
    carry_out(settings, run or Path("runs") / recipe.stem, resume, verify_resume)


def read_recipe(recipe: Path, changes: list[str], skip_bad: bool = False) -> RunSettings:
    if not recipe.is_file():
        raise SettingsError(
            f"There is no recipe {recipe}.",
            "A recipe is a TOML file with sections [model], [data], [train] and [search].",
            "Look into recipes/ for examples.",
        )
    settings = RunSettings.from_toml(recipe.read_bytes())
    settings = settings.replace(**parse_changes(changes))
    return settings.replace(data={"skip_bad": True}) if skip_bad else settings


def carry_out(
    settings: RunSettings, folder: Path, resume: bool = False, verify_resume: bool = False
) -> None:
    """Prepare the data, train, report; in every process that torchrun started."""
    require_torch("Training")

    from glassformer.train.distributed import world
    from glassformer.train.loop import start
    from glassformer.train.loop import train as run_loop

    with world() as processes, ExitStack() as stack:
        if verify_resume:
            processes.lead(lambda: _verify(settings))
            return
        processes.lead(lambda: stack.enter_context(_claimed(folder, resume)))
        data = processes.first_alone(lambda: prepared(settings, folder if resume else None))
        if processes.leads:
            _say_of(data)
        run = start(data, folder, processes, resume, say)
        evaluate = _evaluate(data)
        if not processes.leads:
            run_loop(run, evaluate)
            return
        s, at = settings.train, run.position
        with Bar("training", s.max_steps, at.step, s.max_minutes, at.seconds) as bar:
            reason = run_loop(run, evaluate, bar.record)
        say(f"stopped after {at.step:,} updates: {reason}")
        say(f"checkpoints: {folder}/best, {folder}/latest")
        if run.signal is not None:
            raise typer.Exit(128 + run.signal)  # 130 for Ctrl-C, as a shell has it


@contextmanager
def _claimed(folder: Path, resume: bool) -> Iterator[None]:
    """Write to a run folder alone, and only to one that a new run may begin in or resume."""
    from glassformer.checkpoint import RunFolder, sole_writer

    with sole_writer(folder, say):
        if RunFolder(folder).steps() and not resume:
            raise SettingsError(
                f"{folder} holds a run already.",
                "A new run in its place would lose it.",
                f"Go on with it (--resume), or name another place: --run {folder}-2.",
            )
        yield


def _verify(settings: RunSettings) -> None:
    from glassformer.train.verify import verify_resume

    _say_of(prepared(settings))  # the processes that it starts find the data in the cache
    verify_resume(settings, say)


def prepared(settings: RunSettings, folder: Path | None = None) -> "Prepared":
    """Prepare the data of a recipe, or of a run that is resumed in `folder`."""
    require_torch("Preparing training data")

    from glassformer.train.loop import prepared as prepare

    return prepare(settings, folder)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _say_of(data: "Prepared") -> None:
    sizes = ", ".join(f"{side} {len(t):,}" for side, t in data.tokenizers.items())
    say(counts(data, "examples "))
    for fate, text in losses(data):
        say(f"{fate}: {text}")
    if sizes:
        say(f"subwords: {sizes}")


def counts(data: "Prepared", examples: str = "") -> str:
    """How many examples there are for what."""
    ended = f", {len(data.final):,} to end on" if data.final is not None else ""
    return f"{len(data.train):,} {examples}to train on, {len(data.valid):,} to validate on{ended}"


def losses(data: "Prepared") -> Iterator[tuple[str, str]]:
    """What of the text is not in the examples: what became of it, and how much it was."""
    longest = data.settings.data.max_length
    of_all = {
        "": data.lost, ", to validate on": data.valid_lost, ", to end on": data.final_lost
    }  # fmt: skip
    for purpose, lost in of_all.items():
        if lost.bad_rows:
            yield "skipped", f"{lost.bad_rows}{purpose}"
        if lost.left_out:
            yield "left out", f"{lost.left_out:,} longer than {longest} subwords{purpose}"
        if lost.cut:
            yield "cut", f"{lost.cut:,} of {longest} subwords or more{purpose}"


def _evaluate(data: "Prepared") -> "Evaluate | None":
    """Return a function that computes BLEU, of each validation set and their mean."""
    from glassformer.decode.torch_decoder import TorchDecoder
    from glassformer.evaluate.bleu import bleu_of
    from glassformer.pipeline import Translator

    if data.settings.train.metric != "bleu":
        return None
    if data.settings.model.kind != "translator" or not data.valid_rows:
        raise SettingsError(
            f"train.metric = 'bleu' does not go with a {data.settings.model.kind} "
            f"on {data.settings.data.name!r}.",
            "BLEU compares translations of text.",
            "Set train.metric = 'accuracy' or 'loss'.",
        )

    def evaluate(model: Any) -> dict[str, float]:
        decoder = TorchDecoder(model)
        translator = Translator(decoder, data.tokenizers, data.settings)
        if not data.valid_sets:
            return {"bleu": bleu_of(translator, data.valid_rows)}
        scores = {
            f"bleu/{one.name}": bleu_of(translator.towards(one.to), one.rows)
            for one in data.valid_sets
        }
        return {"bleu": fmean(scores.values()), **scores}

    return evaluate
