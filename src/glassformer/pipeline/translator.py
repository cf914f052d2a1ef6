"""Translation: text in one language to text in another."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from glassformer.config import RunSettings
from glassformer.data.sentences import sentences
from glassformer.data.tokenizer import BOS, EOS, Tokenizer
from glassformer.decode.decoder import Decoder
from glassformer.decode.options import SearchOptions
from glassformer.decode.search import force_decode, search, stream, total
from glassformer.errors import DataError
from glassformer.pipeline.batches import (
    BATCH_TOKENS,
    Ids,
    Texts,
    Translation,
    check_counts,
    check_list,
    encode_prefixes,
    encode_sources,
    in_batches,
    max_source,
    pieces_of,
    translations,
)
from glassformer.pipeline.engines import torch_module
from glassformer.pipeline.options import SearchKeywords, Unpack, one_answer

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.model.transformer import Transformer

__all__ = ["Translation", "Translator"]


class Translator:
    """A translator with its tokenizers, or an ensemble of translators with the same tokenizers."""

    def __init__(
        self,
        decoders: Decoder | Sequence[Decoder],
        tokenizers: dict[str, Tokenizer],
        settings: RunSettings,
        int8: bool = False,
    ) -> None:
        self.decoders = list(decoders) if isinstance(decoders, Sequence) else [decoders]
        self.settings, self.int8 = settings, int8
        self.source_tokenizer = tokenizers.get("joint") or tokenizers["source"]
        self.target_tokenizer = tokenizers.get("joint") or tokenizers["target"]

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
    def target_room(self) -> int | None:
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
        """Return what the torch model reads when it is forced to produce `target`."""
        from glassformer.data.batch import pad

        (x,), (y,) = self.source_tokenizer.encode([source]), self.target_tokenizer.encode([target])
        return pad([[*x, EOS]]), pad([[BOS, *y]])

    @overload
    def translate(
        self,
        text: str,
        beam_size: int = 5,
        *,
        split: bool = False,
        prefixes: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        truncate: bool = False,
        first: int = 0,
        **search: Unpack[SearchKeywords],
    ) -> str: ...
    @overload
    def translate(
        self,
        text: Texts,
        beam_size: int = 5,
        *,
        split: bool = False,
        prefixes: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        truncate: bool = False,
        first: int = 0,
        **search: Unpack[SearchKeywords],
    ) -> list[str]: ...
    def translate(
        self,
        text: str | Texts,
        beam_size: int = 5,
        *,
        split: bool = False,
        prefixes: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        truncate: bool = False,
        first: int = 0,
        **search: Unpack[SearchKeywords],
    ) -> str | list[str]:
        """Translate one text or many; return the translations in the order of the texts.

        `split` cuts each text into sentences and joins their translations; to `prefixes` and
        `first` each of these sentences is a text of its own. The other options are those of
        `n_best` and of `SearchOptions`.
        """
        texts = [text] if isinstance(text, str) else list(text)
        parts = [sentences(one) if split else [one] for one in texts]
        found = iter(
            self.n_best(
                [part for one in parts for part in one],
                one_answer(self.options(beam_size, **search)),
                prefixes,
                batch_tokens=batch_tokens,
                truncate=truncate,
                first=first,
            )
        )
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
        """Return the best translations of each text, best first; an empty text has an empty one.

        Translations found by a search have different texts, so a list may be shorter than `n_best`.
        Each translation begins with its prefix. `truncate` cuts texts that are longer than the
        model was trained on; without it they are refused. `first` is the number of the first text:
        samples of a text depend on the seed and its number, not on the batch.
        """
        sources = encode_sources(self.source_tokenizer, texts, self.max_length, truncate)
        given = [""] * len(texts) if prefixes is None else prefixes
        begin = encode_prefixes(self.target_tokenizer, given, "prefix")
        check_counts(texts, begin, "prefixes")

        def answer(indices: Ids) -> list[list[Translation]]:
            batch = [[*sources[i], EOS] for i in indices]
            numbers = [first + i for i in indices]
            found = search(
                self.decoders, batch, BOS, EOS, options, [begin[i] for i in indices], numbers
            )
            return [translations(self.target_tokenizer, one, options) for one in found]

        empty = [Translation("", 0.0, 0.0, [])]
        return in_batches(sources, batch_tokens // options.width, answer, empty)

    def score(
        self,
        texts: Sequence[str],
        targets: Sequence[str | Ids],
        *,
        batch_tokens: int = BATCH_TOKENS,
        truncate: bool = False,
    ) -> list[tuple[float, int]]:
        """Return the log-probability of each target given its text, and its length in tokens.

        Both include the end mark. A target is a text, or the ids of a `Translation`: a model may
        spell a text with other subwords than the tokenizer does.
        """
        sources = encode_sources(self.source_tokenizer, texts, self.max_length, truncate)
        wanted = self.target_ids(targets)
        check_counts(texts, wanted, "targets")

        def answer(indices: Ids) -> list[tuple[float, int]]:
            batch = [[*sources[i], EOS] for i in indices]
            forced = [[*wanted[i], EOS] for i in indices]
            found = force_decode(self.decoders, batch, forced, BOS)
            return [(total(of_tokens), len(of_tokens)) for of_tokens in found]

        pairs = [[*x, EOS, *y] for x, y in zip(sources, wanted, strict=True)]
        return in_batches(pairs, batch_tokens, answer, (0.0, 0))

    def target_ids(self, targets: Sequence[str | Ids]) -> list[Ids]:
        """Return the ids of targets to be scored; refuse more tokens than learned positions."""
        check_list(targets)
        encoded = iter(self.target_tokenizer.encode([t for t in targets if isinstance(t, str)]))
        wanted = [next(encoded) if isinstance(target, str) else target for target in targets]
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
        self,
        text: str,
        *,
        truncate: bool = False,
        number: int = 0,
        beam_size: int = 1,
        **search: Unpack[SearchKeywords],
    ) -> Iterator[str]:
        """Yield the translation piece by piece as it is decoded, greedily or with `sample=True`.

        `number` is the number of the text among others, as `first` of `n_best` counts them.
        """
        (source,) = encode_sources(self.source_tokenizer, [text], self.max_length, truncate)
        if source:
            options = SearchOptions(beam_size=beam_size, **search)
            tokens = stream(self.decoders, [*source, EOS], BOS, EOS, options, number=number)
            yield from pieces_of(self.target_tokenizer, [], tokens)
