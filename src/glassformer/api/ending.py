"""Lines that a run prints at its end: why, which checkpoints there are, how to continue it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.train.log import Record
    from glassformer.train.run import Run

VERBS = {
    "translator": "translate --model {run} TEXT",
    "classifier": "classify --model {run} TEXT",
    "language-model": "generate --model {run} PROMPT",
}


def ending_lines(run: "Run", reason: str, last: int) -> Iterator[str]:
    """Yield the lines that a run prints at its end; `last` is the update its schedule ends with."""
    from glassformer.train.log import read

    at, s, folder = run.position, run.settings.train, run.folder.path
    yield f"stopped after {at.step:,} updates, {at.seconds / 60:.1f} minutes in all: {reason}"
    log = read(folder / "log.jsonl")
    yield from checkpoints(run, log)
    yield from warnings(run, log, last)
    if verb := VERBS.get(run.settings.model.kind):
        yield f"use it:   glassformer {verb.format(run=folder)}"
    yield f"continue: {continuation(run)}"
    if s.max_minutes is not None:
        yield f"          minutes add up: the run has used {at.seconds / 60:.1f} of them"


def checkpoints(run: "Run", log: "list[Record]") -> Iterator[str]:
    """Yield which checkpoints there are, the best with its score."""
    s, folder = run.settings.train, run.folder.path
    steps = {path.name: int(path.name.removeprefix("step-")) for path in run.folder.steps()}
    if (folder / "best").is_symlink():
        step = steps.get((folder / "best").readlink().name)
        scores = [r[f"valid_{s.metric}"] for r in log if r["step"] == step and _is_valid(r, s)]
        score = f", {s.metric} {scores[-1]:.4g}" if scores else ""
        yield f"checkpoints: {folder}/best (update {step:,}{score})"
    else:
        yield "checkpoints: no best one; no validation was finished"
    if steps:
        kept = ", ".join(f"{step:,}" for step in steps.values())
        yield f"             {folder}/latest (update {max(steps.values()):,}); kept: {kept}"


def _is_valid(record: "Record", s: Any) -> bool:
    return f"valid_{s.metric}" in record


def warnings(run: "Run", log: "list[Record]", last: int) -> Iterator[str]:
    """Yield a note on a run that ended inside its warm-up, and on one that learned nothing."""
    from glassformer.train.run import warmup_updates

    at = run.position
    warmup = warmup_updates(run, last)
    if 0 < at.step < warmup:
        yield (
            f"note: the run ended inside its warm-up, at {at.step / warmup:.0%} of the learning "
            f"rate, after {at.step:,} of {warmup:,} updates; set train.warmup_share=0.04, or train "
            "longer"
        )
    losses = [record["train_loss"] for record in log if "train_loss" in record]
    if len(losses) < 2:
        losses = [record["valid_loss"] for record in log if "valid_loss" in record]
    if len(losses) >= 2 and min(losses[1:]) >= losses[0]:
        yield (
            f"note: the loss never fell: {losses[0]:.3f} at first, {losses[-1]:.3f} at last; "
            "lower train.learning_rate, or check that the two columns belong together"
        )


def continuation(run: "Run") -> str:
    """Return the command that continues the run beyond its limits."""
    s, at = run.settings.train, run.position
    command = f"glassformer train {run.folder.path} --resume"
    if s.max_minutes is not None and at.seconds >= 60 * s.max_minutes:
        return f"{command} train.max_minutes={2 * s.max_minutes:g}"
    if s.epochs is not None and at.step >= run.max_steps:
        return f"{command} train.epochs={2 * s.epochs}"
    if at.step >= s.max_steps:
        return f"{command} train.max_steps={2 * s.max_steps}"
    if run.stopping.should_stop:
        return f"{command} train.patience={2 * run.stopping.waited}"
    return command
