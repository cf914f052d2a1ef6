"""A checkpoint that you can call: text in, text out.

    load("en-fr").translate("A man is riding a red bicycle.")

`load` gives a `Translator`, a `Classifier` or a `Generator`, by what the checkpoint is of: a run's,
or that of a model that comes with the package.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import torch
from torch import Tensor, nn

from glassformer import checkpoint, pretrained, quantize
from glassformer.checkpoint import Checkpoint
from glassformer.config import RunSettings
from glassformer.data import datasets
from glassformer.data.batch import pad
from glassformer.data.batching import TokenBatches
from glassformer.data.sentences import sentences
from glassformer.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from glassformer.decode.packed import attend_with_few_queries, keep_half, pack
from glassformer.decode.replay import Speaker, record
from glassformer.decode.search import Hypothesis, SearchOptions, force_decode, search, stream
from glassformer.errors import CheckpointError, DataError, InputError
from glassformer.machine import give_back_memory
from glassformer.model.build import Model, build
from glassformer.model.classifier import TransformerClassifier
from glassformer.model.init import Unset
from glassformer.model.stack import Stack
from glassformer.model.transformer import LanguageModel, Transformer
from glassformer.quantize import SCALE, is_quantised

OF_N_BEST = ("prefixes", "batch_tokens", "truncate", "first")  # no options of the search itself
BATCH_TOKENS = 4_096  # cells of a batch, each hypothesis of a beam counted
UNFINISHED = "\N{REPLACEMENT CHARACTER}"  # a character spelt in bytes of which more may come
Ids = list[int]
Texts = list[str] | tuple[str, ...]  # not any sequence: a string is one of strings
T = TypeVar("T")


@dataclass(frozen=True)
class Translation:
    """One answer of a translator or generator."""

    text: str
    score: float  # what answers are ranked by: the log-probability over the length penalty
    log_probability: float
    ids: Ids
    complete: bool = True  # False: cut off at its greatest length before the end


class Translator:
    """A translator with its subwords, or an ensemble of them that share their subwords."""

    def __init__(
        self,
        model: Transformer | Sequence[Transformer],
        tokenizers: dict[str, Tokenizer],
        settings: RunSettings,
    ) -> None:
        self.models = list(model) if isinstance(model, Sequence) else [model]
        for one in self.models:
            one.eval()
        self.settings = settings
        self.source_tokenizer = tokenizers.get("joint") or tokenizers["source"]
        self.target_tokenizer = tokenizers.get("joint") or tokenizers["target"]

    @property
    def model(self) -> Transformer:
        return self.models[0]

    @property
    def tokenizer(self) -> Tokenizer:
        return self.source_tokenizer

    @property
    def max_length(self) -> int:
        """Subwords of the longest source that it takes: what it was trained on."""
        return _longest(self.settings, *(model.encoder for model in self.models))

    @property
    def target_room(self) -> int | None:
        """Subwords of the longest target that it has positions for; None: any number."""
        return min(_room(model.decoder for model in self.models), default=None)

    def options(self, **changes: Any) -> SearchOptions:
        """How to search: as the settings of the model have it, with `changes`."""
        return SearchOptions(**{**self.settings.search.model_dump(), **changes})

    def inputs(self, source: str, target: str) -> tuple[Tensor, Tensor]:
        """What the model reads when it is made to say `target` to `source`."""
        (x,), (y,) = self.source_tokenizer.encode([source]), self.target_tokenizer.encode([target])
        return pad([[*x, EOS]]), pad([[BOS, *y]])

    @overload
    def translate(
        self, text: str, beam_size: int = 5, *, split: bool = False, **options: Any
    ) -> str: ...
    @overload
    def translate(
        self, text: Texts, beam_size: int = 5, *, split: bool = False, **options: Any
    ) -> list[str]: ...
    def translate(
        self, text: str | Texts, beam_size: int = 5, *, split: bool = False, **options: Any
    ) -> str | list[str]:
        """One text or many, answers in the order of the questions.

        `split` cuts each text into sentences and joins their translations. `options` are those of
        `SearchOptions` and of `n_best`, to which a sentence that was cut out is a text of its own.
        """
        texts = [text] if isinstance(text, str) else list(text)
        parts = [sentences(one) if split else [one] for one in texts]
        rest = {name: options.pop(name) for name in OF_N_BEST if name in options}
        asked = _for_one(self.options(beam_size=beam_size, **options))
        found = iter(self.n_best([part for one in parts for part in one], asked, **rest))
        answers = [" ".join(filter(None, (next(found)[0].text for _ in one))) for one in parts]
        return answers[0] if isinstance(text, str) else answers

    def n_best(
        self,
        texts: Sequence[str],
        options: SearchOptions,
        prefixes: Sequence[str] | None = None,
        *,
        batch_tokens: int = BATCH_TOKENS,
        truncate: bool = False,
        first: int = 0,
    ) -> list[list[Translation]]:
        """For each text the best translations, the best first; an empty text has an empty one.

        Of those that are searched for, no two read alike: a list may be shorter than `n_best`.
        `prefixes` are what each translation must begin with. `truncate` cuts texts that are longer
        than the model was trained for; without it they are refused. `first` is the number of the
        first text among all: what is drawn at random for a text depends on the seed and its number.
        """
        sources = _read(self.source_tokenizer, texts, self.max_length, truncate)
        given = [""] * len(texts) if prefixes is None else prefixes
        begun = _begun(self.target_tokenizer, given, "prefix")
        _check_counts(texts, begun, "prefixes")

        def answer(indices: Ids) -> list[list[Translation]]:
            source = pad([[*sources[i], EOS] for i in indices])
            begin = [begun[i] for i in indices]
            numbers = [first + i for i in indices]
            found = search(self.models, source, BOS, EOS, options, begin, numbers)
            return [_translations(self.target_tokenizer, one, options) for one in found]

        nothing = [Translation("", 0.0, 0.0, [])]
        return _in_batches(sources, batch_tokens // options.width, answer, nothing)

    def score(
        self,
        texts: Sequence[str],
        targets: Sequence[str | Ids],
        *,
        batch_tokens: int = BATCH_TOKENS,
        truncate: bool = False,
    ) -> list[tuple[float, int]]:
        """The log-probability of each target as the translation of its text, and its length.

        Both count the mark of the end. A target is a text, or the ids of a `Translation`: a model
        may spell a text in other subwords than the tokenizer would.
        """
        sources = _read(self.source_tokenizer, texts, self.max_length, truncate)
        wanted = self.target_ids(targets)
        _check_counts(texts, wanted, "targets")

        def answer(indices: Ids) -> list[tuple[float, int]]:
            source = pad([[*sources[i], EOS] for i in indices])
            target = pad([[*wanted[i], EOS] for i in indices])
            said = force_decode(self.models, source, target, BOS).double()
            said = said.masked_fill(target == PAD, 0.0)
            return [
                (float(s), len(wanted[i]) + 1) for s, i in zip(said.sum(1), indices, strict=True)
            ]

        pairs = [[*x, EOS, *y] for x, y in zip(sources, wanted, strict=True)]
        return _in_batches(pairs, batch_tokens, answer, (0.0, 0))

    def target_ids(self, targets: Sequence[str | Ids]) -> list[Ids]:
        """The ids of targets to be scored; those that there are no positions for are refused."""
        _check_list(targets)
        spelt = iter(self.target_tokenizer.encode([t for t in targets if isinstance(t, str)]))
        wanted = [next(spelt) if isinstance(target, str) else target for target in targets]
        room = self.target_room
        over = [n for n, ids in enumerate(wanted, 1) if room is not None and len(ids) > room]
        if over:
            raise DataError(
                f"{len(over):,} of {len(wanted):,} targets have more than {room} subwords.",
                "The model has learned no more positions. "
                f"The first is target {over[0]:,}: {targets[over[0] - 1][:40]!r}…",
                "Leave them out, with their texts.",
            )
        return wanted

    def stream(
        self, text: str, *, truncate: bool = False, number: int = 0, **options: Any
    ) -> Iterator[str]:
        """The translation piece by piece as it is made; greedy unless `sample` is asked for.

        `number` is that of the text among others, as `first` of `n_best` counts them.
        """
        (source,) = _read(self.source_tokenizer, [text], self.max_length, truncate)
        if source:
            asked = SearchOptions(**{"beam_size": 1, **options})
            tokens = stream(self.models, pad([[*source, EOS]]), BOS, EOS, asked, number=number)
            yield from _growing(self.target_tokenizer, [], tokens)


class Generator:
    """A language model with its subwords: goes on from a prompt."""

    def __init__(
        self, model: LanguageModel, tokenizers: dict[str, Tokenizer], settings: RunSettings
    ) -> None:
        self.model, self.settings = model.eval(), settings
        self.tokenizer = next(iter(tokenizers.values()))

    @overload
    def generate(self, prompt: str = "", **options: Any) -> str: ...
    @overload
    def generate(self, prompt: Texts, **options: Any) -> list[str]: ...
    def generate(self, prompt: str | Texts = "", **options: Any) -> str | list[str]:
        """The prompt and what follows it, drawn at random unless `sample=False`."""
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        asked = _for_one(_to_generate(options))
        texts = [found[0].text for found in self.n_best(prompts, asked)]
        return texts[0] if isinstance(prompt, str) else texts

    def n_best(
        self,
        prompts: Sequence[str],
        options: SearchOptions,
        *,
        batch_tokens: int = BATCH_TOKENS,
        first: int = 0,
    ) -> list[list[Translation]]:
        """For each prompt the answers, the best first; `first` is the first one's number."""
        begun = _begun(self.tokenizer, prompts, "prompt")

        def answer(indices: Ids) -> list[list[Translation]]:
            begin, numbers = [begun[i] for i in indices], [first + i for i in indices]
            found = search(self.model, None, BOS, EOS, options, begin, numbers)
            return [_translations(self.tokenizer, one, options) for one in found]

        rows = [[BOS, *ids] for ids in begun]
        return _in_batches(rows, batch_tokens // options.width, answer, [])

    def stream(self, prompt: str = "", *, number: int = 0, **options: Any) -> Iterator[str]:
        """What follows the prompt, piece by piece as it is made."""
        (begun,) = _begun(self.tokenizer, [prompt], "prompt")
        tokens = stream(self.model, None, BOS, EOS, _to_generate(options), begun, number)
        return _growing(self.tokenizer, begun, tokens)


def _to_generate(options: dict[str, Any]) -> SearchOptions:
    return SearchOptions(**{"sample": True, "beam_size": 1, "max_length": 256, **options})


def _for_one(options: SearchOptions) -> SearchOptions:
    """`options`, unless they ask for answers that would be passed over."""
    if options.n_best > 1:
        raise InputError(
            f"n_best = {options.n_best} was given where a text has one answer.",
            "The others would be passed over.",
            "Call n_best([text], SearchOptions(…)) for all of them, or leave n_best out.",
        )
    return options


@dataclass(frozen=True)
class Classification:
    """The likeliest label of a text, and the probabilities of all."""

    label: str
    probability: float
    probabilities: dict[str, float]


class Classifier:
    """A classifier with its subwords and labels.

    Where its training text has codes for labels, `labels` are what they mean; `spellings` gives the
    label for either, so that examples may have codes or words.
    """

    def __init__(
        self,
        model: TransformerClassifier,
        tokenizers: dict[str, Tokenizer],
        settings: RunSettings,
    ) -> None:
        self.model, self.settings = model.eval(), settings
        self.tokenizer = next(iter(tokenizers.values()))
        classes = range(settings.model.n_classes)
        codes = settings.data.labels or tuple(str(c) for c in classes)
        meanings = _meanings(settings.data.name)
        self.labels = tuple(meanings.get(code, code) for code in codes)
        self.spellings = dict(zip((*self.labels, *codes), self.labels * 2, strict=True))

    @property
    def max_length(self) -> int:
        """Subwords of the longest text that it takes: what it was trained on."""
        return _longest(self.settings, self.model.encoder)

    @overload
    def classify(
        self, text: str, *, batch_tokens: int = BATCH_TOKENS, truncate: bool = False
    ) -> Classification: ...
    @overload
    def classify(
        self, text: Texts, *, batch_tokens: int = BATCH_TOKENS, truncate: bool = False
    ) -> list[Classification]: ...
    @torch.inference_mode()
    def classify(
        self,
        text: str | Texts,
        *,
        batch_tokens: int = BATCH_TOKENS,
        truncate: bool = False,
    ) -> Classification | list[Classification]:
        """One text or many, answers in the order of the questions."""
        texts = [text] if isinstance(text, str) else list(text)
        read = _read(self.tokenizer, texts, self.max_length, truncate)
        rows = [[BOS, *ids] for ids in read]

        def answer(indices: Ids) -> list[Classification]:
            logits = self.model(pad([rows[i] for i in indices]))
            return [self._classification(row) for row in logits.softmax(-1).tolist()]

        nothing = Classification("", 0.0, {})  # never given: every row holds a mark
        answers = _in_batches(rows, batch_tokens, answer, nothing)
        return answers[0] if isinstance(text, str) else answers

    def _classification(self, probabilities: list[float]) -> Classification:
        by_label = dict(zip(self.labels, probabilities, strict=True))
        label = max(by_label, key=by_label.__getitem__)
        return Classification(label, by_label[label], by_label)


def _meanings(name: str) -> dict[str, str]:
    """What the labels of a named set mean, if they are codes."""
    return (datasets.manifest(name).labels or {}) if name in datasets.names() else {}


def _room(stacks: Iterable[Stack]) -> list[int]:
    """Subwords that fit beside a mark, for each that has a table of positions."""
    tables = (stack.positions.longest for stack in stacks)
    return [longest - 1 for longest in tables if longest is not None]


def _longest(settings: RunSettings, *readers: Stack) -> int:
    return min([settings.data.max_length, *_room(readers)])


def _check_list(texts: object) -> None:
    if isinstance(texts, str):
        raise InputError(
            f"One text was given where a list of texts is needed: {texts[:40]!r}.",
            "It would be read as a list of its letters.",
            "Give a list: [text].",
        )


def _begun(tokenizer: Tokenizer, texts: Sequence[str], what: str) -> list[Ids]:
    """The ids of what answers begin with, to the letter."""
    _check_list(texts)
    rows = tokenizer.encode(texts)
    for text, ids in zip(texts, rows, strict=True):
        if UNK in ids:
            spans = zip(ids, tokenizer.spans(text), strict=True)
            unknown = ", ".join(repr(text[a:b]) for token, (a, b) in spans if token == UNK)
            raise InputError(
                f"The {what} {text[:40]!r} cannot be spelt.",
                f"No subword of the model has {unknown}, and an answer must begin with it.",
                f"Leave that out of the {what}.",
            )
    return rows


def _read(tokenizer: Tokenizer, texts: Sequence[str], longest: int, truncate: bool) -> list[Ids]:
    """The ids of each text, none of them longer than the model was trained for."""
    _check_list(texts)
    rows = tokenizer.encode(texts)
    for number, ids in enumerate(rows):
        if len(ids) > longest and not truncate:
            where = f"Text {number + 1} of {len(rows)}" if len(rows) > 1 else "The text"
            raise DataError(
                f"{where} has {len(ids):,} subwords: {texts[number][:40]!r}…",
                f"The model was trained on texts of up to {longest}; beyond that it is untested.",
                "Give it in shorter pieces (a translator splits: split=True, --split), or cut it: "
                "truncate=True, --truncate.",
            )
    return [ids[:longest] for ids in rows]


def _check_counts(texts: Sequence[str], others: Sequence[Ids], what: str) -> None:
    if len(texts) != len(others):
        raise InputError(
            f"{len(texts)} texts were given with {len(others)} {what}.",
            "Each text has one of its own.",
            f"Give as many {what} as texts; an empty one where there is none.",
        )


def _in_batches(
    rows: Sequence[Ids], budget: int, answer: Callable[[Ids], list[T]], nothing: T
) -> list[T]:
    """`answer` for rows of like length together, in their order; `nothing` for empty ones."""
    answers = [nothing] * len(rows)
    full = np.array([i for i, row in enumerate(rows) if row], np.int64)
    lengths = np.array([[len(rows[i])] for i in full]).reshape(-1, 1)
    for chosen in TokenBatches(lengths, max(budget, 1)).epoch(0, shuffle=False):
        indices = full[chosen].tolist()
        for i, one in zip(indices, answer(indices), strict=True):
            answers[i] = one
    return answers


def _translations(
    tokenizer: Tokenizer, hypotheses: list[Hypothesis], options: SearchOptions
) -> list[Translation]:
    """In their order; of those that spell one text, the best alone, unless they are drawn."""
    found = [
        Translation(tokenizer.decode(h.ids), h.score, h.log_probability, h.ids, h.complete)
        for h in hypotheses
    ]
    if options.sample:
        return found
    best: dict[str, Translation] = {}
    for one in found:
        best.setdefault(one.text, one)
    return list(best.values())


def _growing(tokenizer: Tokenizer, begun: Ids, tokens: Iterator[int]) -> Iterator[str]:
    """What each token adds to the text. Decoded whole: a subword's text hangs on its neighbours."""
    ids, text = list(begun), tokenizer.decode(begun)
    shown = len(text)
    for token in tokens:
        ids.append(token)
        text = tokenizer.decode(ids)
        if len(text) > shown and not text.endswith(UNFINISHED):
            yield text[shown:]
            shown = len(text)
    if len(text) > shown:
        yield text[shown:]


Pipeline = Translator | Classifier | Generator


def load(
    model: str | Path | Sequence[str | Path], int8: bool = False
) -> Translator | Classifier | Generator:
    """The model of a run or of one of its checkpoints: a run's best, or its latest.

    What is no path that is there may be a model that comes with the package: `en-fr`, `sentiment`.
    Several translators with the same subwords are an ensemble. `int8` makes it smaller and faster;
    a checkpoint that was saved quantised is so anyhow.
    """
    if not isinstance(model, str | Path):
        return _ensemble([load(one, int8) for one in model])
    saved = checkpoint.read(checkpoint.find(pretrained.resolve(model)))
    if not saved.tokenizers:
        raise CheckpointError(
            f"{model} holds a {saved.settings.model.kind} for {saved.settings.data.name!r}.",
            "It reads symbols of a made-up task, not text, and has no subwords.",
            "Name the run of a translator, a classifier or a language model of text.",
        )
    built = ready(saved, int8)
    if isinstance(built, Transformer):
        return Translator(built, saved.tokenizers, saved.settings)
    if isinstance(built, TransformerClassifier):
        return Classifier(built, saved.tokenizers, saved.settings)
    if isinstance(built, LanguageModel):
        return Generator(built, saved.tokenizers, saved.settings)
    raise CheckpointError(
        f"{model} holds a {saved.settings.model.kind}.",
        "Translators, classifiers and language models can be called; this is none of them.",
        "Start a classifier from its encoder: train.start_from; or load its weights by hand.",
    )


def load_translator(model: str | Path | Sequence[str | Path], int8: bool = False) -> Translator:
    """`load`, where nothing but a translator will do."""
    return _of_kind(load(model, int8), Translator, model, "translator")


def load_classifier(model: str | Path, int8: bool = False) -> Classifier:
    """`load`, where nothing but a classifier will do."""
    return _of_kind(load(model, int8), Classifier, model, "classifier")


def load_generator(model: str | Path, int8: bool = False) -> Generator:
    """`load`, where nothing but a language model will do."""
    return _of_kind(load(model, int8), Generator, model, "language model")


def _of_kind(loaded: Pipeline, wanted: type[T], name: object, what: str) -> T:
    if isinstance(loaded, wanted):
        return loaded
    kind = loaded.settings.model.kind
    verb = {"translator": "translate", "classifier": "classify"}.get(kind, "generate")
    raise CheckpointError(
        f"{name} holds a {kind}, not a {what}.",
        f"What it can do is {verb}.",
        f"Name the run of a {what}.",
    )


def ready(saved: Checkpoint, int8: bool = False) -> Model:
    """The checkpoint's model, laid out for inference one layer after the other.

    The model begins without values, and the weights are mapped from their file, so that no more
    than one layer is in memory in two forms.
    """
    with Unset():
        model = build(saved.settings.model)
    weights, names = saved.weights, checkpoint.stored_names(model)
    if is_quantised(weights) and not quantize.is_available():
        weights = quantize.dequantise_weights(weights)
    shapes = {name: tuple(weights[name].shape) for name in weights if not name.endswith(SCALE)}
    checkpoint.check_shapes(model, shapes)

    def fill(module: nn.Module, name: str) -> None:
        for own, _ in module.named_parameters(recurse=False):
            stored = names[f"{name}.{own}"]
            setattr(module, own, nn.Parameter(weights[stored], requires_grad=False))
            if stored + SCALE in weights:
                module.row_scale = weights[stored + SCALE]

    if int8 or is_quantised(weights):
        quantize.quantize(model, fill)
        attend_with_few_queries(model)
        keep_half(model)
    else:
        pack(model, fill)
    for name, module in model.named_modules():  # norms, positions: what is neither linear nor large
        fill(module, name)
        for parameter in module.parameters(recurse=False):
            parameter.data = parameter.data.clone()  # the file is let go
    give_back_memory()
    if isinstance(model, Speaker):
        record(model)
    return model.eval()


def _ensemble(members: Sequence[Translator | Classifier | Generator]) -> Translator:
    if not members:
        raise InputError(
            "An ensemble of no models was asked for.",
            "There is nothing that could answer.",
            "Name at least one run.",
        )
    translators = [member for member in members if isinstance(member, Translator)]
    if len(translators) != len(members):
        raise CheckpointError(
            "An ensemble was asked for of something else than translators.",
            "The probabilities of translators are what is averaged.",
            "Name runs of translators only.",
        )
    first = translators[0]
    sides = ("source_tokenizer", "target_tokenizer")
    for other in translators[1:]:
        if any(getattr(first, s).fingerprint != getattr(other, s).fingerprint for s in sides):
            raise CheckpointError(
                "The translators of the ensemble have different subwords.",
                "They must say the same tokens for their probabilities to be averaged.",
                "Train them on one data set with one vocabulary: the same [data] settings.",
            )
    tokenizers = {"source": first.source_tokenizer, "target": first.target_tokenizer}
    shortest = min(translators, key=lambda translator: translator.max_length)
    return Translator([t.model for t in translators], tokenizers, shortest.settings)
