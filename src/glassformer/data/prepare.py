"""Settings to examples: find text, train subwords, tokenise."""

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
from glassformer.data.kinds import KINDS
from glassformer.data.mixture import Augment, Mixture, Source, compose
from glassformer.data.noise import Noise
from glassformer.data.ragged import Ids, Ragged
from glassformer.data.store import Lost, cached, fitting_rows, side_tokenizers, tokenised
from glassformer.data.text import Text, find_source, find_text
from glassformer.data.tokenizer import ALWAYS, PAD, Tokenizer
from glassformer.errors import DataError

SUBWORD_CHARACTERS = 120_000_000  # of a mixture, to bound the time and memory of their training

Tokenizers = dict[str, Tokenizer]  # by side, or "joint"


@dataclass(frozen=True)
class ValidSet:
    """A validation set with a score of its own, in one direction; rows are (source, reference)."""

    name: str
    examples: Examples
    rows: list[Row]
    to: str  # the language of the references


@dataclass(frozen=True)
class Prepared:
    """The examples of a run; `settings` include the vocabulary sizes and labels of the data."""

    settings: RunSettings
    train: Examples | Mixture
    valid: Examples
    valid_rows: list[Row]  # the text of `valid`; a synthetic task has none
    tokenizers: Tokenizers
    lost: Lost = field(default_factory=Lost)
    valid_lost: Lost = field(default_factory=Lost)
    final: Examples | Mixture | None = None  # read instead of `train` at the end of the run
    final_lost: Lost = field(default_factory=Lost)
    valid_sets: tuple[ValidSet, ...] = ()  # the parts of `valid`, if there are several


def prepare(
    settings: RunSettings, threads: int = 2, tokenizers: Tokenizers | None = None
) -> Prepared:
    """Prepare the examples of a run; `tokenizers` are those of the run that it starts from."""
    check(settings)
    if settings.data.name in tasks.TASKS:
        return _prepare_task(settings)
    if settings.data.name == "mixture":
        return _prepare_mixture(settings, threads, tokenizers)
    return _prepare_text(settings, threads, tokenizers)


def _prepare_text(settings: RunSettings, threads: int, tokenizers: Tokenizers | None) -> Prepared:
    train, kind = find_text(settings, "train"), KINDS[settings.model.kind]
    tokenizers = tokenizers or _tokenizers(train, settings)
    if "source" in tokenizers and len(kind.text_sides) == 1:  # from a run with two sides
        tokenizers = {"joint": tokenizers["source"]}
    labels = tuple(sorted({row[-1] for row in train.rows()})) if kind.has_label else ()
    settings = settings.replace(
        data={"labels": labels},
        model=_with_vocabularies(settings, tokenizers, max(2, len(labels))),
    )
    data, valid = settings.data, find_text(settings, "valid")
    tokenise = partial(tokenised, settings=settings, tokenizers=tokenizers, threads=threads)
    some = valid.first(data.valid_examples)
    train_examples, lost = tokenise(train)
    valid_examples, valid_lost = tokenise(some, learning=False)
    final, final_lost = (
        tokenise(find_text(settings, "final")) if has_final(data) else (None, Lost())
    )
    _check_any("train", train_examples, data)
    _check_any("validate", valid_examples, data)
    if final is not None:
        _check_any("end", final, data)
    rows = list(some.rows())
    if valid_lost.left_out:
        rows = fitting_rows(rows, settings, tokenizers)
    valid_lost = replace(valid_lost, bad_rows=valid.bad_rows())  # of this reading, not the cached
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
    settings: RunSettings, threads: int, tokenizers: Tokenizers | None
) -> Prepared:
    """Tokenise every source, with subwords trained on all of them by their weights."""
    data = settings.data
    texts = [find_source(settings, source, data.clean) for source in data.sources]
    tokenizers = tokenizers or _tokenizers(_weighted_sample(texts, settings), settings)
    settings = settings.replace(model=_with_vocabularies(settings, tokenizers, 2))
    tokenise = partial(tokenised, settings=settings, tokenizers=tokenizers, threads=threads)
    both = data.directions == "both"
    sources, lost = [], Lost()
    for source, text in zip(data.sources, texts, strict=True):
        examples, missing = tokenise(text)
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
        examples, missing = tokenise(text, learning=False)
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
    tokenizers: Tokenizers,
) -> Iterator[ValidSet]:
    """Yield a validation set once in each direction that the model is trained in."""
    data = settings.data
    if data.directions == "forward":
        yield ValidSet(name, examples, rows, data.target_language)
        return
    turn = BothDirections(side_tokenizers(settings, tokenizers)[0], data).turn
    sides: list[list[Ids]] = [[side[i] for i in range(len(side))] for side in examples.sides]
    for to in targets(data):
        back = to == data.source_language
        directed = turn(sides, np.full(len(examples), back))
        turned = replace(examples, sides=tuple(map(Ragged.of, directed)))
        language = f"{from_language(data, to)}-{to}"
        yield ValidSet(f"{name}.{language}", turned, [r[::-1] if back else r for r in rows], to)


