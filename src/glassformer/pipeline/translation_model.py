"""The parts of a translator: its models, its tokenizers and its directions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from glassformer.config import RunSettings
from glassformer.data.direction import GUESSED, from_language, guess_target, targets, tokenizers_for
from glassformer.data.tokenizer import Tokenizer
from glassformer.data.typography import normalize
from glassformer.decode.decoder import Decoder
from glassformer.decode.options import SearchOptions
from glassformer.errors import DataError, InputError
from glassformer.pipeline.batches import (
    Ids,
    check_counts,
    check_list,
    encode_prefixes,
    fit_sources,
    max_source,
)
from glassformer.pipeline.engines import has_torch_module, torch_module
from glassformer.pipeline.options import SearchKeywords, Unpack

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.model.transformer import Transformer


class TranslationModel:
    """Models with the same tokenizers, and the ids that they read and are compared with."""

    def __init__(
        self,
        decoders: Decoder | Sequence[Decoder],
        tokenizers: dict[str, Tokenizer],
        settings: RunSettings,
        int8: bool = False,
        to: str | None = None,
    ) -> None:
        self.decoders = list(decoders) if isinstance(decoders, Sequence) else [decoders]
        self.tokenizers, self.settings, self.int8 = tokenizers, settings, int8
        self.target_tokenizer = tokenizers.get("joint") or tokenizers["target"]
        self.source_tokenizers = self._source_tokenizers()
        self.to = to
        if to is not None:
            self.check_target(to)

    def _source_tokenizers(self) -> dict[str, Tokenizer]:
        """Return the tokenizer of the source for each target language."""
        data = self.settings.data
        if data.directions == "forward" and not data.typography:
            plain = self.tokenizers.get("joint") or self.tokenizers["source"]
            return {data.target_language: plain}
        return {to: tokenizers_for(data, self.tokenizers, to)["source"] for to in self.targets}

    @property
    def targets(self) -> tuple[str, ...]:
        """The languages that the model translates into, the main one first."""
        return targets(self.settings.data)

    @property
    def source_tokenizer(self) -> Tokenizer:
        """The tokenizer of the source in the direction `to`, or else in the main one."""
        return self.source_tokenizers[self.to or self.targets[0]]

    def towards(self, to: str | None) -> Self:
        """Return this translator with `to` as the target language of all its methods."""
        return type(self)(self.decoders, self.tokenizers, self.settings, self.int8, to)

    def check_target(self, to: str) -> None:
        """Refuse a target language that the model was not trained on."""
        if to not in self.targets:
            pairs = [f"{from_language(self.settings.data, one)} to {one}" for one in self.targets]
            raise InputError(
                f"The model does not translate into {to!r}.",
                f"It was trained to translate {' and '.join(pairs)}.",
                f"Choose {' or '.join(map(repr, self.targets))}, or leave it out.",
            )

    def target_languages(
        self, texts: Sequence[str], to: str | Sequence[str] | None = None
    ) -> list[str]:
        """Return the target language of each text: that of `to`, or guessed from the text."""
        to = self.to if to is None else to
        if to is not None and not isinstance(to, str):
            check_counts(texts, to, "target languages")
            for language in set(to):
                self.check_target(language)
            return list(to)
        if to is not None:
            self.check_target(to)
        elif len(self.targets) == 1:
            to = self.targets[0]
        elif set(self.targets) != GUESSED:
            raise InputError(
                "The target language is not given.",
                f"It can be guessed from English and French; this model has {self.targets}.",
                f"Say which: to={self.targets[0]!r}, --to {self.targets[0]}.",
            )
        return [to or guess_target(self.settings.data, text) for text in texts]

    def plain(self, text: str, language: str) -> str:
        """Return `text` in the typography of the training text: normalised, or as it is."""
        return normalize(text, language) if self.settings.data.typography else text

    @property
    def models(self) -> "list[Transformer]":
        """The torch models; only with `engine="torch"`."""
        return [torch_module(decoder) for decoder in self.decoders]

    @property
    def model(self) -> "Transformer":
        """The torch model, of an ensemble the first; only with `engine="torch"`."""
        return self.models[0]

    @property
    def tokenizer(self) -> Tokenizer:
        return self.source_tokenizer

    @property
    def max_length(self) -> int:
        """Subwords of the longest source that it was trained on."""
        return max_source(self.settings)

    @property
    def max_target_length(self) -> int | None:
        """Subwords of the longest target that it has positions for; None: any number."""
        tables = [decoder.max_target for decoder in self.decoders]
        return min((longest - 1 for longest in tables if longest is not None), default=None)

    def options(
        self, beam_size: int = 5, n_best: int = 1, **search: Unpack[SearchKeywords]
    ) -> SearchOptions:
        """Return the options of a search: those of the model's settings, with these changes."""
        own = self.settings.search.model_dump()
        return SearchOptions(**{**own, "beam_size": beam_size, "n_best": n_best, **search})

    def inputs(self, source: str, target: str) -> "tuple[Tensor, Tensor]":
        """Return the source ids and the decoder's input ids for a forced `target`."""
        from glassformer.data.batch import pad

        (x,), (y,) = self.source_tokenizer.encode([source]), self.target_tokenizer.encode([target])
        start = self.target_tokenizer.bos_id
        rows = [self.source_tokenizer.source(x)], [[start, *y]]
        source_ids, target_ids = (pad(side, self.settings.model.pad_id) for side in rows)
        if not has_torch_module(self.decoders[0]):
            return source_ids, target_ids
        device = next(self.model.parameters()).device
        return source_ids.to(device), target_ids.to(device)

    def source_ids(
        self, texts: Sequence[str], to: Sequence[str], truncate: bool, unit: str = "text"
    ) -> list[Ids]:
        """Return the source ids of each text, with the tag of its target language."""
        rows: list[Ids] = [[] for _ in texts]
        for language, tokenizer in self.source_tokenizers.items():
            indices = [i for i, one in enumerate(to) if one == language]
            encoded = tokenizer.encode([texts[i] for i in indices])
            for i, ids in zip(indices, encoded, strict=True):
                rows[i] = ids
        return fit_sources(rows, texts, self.max_length, truncate, unit)

    def prefix_ids(
        self, texts: Sequence[str], prefixes: Sequence[str] | None, to: Sequence[str]
    ) -> list[Ids]:
        if prefixes is None:
            return [[] for _ in texts]
        check_list(prefixes, "prefix")
        check_counts(texts, prefixes, "prefixes")
        pairs = zip(prefixes, to, strict=True)
        given = [self.plain(prefix, language) for prefix, language in pairs]
        return encode_prefixes(self.target_tokenizer, given, "prefix")

    def target_ids(self, targets: Sequence[str | Ids]) -> list[Ids]:
        """Return the ids of targets to be scored; refuse more tokens than learned positions."""
        check_list(targets)
        encoded = iter(self.target_tokenizer.encode([t for t in targets if isinstance(t, str)]))
        wanted = [next(encoded) if isinstance(target, str) else target for target in targets]
        longest = self.max_target_length
        over = [n for n, ids in enumerate(wanted, 1) if longest is not None and len(ids) > longest]
        if over:
            raise DataError(
                f"{len(over):,} of {len(wanted):,} targets have more than {longest} subwords.",
                "The model has learned no more positions. "
                f"The first is target {over[0]:,}: {targets[over[0] - 1][:40]!r}…",
                "Leave them out, with their texts.",
            )
        return wanted

    def closed(self, ids: Ids) -> Ids:
        """Return source ids with their marks."""
        return self.source_tokenizer.source(ids)

    @property
    def marks(self) -> tuple[int, int]:
        """The marks of the beginning and the end of a target."""
        return self.target_tokenizer.bos_id, self.target_tokenizer.eos_id
