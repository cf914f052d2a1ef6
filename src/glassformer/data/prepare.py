"""Settings to examples: text found, subwords learned, everything tokenised once and kept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.config import DataSettings, RunSettings
from glassformer.data import tasks
from glassformer.data.batch import Examples
from glassformer.data.check import check, has_final
from glassformer.data.corpus import Row
from glassformer.data.direction import BothDirections, from_language, tags, targets
from glassformer.data.mixture import Augment, Mixture, Source, compose
from glassformer.data.noise import Noise
from glassformer.data.ragged import Ids, Ragged
from glassformer.data.store import Lost, by_side, fitting_rows, made, sides_of, stored
from glassformer.data.text import Text, find_source, find_text
from glassformer.data.tokenizer import ALWAYS, PAD, Tokenizer
from glassformer.errors import DataError

LEARNED_FROM = 120_000_000  # characters of a mixture that its subwords are learned from


@dataclass(frozen=True)
class ValidSet:
    """A set that is scored by itself, in one direction; `rows` are (source, reference)."""

    name: str
    examples: Examples
    rows: list[Row]
    to: str  # the language of the references


@dataclass(frozen=True)
class Prepared:
    """`settings` are those asked for with what was found out: the vocabulary's size, the labels."""

    settings: RunSettings
    train: Examples | Mixture
    valid: Examples
    valid_rows: list[Row]  # the text of `valid`; empty for a task, which has none
    tokenizers: dict[str, Tokenizer]
    lost: Lost = field(default_factory=Lost)
    valid_lost: Lost = field(default_factory=Lost)
    final: Examples | Mixture | None = None  # what the end of the run reads instead of `train`
    final_lost: Lost = field(default_factory=Lost)
    valid_sets: tuple[ValidSet, ...] = ()  # where `valid` is made up of several


def prepare(
    settings: RunSettings, threads: int = 2, tokenizers: dict[str, Tokenizer] | None = None
) -> Prepared:
    """What a run needs; with given subwords, where it starts from another run and has its."""
    check(settings)
    if settings.data.name in tasks.TASKS:
        return _prepare_task(settings)
    if settings.data.name == "mixture":
        return _prepare_mixture(settings, threads, tokenizers)
    train = find_text(settings, "train")
    tokenizers = tokenizers or _tokenizers(train, settings)
    if "source" in tokenizers and len(sides_of(settings)) == 1:  # of a run that had two
        tokenizers = {"joint": tokenizers["source"]}
    is_classifier = settings.model.kind == "classifier"
    labels = tuple(sorted({row[-1] for row in train.rows()})) if is_classifier else ()
    settings = settings.replace(
        data={"labels": labels},
        model=_with_vocabularies(settings, tokenizers, max(2, len(labels))),
    )
    data, valid = settings.data, find_text(settings, "valid")
    store = partial(stored, settings=settings, tokenizers=tokenizers, threads=threads)
    few = valid.first(data.valid_examples)
    train_examples, lost = store(train)
    valid_examples, valid_lost = store(few, learning=False)
    final, final_lost = store(find_text(settings, "final")) if has_final(data) else (None, Lost())
    _check_any("train", train_examples, data)
    _check_any("validate", valid_examples, data)
    if final is not None:
        _check_any("end", final, data)
    rows = list(few.rows())
    if valid_lost.left_out:
        rows = fitting_rows(rows, settings, tokenizers)
    valid_lost = replace(valid_lost, bad_rows=valid.bad_rows())  # as just read
    augment = partial(_augmented, settings=settings, tokenizers=tokenizers)
    valid_sets: tuple[ValidSet, ...] = ()
    if data.directions == "both":
        valid_sets = tuple(_directed("valid", valid_examples, rows, settings, tokenizers))
        valid_examples = _joined([one.examples for one in valid_sets])
    return Prepared(
        settings, augment(train_examples), valid_examples, rows,
        tokenizers, lost, valid_lost, final and augment(final), final_lost, valid_sets,
    )  # fmt: skip


