"""Translation of whole texts through the queue: sentences are its items."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassformer.decode.options import SearchOptions
from glassformer.pipeline import Translation, Translator
from glassformer.pipeline.layout import Layout
from glassformer.serve.batches import Batcher
from glassformer.serve.markup import Document
from glassformer.serve.models import Served

Item = tuple[str, str]  # a sentence and its target language


@dataclass(frozen=True)
class Translated:
    """A text in the other language, best first."""

    text: str
    alternatives: tuple[str, ...] = ()


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
    translator = served.pipeline
    assert isinstance(translator, Translator)
    layout = translator.layout(texts, split=True, to=to)

    def compute(items: list[Item]) -> list[list[Translation]]:
        sentences, languages = [one for one, _ in items], [language for _, language in items]
        return translator.n_best(sentences, options, to=languages, unit="sentence")

    def with_items(items: list[Item]) -> list[str]:
        beam = options.beam_size
        return [translator.translate(sentence, beam, to=language) for sentence, language in items]

    async def run(kind: Callable[[list[Item]], Sequence[Any]], sentences: Sequence[str]) -> Any:
        items = [(sentence, to) for sentence in sentences]
        return await batcher.run((served.name, options, kind.__name__), kind, items)

    found: list[list[Translation]] = await run(compute, layout.sentences)
    lost = layout.lost([best.text for best, *_ in found])
    # The translator knows how to keep the items of such a sentence; it has one answer.
    again = await run(with_items, [layout.protected[i].source for i in lost])
    for i, text in zip(lost, again, strict=True):
        layout.protected[i] = layout.protected[i].without_masks()
        found[i] = [Translation(text, 0.0, 0.0, [])]
    ranked = [_joined(layout, found, rank) for rank in range(options.n_best)]
    return [
        Translated(best, tuple(dict.fromkeys(one for one in others if one != best)))
        for best, *others in zip(*ranked, strict=True)
    ]


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
