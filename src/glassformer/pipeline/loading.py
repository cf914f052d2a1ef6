"""Load a run, a checkpoint or a bundled model as something that takes and gives text."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

from glassformer import pretrained
from glassformer.checkpoint.format import Checkpoint, read
from glassformer.checkpoint.run_folder import find
from glassformer.data.direction import tags
from glassformer.errors import CheckpointError, InputError
from glassformer.pipeline.classifier import Classifier
from glassformer.pipeline.embedder import Embedder
from glassformer.pipeline.engines import Engine, inference_model, ngram_votes
from glassformer.pipeline.generator import Generator
from glassformer.pipeline.translator import Translator
from glassformer.quantize import is_quantised

__all__ = [
    "Engine",
    "Pipeline",
    "inference_model",
    "load",
    "load_classifier",
    "load_embedder",
    "load_generator",
    "load_translator",
]

Pipeline = Translator | Classifier | Generator | Embedder
Name = str | Path
T = TypeVar("T")

PIPELINES: dict[str, Any] = {
    "translator": Translator,
    "classifier": Classifier,
    "language-model": Generator,
    "embedder": Embedder,
}


class LoadKeywords(TypedDict, total=False):
    """Options of `load`, which explains them."""

    engine: Engine
    threads: int | None
    device: str


def load(
    model: Name | Sequence[Name],
    int8: bool | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
    device: str = "cpu",
) -> Pipeline:
    """Load the model of a run (its best or latest checkpoint), of a checkpoint, or a bundled one.

    `model` is a folder, or the name of a bundled model such as `en-fr`. Several translators
    with the same tokenizers are an ensemble.

    int8     None: as the checkpoint is stored. True: quantise the weights, which makes the model
             smaller and faster. False: compute in fp32.
    engine   "compiled", which "auto" takes: fast, without torch. "torch": the readable model, whose
             modules `.model` gives access to; it computes in fp32.
    threads  of the processor, at most. None: as many as the process may use.
    device   "cpu", "cuda", "cuda:1" or "mps"; "auto": CUDA, else MPS, else the CPU. Elsewhere than
             on the CPU the torch model runs, in fp32.
    """
    if not isinstance(model, str | Path):
        return _ensemble([load(one, int8, engine, threads, device) for one in model])
    saved = read(find(pretrained.resolve(model)))
    kind = saved.settings.model.kind
    if not saved.tokenizers:
        raise CheckpointError(
            f"{model} holds a {kind} for {saved.settings.data.name!r}.",
            "It was trained on symbols of a synthetic task, and has no subwords.",
            "Name the run of a translator, a classifier or a language model of text.",
        )
    if kind not in PIPELINES:
        raise CheckpointError(
            f"{model} holds a {kind}.",
            "Translators, classifiers, embedders and language models can be called; not this one.",
            "Start a classifier from its encoder: train.start_from; or load its weights by hand.",
        )
    _check_text(str(model), saved)
    runs = inference_model(saved, int8, engine, threads, device)
    in_eight_bits = is_quantised(saved.weights) if int8 is None else int8
    votes = {"votes": ngram_votes(saved, int8)} if kind == "classifier" else {}
    loaded: Pipeline = PIPELINES[kind](
        runs, saved.tokenizers, saved.settings, in_eight_bits, **votes
    )
    return loaded


def _check_text(name: str, saved: Checkpoint) -> None:
    """Refuse tokenizers and labels that do not go with the model."""
    for problem in _mismatches(saved):
        raise CheckpointError(
            f"The parts of {name} do not go together: {problem}.",
            "A model answers with the subwords and labels that it was trained with.",
            "Use another checkpoint of the run, or copy this one again from its origin.",
        )


def _mismatches(saved: Checkpoint) -> Iterator[str]:
    model, data, sides = saved.settings.model, saved.settings.data, saved.tokenizers
    if sides.keys() not in ({"joint"}, {"source", "target"}):
        yield f"its subwords are {' and '.join(sorted(sides))}, not joint, or source and target"
    for side, tokenizer in sides.items():
        own = model.source_vocab_size if side == "source" else None
        if len(tokenizer) != (own or model.vocab_size):
            expected = own or model.vocab_size
            yield (
                f"{side}{tokenizer.file_type} has {len(tokenizer):,} subwords, "
                f"the model {expected:,}"
            )
    for padding in {tokenizer.pad_id for tokenizer in sides.values()} - {model.pad_id}:
        yield f"model.pad_id is {model.pad_id}, and the padding of subwords is {padding}"
    labels = data.labels if model.kind == "classifier" else ()
    if labels and not len(labels) == len(set(labels)) == model.n_classes:
        yield f"it has {len(set(labels)):,} different labels, the model {model.n_classes:,}"
    if model.kind == "translator":
        source = sides.get("joint") or sides["source"]
        yield from (f"the subwords have no tag {t}" for t in tags(data) if not source.has_tag(t))


def load_translator(
    model: Name | Sequence[Name], int8: bool | None = None, **how: Unpack[LoadKeywords]
) -> Translator:
    """Load a translator, as `load` does; refuse other models."""
    return _of_kind(load(model, int8, **how), Translator, model, "translator")


def load_classifier(
    model: Name, int8: bool | None = None, **how: Unpack[LoadKeywords]
) -> Classifier:
    """Load a classifier, as `load` does; refuse other models."""
    return _of_kind(load(model, int8, **how), Classifier, model, "classifier")


def load_generator(model: Name, int8: bool | None = None, **how: Unpack[LoadKeywords]) -> Generator:
    """Load a language model, as `load` does; refuse other models."""
    return _of_kind(load(model, int8, **how), Generator, model, "language model")


def load_embedder(model: Name, int8: bool | None = None, **how: Unpack[LoadKeywords]) -> Embedder:
    """Load an embedder, as `load` does; refuse other models."""
    return _of_kind(load(model, int8, **how), Embedder, model, "model of embeddings")


def _of_kind(loaded: Pipeline, wanted: type[T], name: object, what: str) -> T:
    if isinstance(loaded, wanted):
        return loaded
    kind = loaded.settings.model.kind
    verbs = {"translator": "translate", "classifier": "classify", "embedder": "embed"}
    verb = verbs.get(kind, "generate")
    raise CheckpointError(
        f"{name} holds a {kind}, not a {what}.",
        f"A {kind} can only {verb}.",
        f"Name the run of a {what}.",
    )


def _ensemble(members: Sequence[Pipeline]) -> Translator:
    if not members:
        raise InputError(
            "An ensemble has no models.",
            "It needs at least one translator.",
            "Name at least one run.",
        )
    translators = [member for member in members if isinstance(member, Translator)]
    if len(translators) != len(members):
        raise CheckpointError(
            "An ensemble has models that are not translators.",
            "An ensemble averages the probabilities of translators.",
            "Name runs of translators only.",
        )
    first = translators[0]
    sides = ("source_tokenizer", "target_tokenizer")
    reading = ("directions", "typography", "source_language", "target_language")
    for other in translators[1:]:
        if any(getattr(first, s).fingerprint != getattr(other, s).fingerprint for s in sides):
            raise CheckpointError(
                "The translators of the ensemble have different subwords.",
                "They must produce the same tokens for their probabilities to be averaged.",
                "Train them on one data set with one vocabulary: the same [data] settings.",
            )
        mine, its = first.settings.data, other.settings.data
        for name in reading:
            if getattr(mine, name) != getattr(its, name):
                raise CheckpointError(
                    f"The translators of the ensemble have different data.{name}: "
                    f"{getattr(mine, name)!r} and {getattr(its, name)!r}.",
                    "They must read the same text in the same way.",
                    f"Name translators that were trained with one data.{name}.",
                )
    decoders = [decoder for translator in translators for decoder in translator.decoders]
    shortest = min(translators, key=lambda translator: translator.max_length)
    in_eight_bits = any(translator.int8 for translator in translators)
    return Translator(decoders, first.tokenizers, shortest.settings, in_eight_bits)