def _check_any(purpose: str, examples: Examples, data: DataSettings) -> None:
    if not len(examples):
        raise DataError(
            f"No example to {purpose} on is left.",
            f"All of them have more than data.max_length = {data.max_length} subwords.",
            "Raise data.max_length.",
        )


def _prepare_mixture(
    settings: RunSettings, threads: int, tokenizers: dict[str, Tokenizer] | None
) -> Prepared:
    """Every source tokenised by itself, with subwords learned from all of them by their weights."""
    data = settings.data
    texts = [find_source(settings, source, data.clean) for source in data.sources]
    tokenizers = tokenizers or _tokenizers(_sampled(texts, settings), settings)
    settings = settings.replace(model=_with_vocabularies(settings, tokenizers, 2))
    store = partial(stored, settings=settings, tokenizers=tokenizers, threads=threads)
    both = data.directions == "both"
    sources, lost = [], Lost()
    for source, text in zip(data.sources, texts, strict=True):
        examples, missing = store(text)
        _check_any(f"train in source {source.name!r}", examples, data)
        share = source.weight, source.begin, source.end
        sources.append(Source(source.name, examples, *share, both))
        lost = lost.plus(missing)
    mixture = Mixture(tuple(sources), data.epoch_tokens, _augment(settings, tokenizers))
    valid_sets: list[ValidSet] = []
    all_rows: list[Row] = []
    valid_lost = Lost()
    for named in data.valid_sets:
        text = find_source(settings, named).first(data.valid_examples)
        examples, missing = store(text, learning=False)
        _check_any(f"validate in {named.name!r}", examples, data)
        rows = fitting_rows(list(text.rows()), settings, tokenizers)
        valid_sets += _directed(named.name, examples, rows, settings, tokenizers)
        all_rows, valid_lost = all_rows + rows, valid_lost.plus(missing)
    valid = _joined([one.examples for one in valid_sets])
    return Prepared(
        settings, mixture, valid, all_rows, tokenizers, lost, valid_lost,
        valid_sets=tuple(valid_sets),
    )  # fmt: skip


def _directed(
    name: str,
    examples: Examples,
    rows: list[Row],
    settings: RunSettings,
    tokenizers: dict[str, Tokenizer],
) -> Iterator[ValidSet]:
    """A set to validate on, once in each direction that the model is trained in."""
    data = settings.data
    if data.directions == "forward":
        yield ValidSet(name, examples, rows, data.target_language)
        return
    turn = BothDirections(by_side(settings, tokenizers)[0], data).turn
    sides: list[list[Ids]] = [[side[i] for i in range(len(side))] for side in examples.sides]
    for to in targets(data):
        back = to == data.source_language
        directed = turn(sides, np.full(len(examples), back))
        turned = replace(examples, sides=tuple(map(Ragged.of, directed)))
        language = f"{from_language(data, to)}-{to}"
        yield ValidSet(f"{name}.{language}", turned, [r[::-1] if back else r for r in rows], to)


def _joined(parts: Sequence[Examples]) -> Examples:
    """The examples of all parts."""
    sides = zip(*(part.sides for part in parts), strict=True)
    return replace(parts[0], sides=tuple(Ragged.joined(side) for side in sides))


def _augment(settings: RunSettings, tokenizers: dict[str, Tokenizer]) -> Augment | None:
    """What is done to the examples of every epoch: noise first, then directions."""
    data, of_side = settings.data, by_side(settings, tokenizers)
    languages = data.source_language, data.target_language
    noise = Noise(data.noise, of_side, languages, data.max_length) if data.noise else None
    both = BothDirections(of_side[0], data) if data.directions == "both" else None
    return compose(noise, both)


def _augmented(
    examples: Examples, settings: RunSettings, tokenizers: dict[str, Tokenizer]
) -> Examples | Mixture:
    """One text as a mixture of itself alone, if it is augmented; an epoch is one pass."""
    augment = _augment(settings, tokenizers)
    if augment is None:
        return examples
    source = Source("text", examples, 1.0, both_directions=settings.data.directions == "both")
    return Mixture((source,), round(source.tokens), augment)


