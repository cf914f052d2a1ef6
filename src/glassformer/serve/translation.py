"""Translation of whole texts through the queue: sentences are its items."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassformer.data.sentences import wrap_like
from glassformer.decode.options import SearchOptions
from glassformer.pipeline import Translation, Translator
from glassformer.pipeline.layout import Layout
from glassformer.serve.batches import MAX_BATCH, Batcher
from glassformer.serve.markup import Document
from glassformer.serve.models import Served

Item = tuple[str, str]  # a sentence and its target language


@dataclass(frozen=True)
class Translated:
    """A text in the other language, best first."""

    text: str
    alternatives: tuple[str, ...] = ()


class Sentences:
    """The sentences of texts, translated through the queue."""

    def __init__(
        self,
        batcher: Batcher,
        served: Served,
        texts: Sequence[str],
        to: str,
        options: SearchOptions,
    ) -> None:
        assert isinstance(served.pipeline, Translator)
        self.batcher, self.name, self.to, self.options = batcher, served.name, to, options
        self.translator = served.pipeline
        self.layout = self.translator.layout(texts, split=True, to=to)

    async def ranked(self, numbers: Sequence[int]) -> list[list[Translation]]:
        """Return the best translations of these sentences, best first."""
        protected = self.layout.protected
        found = await self._run(self._n_best, [protected[n].text for n in numbers])
        pairs = zip(numbers, found, strict=True)
        lost = [
            i
            for i, (n, (best, *_)) in enumerate(pairs)
            if protected[n].items and not protected[n].kept(best.text)
        ]
        # The translator knows how to keep the items of such a sentence; it has one answer.
        again = await self._run(self._with_items, [protected[numbers[i]].source for i in lost])
        for i, text in zip(lost, again, strict=True):
            protected[numbers[i]] = protected[numbers[i]].without_masks()
            found[i] = [Translation(text, 0.0, 0.0, [])]
        return found

    async def _run(self, compute: Callable[[list[Item]], Sequence[Any]], texts: list[str]) -> Any:
        key = self.name, self.options, compute.__name__
        return await self.batcher.run(key, compute, [(text, self.to) for text in texts])

    def _n_best(self, items: list[Item]) -> list[list[Translation]]:
        texts, languages = [one for one, _ in items], [language for _, language in items]
        return self.translator.n_best(texts, self.options, to=languages, unit="sentence")

    def _with_items(self, items: list[Item]) -> list[str]:
        beam = self.options.beam_size
        return [self.translator.translate(text, beam, to=language) for text, language in items]


async def translate(
    batcher: Batcher,
    served: Served,
    texts: Sequence[str],
    to: str,
    options: SearchOptions,
) -> list[Translated]:
    """Translate texts sentence by sentence; equal to `Translator.translate` to the letter.

    Alternative k of a text joins the k-th best translations of its sentences. A sentence that has
    fewer gives its last one.
    """
    sentences = Sentences(batcher, served, texts, to, options)
    layout = sentences.layout
    found = await sentences.ranked(range(len(layout.protected)))
    ranked = [_joined(layout, found, rank) for rank in range(options.n_best)]
    return [
        Translated(best, tuple(dict.fromkeys(one for one in others if one != best)))
        for best, *others in zip(*ranked, strict=True)
    ]


async def stream(
    batcher: Batcher, served: Served, text: str, to: str, options: SearchOptions
) -> AsyncIterator[str]:
    """Yield the translation of a text by sentences; joined it is what `translate` returns.

    The first sentence is translated alone, so that it comes soon; then each part is twice as long
    as the one before, because many sentences together take less time.
    """
    sentences = Sentences(batcher, served, [text], to, options)
    layout = sentences.layout
    assert layout.segments is not None
    (segments,) = layout.segments
    first, size, count = 0, 1, len(segments.sentences)
    if segments.gaps[0]:
        yield segments.gaps[0]
    while first < count:
        part = range(first, min(first + size, count))
        for n, (best, *_) in zip(part, await sentences.ranked(part), strict=True):
            restored = layout.protected[n].restore(best.text)
            yield wrap_like(segments.sentences[n], restored) + segments.gaps[n + 1]
        first, size = part.stop, min(2 * size, MAX_BATCH)


def _joined(layout: Layout, found: list[list[Translation]], rank: int) -> list[str]:
    """Return the texts made of the translations of this rank; one that lost an item is not used."""
    chosen = [one[min(rank, len(one) - 1)].text for one in found]
    pairs = zip(chosen, layout.protected, found, strict=True)
    kept = [text if masks.kept(text) else best[0].text for text, masks, best in pairs]
    return layout.join(kept)


async def translate_html(
    batcher: Batcher, served: Served, pages: Sequence[str], to: str, options: SearchOptions
) -> list[Translated]:
    """Translate the text of HTML; every tag stays. There are no alternatives."""
    options = replace(options, n_best=1)
    documents = [Document(page) for page in pages]
    runs = [run for document in documents for run in document.runs]
    wholes = {i: whole for i, run in enumerate(runs) if (whole := run.whole) is not None}
    found = await translate(batcher, served, [*wholes.values()], to, options)
    html = {i: runs[i].from_whole(one.text) for i, one in zip(wholes, found, strict=True)}
    apart = [i for i in range(len(runs)) if html.get(i) is None]
    texts = [text for i in apart for text in runs[i].texts]
    answers = iter(await translate(batcher, served, texts, to, options))
    for i in apart:
        html[i] = runs[i].from_texts([next(answers).text for _ in runs[i].texts])
    ordered = iter(html[i] or "" for i in range(len(runs)))
    return [Translated(one.join([next(ordered) for _ in one.runs])) for one in documents]
