"""Translation: text in one language to text in another."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

from glassformer.config import RunSettings
from glassformer.data.direction import (
    from_language,
    guess_target,
    is_written_in,
    targets,
    tokenizers_for,
)
from glassformer.data.sentences import is_wrapped, wrap_like
from glassformer.data.tokenizer import Tokenizer
from glassformer.data.typography import normalize, typeset_pieces
from glassformer.data.typography import typeset as typeset_text
from glassformer.decode.decoder import Decoder
from glassformer.decode.options import SearchOptions
from glassformer.decode.search import force_decode, search, stream, total
from glassformer.errors import DataError, InputError
from glassformer.pipeline.batches import (
    BATCH_TOKENS,
    Ids,
    Texts,
    Translation,
    check_counts,
    check_list,
    encode_prefixes,
    fit_sources,
    in_batches,
    max_source,
    pieces_of,
    translations,
)
from glassformer.pipeline.engines import has_torch_module, torch_module
from glassformer.pipeline.layout import Layout
from glassformer.pipeline.memory import answer_within_memory, search_bytes
from glassformer.pipeline.options import SearchKeywords, Unpack, one_answer
from glassformer.pipeline.protect import Protected, has_words

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.model.transformer import Transformer

__all__ = ["Translation", "Translator"]

GUESSED = {"en", "fr"}  # languages that `guess_target` can tell apart


class Translator:
    """A translator with its tokenizers, or an ensemble of translators with the same tokenizers.

    A model trained with `data.directions = "both"` translates into two languages. Its methods take
    the target language as `to`; None is `self.to`, or a guess from each text.
    """

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

    def towards(self, to: str | None) -> "Translator":
        """Return this translator with `to` as the target language of all its methods."""
        return Translator(self.decoders, self.tokenizers, self.settings, self.int8, to)

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

    def _encode(
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
        start = self.target_tokenizer.bos_id
        rows = [self.source_tokenizer.source(x)], [[start, *y]]
        source_ids, target_ids = (pad(side, self.settings.model.pad_id) for side in rows)
        if not has_torch_module(self.decoders[0]):
            return source_ids, target_ids
        device = next(self.model.parameters()).device
        return source_ids.to(device), target_ids.to(device)

    @overload
    def translate(
        self,
        text: str,
        beam_size: int = 5,
        *,
        to: str | None = None,
        split: bool | None = None,
        typeset: bool = True,
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
        to: str | None = None,
        split: bool | None = None,
        typeset: bool = True,
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
        to: str | None = None,
        split: bool | None = None,
        typeset: bool = True,
        prefixes: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        truncate: bool = False,
        first: int = 0,
        **search: Unpack[SearchKeywords],
    ) -> str | list[str]:
        """Translate one text or many; return the translations in the order of the texts.

        to       the target language. None: guessed from each text if the model has two.
        split    translate each text sentence by sentence and keep its layout. A text without a
                 sentence stays as it is. None: yes, unless there are `prefixes`.
        typeset  set French the way it is printed, if the model was trained with
                 `data.typography`.
        first    the number of the first sentence: see `n_best`, which has the other options.
        """
        texts = [text] if isinstance(text, str) else list(text)
        layout = self.layout(texts, self.splits(split, prefixes), to)
        found = self.in_layout(
            layout,
            self.target_languages(texts, to),
            one_answer(self.options(beam_size, **search)),
            prefixes,
            batch_tokens=batch_tokens,
            truncate=truncate,
            first=first,
            typeset=typeset,
        )
        answers = layout.join([best.text for best, *_ in found])
        return answers[0] if isinstance(text, str) else answers

    def layout(self, texts: Sequence[str], split: bool, to: str | None = None) -> Layout:
        """Return the sentences of `texts`; those that are in the language asked for stay."""
        check_list(texts)
        to = to or self.to
        if to is not None:
            self.check_target(to)
        if self.tokenizer.is_foreign:  # it was not trained on masks in the place of items
            return Layout(texts, split, protects=False)
        if to is None or set(self.targets) != GUESSED:
            return Layout(texts, split)
        return Layout(texts, split, partial(is_written_in, language=to))

    def in_layout(
        self,
        layout: Layout,
        to: Sequence[str],
        options: SearchOptions,
        prefixes: Sequence[str] | None = None,
        *,
        batch_tokens: int = BATCH_TOKENS,
        truncate: bool = False,
        first: int = 0,
        typeset: bool = True,
    ) -> list[list[Translation]]:
        """Return the best translations of each sentence, for `layout.join`.

        `to` has the target language of each text. A sentence whose masked items are lost has one
        translation, with all of them.
        """
        how: dict[str, Any] = {"batch_tokens": batch_tokens, "truncate": truncate}
        how |= {"typeset": typeset, "unit": layout.unit}
        languages = layout.of_each_sentence(to)
        found = self._search(layout.sentences, languages, options, prefixes, first=first, **how)
        for i in layout.lost([best.text for best, *_ in found]):
            found[i] = self._with_items(layout.unmask(i), languages[i], options, first + i, **how)
        return found

    def _with_items(
        self, sentence: Protected, to: str, options: SearchOptions, first: int, **how: Any
    ) -> list[Translation]:
        """Translate a sentence whose masks were lost: with its items in place, or around them."""
        (found,) = self._search([sentence.source], [to], options, first=first, **how)
        if sentence.has_items(found[0].text):
            return found
        around = sentence.around_items()
        texts = [one.text.strip() if has_words(one.text) else "" for one in around]
        parts = self._search(texts, [to] * len(texts), options, first=first, **how)
        best = [part[0] for part in parts]
        filled = [
            wrap_spaces(one.source, one.restore(part.text)) if text else one.source
            for one, text, part in zip(around, texts, best, strict=True)
        ]
        whole = "".join(chain(*zip(filled, [*sentence.items, ""], strict=True)))
        return [
            Translation(
                whole,
                sum(part.score for part in best),
                sum(part.log_probability for part in best),
                [token for part in best for token in part.ids],
                all(part.complete for part in best),
            )
        ]

    def splits(self, split: bool | None, prefixes: object) -> bool:
        """Return whether texts are split; refuse to split texts that have prefixes."""
        if split and prefixes is not None:
            raise InputError(
                "Prefixes were given for texts that are to be split.",
                "A prefix is the start of one translation, and a text may have many sentences.",
                "Leave split out, or translate sentence by sentence.",
            )
        return prefixes is None if split is None else split

    def n_best(
        self,
        texts: Sequence[str],
        options: SearchOptions,
        prefixes: Sequence[str] | None = None,
        *,
        to: str | Sequence[str] | None = None,
        typeset: bool = True,
        batch_tokens: int = BATCH_TOKENS,
        truncate: bool = False,
        first: int = 0,
        unit: str = "text",
    ) -> list[list[Translation]]:
        """Return the best translations of each text, best first; an empty text has an empty one.

        Each text is translated as one sentence. `to` is one target language or one for each text.
        Translations found by a search have different texts, so a list may be shorter than `n_best`.
        Each translation begins with its prefix, letter by letter. `truncate` cuts texts that are
        longer than the model was trained on; without it they are refused. `first` is the number of
        the first text: samples of a text depend on the seed and its number, not on the batch.
        `unit` is what an error calls a text.
        """
        check_list(texts)
        return self._search(
            texts,
            self.target_languages(texts, to),
            options,
            prefixes,
            batch_tokens=batch_tokens,
            truncate=truncate,
            first=first,
            typeset=typeset,
            unit=unit,
        )

    def _search(
        self,
        texts: Sequence[str],
        to: Sequence[str],
        options: SearchOptions,
        prefixes: Sequence[str] | None = None,
        *,
        batch_tokens: int,
        truncate: bool,
        first: int,
        typeset: bool,
        unit: str,
    ) -> list[list[Translation]]:
        sources = self._encode(texts, to, truncate, unit)
        begin = self._encode_prefixes(texts, prefixes, to)
        given = [""] * len(texts) if prefixes is None else prefixes

        def answer(indices: Ids) -> list[list[Translation]]:
            batch = [self._closed(sources[i]) for i in indices]
            numbers = [first + i for i in indices]
            found = search(
                self.decoders, batch, *self._marks, options, [begin[i] for i in indices], numbers
            )
            return [
                translations(self.target_tokenizer, one, options, given[i], begin[i])
                for i, one in zip(indices, found, strict=True)
            ]

        empty = [Translation("", 0.0, 0.0, [])]

        def needs(indices: Ids) -> int:
            lengths = [[len(rows[i]) for i in indices] for rows in (sources, begin)]
            return len(self.decoders) * search_bytes(self.settings.model, options, *lengths)

        within = partial(answer_within_memory, needs=needs, answer=answer)
        answers = in_batches(sources, batch_tokens, within, empty, options.width)
        if not (typeset and self.settings.data.typography):
            return answers
        return [
            [replace(one, text=typeset_after(prefix, one.text, language)) for one in found]
            for found, prefix, language in zip(answers, given, to, strict=True)
        ]

    def _encode_prefixes(
        self, texts: Sequence[str], prefixes: Sequence[str] | None, to: Sequence[str]
    ) -> list[Ids]:
        if prefixes is None:
            return [[] for _ in texts]
        check_list(prefixes, "prefix")
        check_counts(texts, prefixes, "prefixes")
        pairs = zip(prefixes, to, strict=True)
        given = [self.plain(prefix, language) for prefix, language in pairs]
        return encode_prefixes(self.target_tokenizer, given, "prefix")

    def score(
        self,
        texts: Sequence[str],
        targets: Sequence[str | Ids],
        *,
        to: str | Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        truncate: bool = False,
    ) -> list[tuple[float, int]]:
        """Return the log-probability of each target given its text, and its length in tokens.

        Both include the end mark. A target is a text, or the ids of a `Translation`: a model may
        spell a text with other subwords than the tokenizer does.
        """
        check_list(texts)
        languages = self.target_languages(texts, to)
        sources = self._encode(texts, languages, truncate)
        check_list(targets)
        check_counts(texts, targets, "targets")
        pairs = zip(targets, languages, strict=True)
        wanted = self.target_ids(
            [self.plain(y, language) if isinstance(y, str) else y for y, language in pairs]
        )

        def answer(indices: Ids) -> list[tuple[float, int]]:
            bos, eos = self._marks
            batch = [self._closed(sources[i]) for i in indices]
            forced = [[*wanted[i], eos] for i in indices]
            found = force_decode(self.decoders, batch, forced, bos)
            return [(total(of_tokens), len(of_tokens)) for of_tokens in found]

        lengths = [[*self._closed(x), *y] for x, y in zip(sources, wanted, strict=True)]
        return in_batches(lengths, batch_tokens, answer, (0.0, 0))

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
        to: str | None = None,
        split: bool = True,
        typeset: bool = True,
        truncate: bool = False,
        number: int = 0,
        beam_size: int = 1,
        **search: Unpack[SearchKeywords],
    ) -> Iterator[str]:
        """Yield the translation piece by piece as it is decoded, greedily or with `sample=True`.

        Joined, the pieces are what `translate` returns with these options. A sentence with items
        that are copied, such as addresses, is yielded as a whole. `number` is the number
        of the first sentence among others, as `first` of `n_best` counts them.
        """
        (language,) = self.target_languages([text], to)
        layout = self.layout([text], split, to)
        sentences = layout.sentences
        sources = self._encode(sentences, [language] * len(sentences), truncate, layout.unit)
        options = SearchOptions(beam_size=beam_size, **search)
        gaps = layout.segments[0].gaps if layout.segments else ("", "")
        for i, (sentence, source) in enumerate(zip(layout.protected, sources, strict=True)):
            yield from filter(None, gaps[i : i + 1])
            if not source:
                continue
            pieces = self._stream(source, options, number + i)
            if sentence.items:  # whether all are kept is known at the end
                whole = "".join(pieces)
                pieces = iter([whole])
                if not sentence.kept(whole):
                    how: dict[str, Any] = {"batch_tokens": BATCH_TOKENS, "truncate": truncate}
                    how |= {"typeset": typeset, "unit": layout.unit}
                    best, *_ = self._with_items(sentence, language, options, number + i, **how)
                    yield from rewrap(sentence.source, [best.text]) if split else [best.text]
                    continue
            if typeset and self.settings.data.typography:
                pieces = typeset_pieces(pieces, language)
            pieces = map(sentence.restore, pieces)
            yield from rewrap(sentence.source, pieces) if split else pieces
        yield from filter(None, gaps[-1:])

    def _closed(self, ids: Ids) -> Ids:
        return self.source_tokenizer.source(ids)

    @property
    def _marks(self) -> tuple[int, int]:
        """The marks of the beginning and the end of a target."""
        return self.target_tokenizer.bos_id, self.target_tokenizer.eos_id

    def _stream(self, source: Ids, options: SearchOptions, number: int) -> Iterator[str]:
        closed = self._closed(source)
        tokens = stream(self.decoders, closed, *self._marks, options, number=number)
        return pieces_of(self.target_tokenizer, [], tokens)


def typeset_after(prefix: str, text: str, language: str) -> str:
    """Typeset what follows `prefix` in `text`; the prefix stays as it was given."""
    if not text:  # the answer to an empty text
        return text
    last = prefix[-1:] if prefix[-1:].isalnum() else ""  # decides how what follows is set
    return prefix + typeset_text(last + text[len(prefix) :], language)[len(last) :]


def wrap_spaces(source: str, text: str) -> str:
    """Return `text` with the white space that `source` begins and ends with."""
    begin, end = len(source) - len(source.lstrip()), len(source.rstrip())
    return source[:begin] + text + source[end:]


def rewrap(sentence: str, pieces: Iterable[str]) -> Iterator[str]:
    """Yield `pieces`, or all of them as one if the lines of `sentence` are wrapped."""
    if not is_wrapped(sentence):
        yield from pieces
    elif text := "".join(pieces):
        yield wrap_like(sentence, text)
