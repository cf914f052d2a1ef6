"""Translation: text in one language to text in another."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, overload

from glassformer.data.direction import GUESSED, is_written_in
from glassformer.data.typography import typeset as typeset_text
from glassformer.data.typography import typeset_pieces
from glassformer.decode.options import SearchOptions
from glassformer.decode.search import force_decode, search, stream, total
from glassformer.errors import InputError
from glassformer.pipeline.batches import (
    BATCH_TOKENS,
    Ids,
    Texts,
    Translation,
    check_counts,
    check_list,
    in_batches,
    pieces_of,
    translations,
)
from glassformer.pipeline.layout import Layout, rewrap, wrap_spaces
from glassformer.pipeline.memory import answer_within_memory, search_bytes
from glassformer.pipeline.options import SearchKeywords, TranslateKeywords, Unpack, one_answer
from glassformer.pipeline.protect import Protected, has_words
from glassformer.pipeline.translation_model import TranslationModel

__all__ = ["Translation", "Translator"]


class Translator(TranslationModel):
    """A translator with its tokenizers, or an ensemble of translators with the same tokenizers.

    A model trained with `data.directions = "both"` translates into two languages. Its methods take
    the target language as `to`; None is `self.to`, or a guess from each text.
    """

    @overload
    def translate(
        self, text: str, beam_size: int = 5, **options: Unpack[TranslateKeywords]
    ) -> str: ...
    @overload
    def translate(
        self, text: Texts, beam_size: int = 5, **options: Unpack[TranslateKeywords]
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
        """Return the sentences of `texts`; those already in the target language stay."""
        check_list(texts)
        to = to or self.to
        if to is not None:
            self.check_target(to)
        if self.tokenizer.is_foreign:  # not trained on masks in place of items
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
        translation, with all of them. A word that is copied is translated in small letters, in case
        its capital is that of a sentence.
        """
        how: dict[str, Any] = {"batch_tokens": batch_tokens, "truncate": truncate}
        how |= {"typeset": typeset, "unit": layout.unit}
        languages = layout.of_each_sentence(to)
        found = self._search(layout.sentences, languages, options, prefixes, first=first, **how)
        for i in layout.copied([best.text for best, *_ in found]):
            (found[i],) = self._search(
                [layout.lower(i)], [languages[i]], options, first=first + i, **how
            )
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
        sources = self.source_ids(texts, to, truncate, unit)
        begin = self.prefix_ids(texts, prefixes, to)
        given = [""] * len(texts) if prefixes is None else prefixes

        def answer(indices: Ids) -> list[list[Translation]]:
            batch = [self.closed(sources[i]) for i in indices]
            numbers = [first + i for i in indices]
            found = search(
                self.decoders, batch, *self.marks, options, [begin[i] for i in indices], numbers
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
        sources = self.source_ids(texts, languages, truncate)
        check_list(targets)
        check_counts(texts, targets, "targets")
        pairs = zip(targets, languages, strict=True)
        wanted = self.target_ids(
            [self.plain(y, language) if isinstance(y, str) else y for y, language in pairs]
        )

        def answer(indices: Ids) -> list[tuple[float, int]]:
            bos, eos = self.marks
            batch = [self.closed(sources[i]) for i in indices]
            forced = [[*wanted[i], eos] for i in indices]
            found = force_decode(self.decoders, batch, forced, bos)
            return [(total(of_tokens), len(of_tokens)) for of_tokens in found]

        lengths = [[*self.closed(x), *y] for x, y in zip(sources, wanted, strict=True)]
        return in_batches(lengths, batch_tokens, answer, (0.0, 0))

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
        sources = self.source_ids(sentences, [language] * len(sentences), truncate, layout.unit)
        options = SearchOptions(beam_size=beam_size, **search)
        gaps = layout.segments[0].gaps if layout.segments else ("", "")
        for i, (sentence, source) in enumerate(zip(layout.protected, sources, strict=True)):
            yield from filter(None, gaps[i : i + 1])
            if not source:
                continue
            pieces = self._stream(source, options, number + i)
            if sentence.is_word:  # a copy is only known at the end
                whole = "".join(pieces)
                pieces = iter([whole])
                if whole == sentence.text:
                    again = self.source_ids([layout.lower(i)], [language], truncate, layout.unit)
                    pieces = self._stream(again[0], options, number + i)
            if sentence.items:  # a lost item is only known at the end
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
            pieces = sentence.restore_pieces(pieces)
            yield from rewrap(sentence.source, pieces) if split else pieces
        yield from filter(None, gaps[-1:])

    def _stream(self, source: Ids, options: SearchOptions, number: int) -> Iterator[str]:
        closed = self.closed(source)
        tokens = stream(self.decoders, closed, *self.marks, options, number=number)
        return pieces_of(self.target_tokenizer, [], tokens)


def typeset_after(prefix: str, text: str, language: str) -> str:
    """Typeset what follows `prefix` in `text`; the prefix stays as it was given."""
    if not text:  # the answer to an empty text
        return text
    last = prefix[-1:] if prefix[-1:].isalnum() else ""  # decides the typesetting of what follows
    return prefix + typeset_text(last + text[len(prefix) :], language)[len(last) :]
