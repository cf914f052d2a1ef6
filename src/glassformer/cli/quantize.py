"""`glassformer quantize`: a checkpoint in eight bits, and what that costs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli import options as o
from glassformer.cli.examples import VALID, Data, check_data, read
from glassformer.cli.progress import progress
from glassformer.errors import CheckpointError, SettingsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from glassformer.checkpoint import Checkpoint
    from glassformer.pipeline import Classifier, Generator, Translator

    Judged = Translator | Classifier

ALONE = 1  # tokens of a batch that holds one text, however long


def quantize(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, or a checkpoint.")],
    output: Annotated[
        Path | None, typer.Option(help="Where it goes. [RUN/int8, or beside a checkpoint]")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Text to try it on, a line each.")] = None,
    reference: Annotated[Path | None, typer.Option(help="What it should become.")] = None,
    data: Annotated[Path | None, typer.Option(help="Or one JSONL, TSV or CSV file.")] = None,
    columns: Annotated[
        str, typer.Option(help="Its columns. [the model's languages, or text,label]")
    ] = "",
    name: Annotated[str | None, typer.Option("--set", help="Or a set of `data list`.")] = None,
    split: Annotated[str | None, typer.Option(help=f"Which part of the set. [{VALID}]")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many rows.")] = None,
    skip_bad: o.SkipBad = False,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Width of the search; 1 is greedy. [5]")
    ] = None,
    truncate: o.Truncate = False,
    threads: o.Threads = None,
) -> None:
    """Write RUN's best checkpoint in eight bits: smaller, faster, and it loads like any other.

    On data it is compared with the original: scores, answers that changed, and answers that change
    with the batch. A quantised checkpoint at --output is replaced; its CARD.md stays.
    """
    chosen = tuple(filter(None, columns.split(",")))
    about = Data(source, reference, None, data, chosen, name, split, limit, skip_bad)
    compared = any((source, reference, data, name))
    if compared:
        check_data(about)
    given = {"columns": chosen or None, "split": split, "limit": limit, "beam": beam}
    flags = {"skip_bad": skip_bad or None, "truncate": truncate or None}
    o.only_with("--source, --data or --set", compared, **given, **flags)

    from glassformer import checkpoint, pretrained
    from glassformer.pipeline import load

    folder = checkpoint.find(pretrained.resolve(run))
    saved = checkpoint.read(folder)
    place = output or (run.parent if folder == run else run) / "int8"
    refuse_twice(run, saved)
    refuse_to_overwrite(place)
    before = load(folder, threads=threads)  # nothing is written that could not be loaded
    tried = trial(judged(before), about, beam, truncate) if compared else None

    small, card = quantised(saved), place / pretrained.CARD
    text = card.read_bytes() if card.is_file() else None
    checkpoint.write(small, place)
    if text is not None:
        card.write_bytes(text)
    sizes = [(one / checkpoint.WEIGHTS).stat().st_size for one in (folder, place)]
    print(f"written to {place}")
    print(f"{checkpoint.WEIGHTS}: fp32 {sizes[0]:,} bytes, INT8 {sizes[1]:,}", end=", ")
    print(f"{sizes[1] / sizes[0]:.1%} of it")
    print(largest_error(saved.weights, small.weights))
    after = load(place, threads=threads)
    if tried:
        compare(tried, judged(before), judged(after))


def refuse_twice(run: Path, saved: "Checkpoint") -> None:
    from glassformer.quantize import is_quantised

    if is_quantised(saved.weights):
        raise CheckpointError(
            f"{run} is quantised already.",
            "Its weights are in eight bits, and what they were before is not in it.",
            "Use it as it is, or name the run that it was made from.",
        )


def refuse_to_overwrite(place: Path) -> None:
    """A quantised checkpoint may be made again; nothing else gives way to it."""
    from glassformer import checkpoint
    from glassformer.quantize import is_quantised

    known = (place / checkpoint.MANIFEST).is_file()
    if place.exists() and not (known and is_quantised(checkpoint.read(place).weights)):
        raise SettingsError(
            f"{place} is there already, and is no quantised checkpoint.",
            "It would be lost.",
            "Name another place: --output FOLDER.",
        )


def quantised(saved: "Checkpoint") -> "Checkpoint":
    from glassformer.checkpoint import Checkpoint
    from glassformer.quantize import quantise_weights

    return Checkpoint(saved.settings, quantise_weights(saved.weights), saved.tokenizers)


def largest_error(
    weights: "Mapping[str, NDArray[Any]]", small: "Mapping[str, NDArray[Any]]"
) -> str:
    from glassformer.quantize import dequantise_weights

    again = dequantise_weights(small)
    errors = {key: float(abs(weights[key] - again[key]).max()) for key in weights}
    key = max(errors, key=errors.__getitem__)
    largest = float(abs(weights[key]).max())
    return f"largest error of a weight: {errors[key]:.2g}, in {key}, whose largest is {largest:.2g}"


@dataclass(frozen=True)
class Trial:
    """Texts that both models answer, and what they should have answered."""

    texts: list[str]
    truth: list[str]
    beam: int
    truncate: bool

    def answers(self, model: "Judged", batch_tokens: int, tick: Callable[[], None]) -> list[str]:
        from glassformer.evaluate.examples import turns

        said = [""] * len(self.texts)
        for turn in turns(self.texts):
            some = self.ask(model, [self.texts[i] for i in turn], batch_tokens)
            for i, answer in zip(turn, some, strict=True):
                said[i] = answer
            tick()
        return said

    def ask(self, model: "Judged", texts: list[str], batch_tokens: int) -> list[str]:
        from glassformer.pipeline import Translator

        how: dict[str, Any] = {"batch_tokens": batch_tokens, "truncate": self.truncate}
        if isinstance(model, Translator):
            to = model.targets[0]
            return model.translate(texts, self.beam, to=to, split=False, typeset=False, **how)
        return [found.label for found in model.classify(texts, **how)]


def trial(model: "Judged", about: Data, beam: int | None, truncate: bool) -> Trial:
    from glassformer.evaluate.examples import check_fit
    from glassformer.pipeline import Translator

    if isinstance(model, Translator):
        trained_on = model.settings.data
        languages = (trained_on.source_language, trained_on.target_language)
        rows = [tuple(map(model.plain, row, languages)) for row in read(about, languages).rows]
    else:
        o.not_with("a classifier", True, "It does not search for its answer.", beam=beam)
        found = read(about, (), model.spellings).rows
        rows = [(text, model.spellings[label]) for text, label in found]
    texts, truth = [row[0] for row in rows], [row[1] for row in rows]
    if not truncate:
        check_fit(texts, model.tokenizer, model.max_length)
    return Trial(texts, truth, beam or 5, truncate)


def judged(model: "Translator | Classifier | Generator") -> "Judged":
    from glassformer.pipeline import Generator

    if isinstance(model, Generator):
        raise SettingsError(
            "A language model cannot be tried on examples.",
            "To what it says there is no right answer that it could be compared with.",
            "Quantise it without data.",
        )
    return model


def compare(trial: Trial, before: "Judged", after: "Judged") -> None:
    from glassformer.evaluate.bleu import bleu
    from glassformer.evaluate.examples import turns
    from glassformer.pipeline import BATCH_TOKENS, Translator

    with progress("comparing", 3 * len(turns(trial.texts))) as tick:
        in_fp32 = trial.answers(before, BATCH_TOKENS, tick)
        in_int8 = trial.answers(after, BATCH_TOKENS, tick)
        alone = trial.answers(after, ALONE, tick)
    count = len(trial.texts)
    if isinstance(before, Translator):
        name = "BLEU"
        scores = [bleu(said, trial.truth) for said in (in_fp32, in_int8)]
    else:
        name = "accuracy in %"
        scores = [100 * (count - different(s, trial.truth)) / count for s in (in_fp32, in_int8)]
    fp32, int8 = scores
    print(f"{name}, {count:,} texts: fp32 {fp32:.2f}, INT8 {int8:.2f} ({int8 - fp32:+.2f})")
    print(f"answers that differ from fp32: {different(in_fp32, in_int8):,} of {count:,}")
    print(f"INT8 answers that change with the batch: {different(in_int8, alone):,} of {count:,}")


def different(some: list[str], others: list[str]) -> int:
    return sum(a != b for a, b in zip(some, others, strict=True))