def _joined(parts: Sequence[Examples]) -> Examples:
    sides = zip(*(part.sides for part in parts), strict=True)
    return replace(parts[0], sides=tuple(Ragged.joined(side) for side in sides))


def _augment(settings: RunSettings, tokenizers: Tokenizers) -> Augment | None:
    """Return the augmentation of every epoch: noise first, then directions."""
    data, of_side = settings.data, side_tokenizers(settings, tokenizers)
    languages = data.source_language, data.target_language
    noise = Noise(data.noise, of_side, languages, data.max_length) if data.noise else None
    both = BothDirections(of_side[0], data) if data.directions == "both" else None
    return compose(noise, both)


def _augmented(
    examples: Examples, settings: RunSettings, tokenizers: Tokenizers
) -> Examples | Mixture:
    """Return the examples; with augmentation, a mixture of one source whose epoch is one pass."""
    augment = _augment(settings, tokenizers)
    if augment is None:
        return examples
    source = Source("text", examples, 1.0, both_directions=settings.data.directions == "both")
    return Mixture((source,), round(source.tokens), augment)


def _weighted_sample(texts: Sequence[Text], settings: RunSettings) -> Text:
    """Return the rows that subwords are trained on: a share of each text by weight, none twice."""
    weights = [source.weight for source in settings.data.sources]
    identity = f"{[text.identity for text in texts]} {weights} {SUBWORD_CHARACTERS}"

    def rows() -> Iterator[Row]:
        for text, weight in zip(texts, weights, strict=True):
            characters = sum(len(side) for row in text.rows() for side in row)
            share = min(1.0, SUBWORD_CHARACTERS * weight / sum(weights) / characters)
            for number, row in enumerate(text.rows()):
                if int((number + 1) * share) > int(number * share):
                    yield row

    return Text(rows, identity)


def _tokenizers(train: Text, settings: RunSettings) -> Tokenizers:
    """Train the subwords of each side on the training text, or one for both sides."""
    data, sides = settings.data, KINDS[settings.model.kind].text_sides
    joint = data.joint_vocabulary or len(sides) == 1

    def learn(columns: tuple[int, ...], size: int) -> Tokenizer:
        key = f"{train.identity} {columns} {size} {data.subwords} {data.fold_case}"
        key += _subword_options(data)
        folder = cached(key, lambda folder: _learn(train, columns, size, data, folder))
        return Tokenizer((folder / "subwords.spm").read_bytes())

    if joint:
        return {"joint": learn(tuple(range(len(sides))), settings.model.vocab_size)}
    source_size = settings.model.source_vocab_size or settings.model.vocab_size
    return {"source": learn((0,), source_size), "target": learn((1,), settings.model.vocab_size)}


def _subword_options(data: DataSettings) -> str:
    """Return the subword options; nothing for the defaults, so that old caches stay valid."""
    characters = ALWAYS if data.byte_fallback else ""
    options = data.normalization != "nfkc", characters, data.split_digits, tags(data)
    return f" {options}" if any(options) else ""


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
    settings: RunSettings, tokenizers: Tokenizers, n_classes: int
) -> dict[str, Any]:
    """Return the model settings with the sizes of the vocabularies and of the output."""
    sizes = {side: len(tokenizer) for side, tokenizer in tokenizers.items()}
    model = settings.model.replace(vocab_size=sizes.get("joint") or sizes["target"])
    if "source" in sizes:
        model = model.replace(source_vocab_size=sizes["source"], tie_source_target=False)
    if KINDS[model.kind].has_label:
        model = model.replace(n_classes=n_classes)
    return model.model_dump()


def _prepare_task(settings: RunSettings) -> Prepared:
    """Prepare a synthetic task, which needs no text; validation has another seed."""
    data, kind = settings.data, settings.model.kind
    vocabulary = tasks.FIRST + data.symbols
    model = settings.model.replace(vocab_size=vocabulary, n_classes=vocabulary)

    def examples(seed: int, count: int) -> Examples:
        made = [
            tasks.example(data.name, seed, i, data.symbols, (2, data.longest)) for i in range(count)
        ]
        sources, labels = zip(*made, strict=True)
        if "target" in KINDS[kind].text_sides:  # a decoder writes the labels without padding
            labels = tuple([label for label in row if label != PAD] for row in labels)
        return Examples(kind, (Ragged.of(sources), Ragged.of(labels)))

    settings = settings.replace(model=model.model_dump())
    train, valid = examples(0, data.examples), examples(1, data.valid_examples)
    return Prepared(settings, train, valid, [], {})
