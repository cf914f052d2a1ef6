"""The models that are served: by name, each loaded once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from glassformer import pretrained
from glassformer.data.direction import GUESSED, from_language
from glassformer.errors import did_you_mean
from glassformer.pipeline import Classifier, Embedder, Generator, Pipeline, Translator, load
from glassformer.serve.refusals import SHOWN, RequestError

T = TypeVar("T", Translator, Classifier, Generator, Embedder)
KINDS = {
    Translator: "translator",
    Classifier: "classifier",
    Generator: "language model",
    Embedder: "embedder",
}


@dataclass(frozen=True, eq=False)
class Served:
    """A model and the name that requests have for it. Requests never name a path."""

    name: str
    place: Path  # of its run or checkpoint
    pipeline: Pipeline

    @property
    def kind(self) -> str:
        return KINDS[type(self.pipeline)]

    @property
    def directions(self) -> list[tuple[str, str]]:
        """Source and target language of each direction of a translator."""
        if not isinstance(self.pipeline, Translator):
            return []
        data = self.pipeline.settings.data
        return [(from_language(data, to), to) for to in self.pipeline.targets]


class Models:
    """All models of a server, in the order in which they were named."""

    def __init__(
        self, models: Sequence[str], int8: bool | None = None, threads: int | None = None
    ) -> None:
        self.by_name: dict[str, Served] = {}
        for model in models:
            place = pretrained.resolve(model)
            name = self._free_name(place.resolve().name)
            self.by_name[name] = Served(name, place, load(model, int8, threads=threads))

    def _free_name(self, name: str) -> str:
        """Return the name of the folder, with a number if another model has it."""
        names = (name, *(f"{name}-{number}" for number in range(2, len(self.by_name) + 3)))
        return next(one for one in names if one not in self.by_name)

    def warm_up(self) -> None:
        """Let each model answer once, which loads its compiled code."""
        for one in self:
            match one.pipeline:
                case Translator():
                    one.pipeline.translate("a", to=one.pipeline.targets[0], max_length=2)
                case Classifier():
                    one.pipeline.classify("a")
                case Generator():
                    one.pipeline.generate("", max_length=2)
                case Embedder():
                    one.pipeline.embed("a")

    def __iter__(self) -> Iterator[Served]:
        return iter(self.by_name.values())

    def named(self, name: str) -> Served:
        if name not in self.by_name:
            raise RequestError(
                404,
                f"No model is served under the name {name[:SHOWN]!r}.",
                f"This server has {', '.join(self.by_name)}.",
                did_you_mean(name[:SHOWN], self.by_name, "GET /v1/models lists them."),
            )
        return self.by_name[name]

    def of_kind(self, kind: type[T], name: str | None) -> tuple[Served, T]:
        """Return the model of this name, or the first of the kind."""
        wanted = KINDS[kind]
        all_ = [one for one in self if isinstance(one.pipeline, kind)]
        if name is None and not all_:
            raise RequestError(
                404,
                f"No {wanted} is served.",
                f"This server has {', '.join(f'{one.name} ({one.kind})' for one in self)}.",
                f"Start it with the run of one: glassformer serve --model RUN of {_a(wanted)}.",
            )
        found = all_[0] if name is None else self.named(name)
        if not isinstance(found.pipeline, kind):
            others = ", ".join(one.name for one in all_) or "none"
            raise RequestError(
                422,
                f"The model {found.name!r} is {_a(found.kind)}, not {_a(wanted)}.",
                f"This request is for {_a(wanted)}; of these the server has: {others}.",
                "Name one of them, or leave the model out.",
            )
        return found, found.pipeline

    def languages(self) -> dict[str, list[str]]:
        """Return the targets of each source language."""
        found: dict[str, list[str]] = {}
        for one in self:
            for source, target in one.directions:
                targets = found.setdefault(source, [])
                targets += [] if target in targets else [target]
        return found

    def can_detect(self) -> bool:
        """Return whether all source languages are among those that can be told apart."""
        return bool(sources := set(self.languages())) and sources <= GUESSED

    def translator(self, source: str, target: str, name: str | None) -> tuple[Served, Translator]:
        """Return the first translator of a direction, or the one that is named."""
        candidates = [self.of_kind(Translator, name)[0]] if name is not None else list(self)
        for one in candidates:
            if (source, target) in one.directions and isinstance(one.pipeline, Translator):
                return one, one.pipeline
        pairs = [f"{a} to {b}" for one in candidates for a, b in one.directions]
        raise RequestError(
            422,
            f"There is no translator from {source[:SHOWN]!r} to {target[:SHOWN]!r}.",
            f"This server translates {', '.join(dict.fromkeys(pairs)) or 'nothing'}.",
            "Choose one of these directions: GET /languages lists them.",
        )


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