def _sampled(texts: Sequence[Text], settings: RunSettings) -> Text:
    """The rows that the subwords of a mixture are learned from: by weight, none of them twice."""
    weights = [source.weight for source in settings.data.sources]
    identity = f"{[text.identity for text in texts]} {weights} {LEARNED_FROM}"

    def rows() -> Iterator[Row]:
        for text, weight in zip(texts, weights, strict=True):
            characters = sum(len(side) for row in text.rows() for side in row)
            share = min(1.0, LEARNED_FROM * weight / sum(weights) / characters)
            for number, row in enumerate(text.rows()):
                if int((number + 1) * share) > int(number * share):
                    yield row

    return Text(rows, identity)


def _tokenizers(train: Text, settings: RunSettings) -> dict[str, Tokenizer]:
    """The subwords of each side, learned from the training text; one for both if they are joint."""
    data, sides = settings.data, sides_of(settings)
    joint = data.joint_vocabulary or len(sides) == 1

    def learn(columns: tuple[int, ...], size: int) -> Tokenizer:
        made_of = f"{train.identity} {columns} {size} {data.subwords} {data.fold_case}"
        made_of += _special(data)
        folder = made(made_of, lambda folder: _learn(train, columns, size, data, folder))
        return Tokenizer((folder / "subwords.spm").read_bytes())

    if joint:
        return {"joint": learn(tuple(range(len(sides))), settings.model.vocab_size)}
    source_size = settings.model.source_vocab_size or settings.model.vocab_size
    return {"source": learn((0,), source_size), "target": learn((1,), settings.model.vocab_size)}


def _special(data: DataSettings) -> str:
    """Settings of the subwords that are not the defaults, so that old subwords are still found."""
    characters = ALWAYS if data.byte_fallback else ""
    special = data.normalization != "nfkc", characters, data.split_digits, tags(data)
    return f" {special}" if any(special) else ""


def _learn(
    train: Text, columns: tuple[int, ...], size: int, data: DataSettings, folder: Path
) -> None:
    sentences = (row[column] for row in train.rows() for column in columns)
    tokenizer = Tokenizer.train(
        sentences,
        size,
        data.subwords,
        byte_fallback=data.byte_fallback,
        fold_case=data.fold_case,
        identity=data.normalization == "identity",
        split_digits=data.split_digits,
        tags=tags(data),
    )
    (folder / "subwords.spm").write_bytes(tokenizer.model)


def _with_vocabularies(
    settings: RunSettings, tokenizers: dict[str, Tokenizer], n_classes: int
) -> dict[str, Any]:
    sizes = {side: len(tokenizer) for side, tokenizer in tokenizers.items()}
    model = settings.model.replace(vocab_size=sizes.get("joint") or sizes["target"])
    if "source" in sizes:
        model = model.replace(source_vocab_size=sizes["source"], tie_source_target=False)
    if model.kind == "classifier":
        model = model.replace(n_classes=n_classes)
    return model.model_dump()


def _prepare_task(settings: RunSettings) -> Prepared:
    """A task needs no text and no subwords; its validation examples have another seed."""
    data, kind = settings.data, settings.model.kind
    vocabulary = tasks.FIRST + data.symbols
    model = settings.model.replace(vocab_size=vocabulary, n_classes=vocabulary)

    def examples(seed: int, count: int) -> Examples:
        made = [
            tasks.example(data.name, seed, i, data.symbols, (2, data.longest)) for i in range(count)
        ]
        sources, labels = zip(*made, strict=True)
        if kind == "translator":
            labels = tuple([label for label in row if label != PAD] for row in labels)
        return Examples(kind, (Ragged.of(sources), Ragged.of(labels)))

    settings = settings.replace(model=model.model_dump())
    train, valid = examples(0, data.examples), examples(1, data.valid_examples)
    return Prepared(settings, train, valid, [], {})
