"""The score card of a translator: BLEU, chrF, perplexity and speed."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import exp
from time import perf_counter
from typing import Any

from glassformer.decode.options import SearchOptions
from glassformer.evaluate.bleu import Bleu, References, Score, bleu_score, chrf_score
from glassformer.evaluate.card import Circumstances, Sheet, Table
from glassformer.evaluate.examples import check_lengths, chunks_by_length
from glassformer.evaluate.moses import as_published
from glassformer.machine import peak_memory
from glassformer.pipeline import Translator

SEARCH = (
    "beam_size", "length_penalty", "min_length", "max_length", "no_repeat_ngram",
    "repetition_penalty",
)  # fmt: skip


@dataclass(frozen=True)
class Translations:
    """The output of a translator with its cost in seconds and bytes, tokenisation included."""

    texts: list[str]
    tokens: int  # output subwords without end tokens
    seconds: float
    peak_memory: int | None


@dataclass(frozen=True)
class TranslationCard:
    sentences: int
    bleu: Bleu  # cased, detokenised
    tokenised_bleu: Bleu | None  # lower-cased, on tokenised references
    chrf: Score
    perplexity: float  # of the references, per subword
    exact_match: float  # share of outputs equal to a reference
    tokens_per_second: float
    sentences_per_second: float
    circumstances: Circumstances

    def to_json(self) -> dict[str, Any]:
        return {"kind": "translation", **asdict(self)}

    def sheet(self) -> Sheet:
        scores: dict[str, Score | None] = {
            "BLEU, cased, detokenised": self.bleu,
            "BLEU, lower-cased, on tokenised references": self.tokenised_bleu,
            "chrF": self.chrf,
        }
        given = {name: score for name, score in scores.items() if score is not None}
        counts = {name: score for name, score in given.items() if isinstance(score, Bleu)}
        tables = [
            Table("scores", ["", "score", "95% interval"], [_row(*s) for s in given.items()]),
            Table(
                "lengths",
                ["", "brevity penalty", "ratio", "tokens", "reference tokens"],
                [_lengths(*score) for score in counts.items()],
            ),
            Table("measured", ["", ""], self._measured()),
            *self.circumstances.tables(),
        ]
        signatures = {name: score.signature for name, score in given.items()}
        quoted = signatures | self.circumstances.quoted()
        return Sheet(f"Translations of {self.circumstances.model}", tables, quoted)

    def _measured(self) -> list[list[str]]:
        return [
            ["sentences", f"{self.sentences:,}"],
            ["perplexity of the references", f"{self.perplexity:,.3f}"],
            ["exact match", f"{self.exact_match:.1%}"],
            ["target subwords/s", f"{self.tokens_per_second:,.0f}"],
            ["sentences/s", f"{self.sentences_per_second:,.1f}"],
            *self.circumstances.cost(),
        ]


def translate_all(
    translator: Translator,
    sources: Sequence[str],
    options: SearchOptions,
    *,
    batch_tokens: int = 4_096,
    truncate: bool = False,
    tick: Callable[[], None] = lambda: None,
) -> Translations:
    """Translate all sources; `tick` is called after each of `chunks_by_length`."""
    run = partial(translator.n_best, typeset=False, batch_tokens=batch_tokens, truncate=truncate)
    run(sources[:1], options)  # warm up
    texts, tokens = [""] * len(sources), 0
    start = perf_counter()
    for chunk in chunks_by_length(sources):
        outputs = run([sources[i] for i in chunk], options)
        for i, (best, *_) in zip(chunk, outputs, strict=True):
            texts[i] = best.text
            tokens += len(best.ids)
        tick()
    return Translations(texts, tokens, perf_counter() - start, peak_memory())


def search_settings(options: SearchOptions) -> dict[str, Any]:
    """Return the search options that a card reports."""
    return {name: getattr(options, name) for name in SEARCH}


def perplexity(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    batch_tokens: int = 4_096,
    truncate: bool = False,
) -> float:
    """Return exp of the mean loss per subword of the references, end tokens included."""
    scored = translator.score(sources, references, batch_tokens=batch_tokens, truncate=truncate)
    log_probabilities, tokens = zip(*scored, strict=True)
    return exp(-sum(log_probabilities) / sum(tokens))


def translation_card(
    translations: Translations,
    references: References,
    perplexity: float,
    circumstances: Circumstances,
    tokenised: Sequence[str] | None = None,
    language: str | None = None,
) -> TranslationCard:
    """Return the card; a sentence has one reference or several.

    `tokenised` are published references, lower-cased and tokenised, in `language`. The output is
    tokenised in the same way, unless `language` is None: then the model outputs tokens.
    """
    texts = translations.texts
    check_lengths(translations=texts, references=references)
    on_tokens = None
    if tokenised is not None:
        check_lengths(translations=texts, tokenised_references=tokenised)
        tokens = texts if language is None else as_published(texts, language)
        on_tokens = bleu_score(tokens, tokenised, tokenised=True)
    return TranslationCard(
        sentences=len(texts),
        bleu=bleu_score(texts, references),
        tokenised_bleu=on_tokens,
        chrf=chrf_score(texts, references),
        perplexity=perplexity,
        exact_match=sum(map(_is_exact, texts, references)) / len(texts),
        tokens_per_second=translations.tokens / translations.seconds,
        sentences_per_second=len(texts) / translations.seconds,
        circumstances=circumstances,
    )


def _is_exact(text: str, references: str | Sequence[str]) -> bool:
    return text == references if isinstance(references, str) else text in references


def _row(name: str, score: Score) -> list[str]:
    return [name, f"{score.value:.2f}", f"{score.low:.2f} – {score.high:.2f}"]


def _lengths(name: str, score: Bleu) -> list[str]:
    return [
        name,
        f"{score.brevity_penalty:.3f}",
        f"{score.length_ratio:.3f}",
        f"{score.length:,}",
        f"{score.reference_length:,}",
    ]
