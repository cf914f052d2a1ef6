"""Evaluate a translator or a classifier on examples: run it, score it, and keep all of it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console

from glassformer.data.corpus import Corpus, TextFiles
from glassformer.data.direction import from_language
from glassformer.errors import InputError
from glassformer.evaluate import translation
from glassformer.evaluate.beams import WIDTHS, BeamComparison, compare_beams
from glassformer.evaluate.card import Circumstances, Sheet, as_text, markdown, show
from glassformer.evaluate.classification import (
    ClassificationCard,
    Predictions,
    classification_card,
    classify,
)
from glassformer.evaluate.examples import Examples, check_fit, chunks_by_length
from glassformer.evaluate.failures import FailureReport, analyse
from glassformer.evaluate.html import sheet_html
from glassformer.evaluate.labels import word_counts
from glassformer.evaluate.moses import as_published
from glassformer.evaluate.translation import (
    TranslationCard,
    Translations,
    perplexity,
    search_settings,
    translation_card,
)
from glassformer.machine import machine
from glassformer.pipeline import Classifier, Translator
from glassformer.progress import Watch, silent

WIDTH = 110  # columns of the tables; signatures and checksums are longer


@dataclass(frozen=True)
class Evaluation:
    """The scores of a model on examples, its outputs, and what else was asked for.

    `scores` are the main figures by name; `card` holds all of them, with the settings, the machine
    and the checksums of the data.
    """

    card: TranslationCard | ClassificationCard
    outputs: list[str]  # translations or labels, in the order of the examples
    beams: BeamComparison | None = None
    failures: FailureReport | None = None

    @property
    def scores(self) -> dict[str, float]:
        """BLEU, chrF, perplexity, share of exact matches; or accuracy, macro F1, log loss."""
        card = self.card
        if isinstance(card, ClassificationCard):
            return {
                "accuracy": card.accuracy.value,
                "macro_f1": card.macro_f1,
                "log_loss": card.log_loss,
                "calibration_error": card.calibration_error,
            }
        return {
            "bleu": card.bleu.value,
            "chrf": card.chrf.value,
            "perplexity": card.perplexity,
            "exact_match": card.exact_match,
        }

    @cached_property
    def sheets(self) -> list[Sheet]:
        """The tables, for a terminal, Markdown or a notebook."""
        found = [self.card.sheet()]
        if self.beams is not None:
            found.append(self.beams.sheet())
        if self.failures is not None:
            found.append(self.failures.sheet())
        return found

    def to_json(self) -> dict[str, Any]:
        """Return everything but the outputs, ready for `json.dumps`."""
        found = self.card.to_json()
        if self.beams is not None:
            found["beams"] = asdict(self.beams)
        if self.failures is not None:
            found["failures"] = self.failures.to_dict()
        return found

    def to_markdown(self) -> str:
        return "\n".join(map(markdown, self.sheets))

    def show(self, console: Console) -> None:
        """Print the tables."""
        for sheet in self.sheets:
            show(sheet, console)

    def __str__(self) -> str:
        return as_text(self.show, WIDTH)

    def _repr_html_(self) -> str:
        return "\n".join(map(sheet_html, self.sheets))


@dataclass(frozen=True)
class How:
    """How a model is run, and who watches."""

    name: str  # of the model, on the card
    command: str  # that is quoted on the card
    batch_tokens: int
    truncate: bool
    threads: int | None
    watch: Watch

    def circumstances(
        self, examples: Examples, settings: dict[str, Any], done: Translations | Predictions
    ) -> Circumstances:
        return Circumstances(
            command=self.command,
            model=self.name,
            checksums=examples.checksums,
            settings=settings,
            machine=machine(self.threads),
            seconds=done.seconds,
            peak_memory=done.peak_memory,
        )

    def settings(self, int8: bool) -> dict[str, Any]:
        """Return the settings on a card; threads are among the figures of the machine."""
        return {"int8": int8, "batch_tokens": self.batch_tokens, "truncate": self.truncate}


@dataclass(frozen=True)
class Tokens:
    """How output becomes tokens beside references that are tokenised."""

    is_tokenised: bool = False  # the output is made of tokens already
    language: str | None = None  # of Moses' rules otherwise; None: the target language


def languages_of(translator: Translator) -> tuple[str, str]:
    """Return the source and target language of a translator in its current direction."""
    to = translator.to or translator.targets[0]
    return from_language(translator.settings.data, to), to


@dataclass(frozen=True)
class Sides:
    """The texts of the examples of a translator, normalised as its training text was."""

    sources: list[str]
    every: list[list[str]]  # the references of each source
    tokenised: list[str] | None

    @classmethod
    def of(cls, translator: Translator, examples: Examples) -> "Sides":
        plain, (source, to) = translator.plain, languages_of(translator)
        wanted = [row[1:] if examples.several else row[1:2] for row in examples.rows]
        tokenised = [row[2] for row in examples.rows if len(row) > 2 and not examples.several]
        return cls(
            [plain(row[0], source) for row in examples.rows],
            [[plain(reference, to) for reference in row] for row in wanted],
            tokenised or None,
        )

    @property
    def references(self) -> list[str]:
        """The first reference of each source."""
        return [row[0] for row in self.every]

    @property
    def spread(self) -> str:
        """How many references a source has."""
        fewest, most = min(map(len, self.every)), max(map(len, self.every))
        return f"{fewest}" if fewest == most else f"{fewest} to {most}"


def evaluate_translator(
    translator: Translator,
    examples: Examples,
    how: How,
    search: dict[str, Any],
    tokens: Tokens | None = None,
) -> Evaluation:
    """Translate the sources and score the output by BLEU, chrF, perplexity and exact matches."""
    tokens = tokens or Tokens()
    sides, to = Sides.of(translator, examples), languages_of(translator)[1]
    sources, references = sides.sources, sides.references
    options = translator.options(**search)
    language = None if tokens.is_tokenised else tokens.language or to
    if sides.tokenised is None and (tokens.is_tokenised or tokens.language):
        given = "tokenised-output" if tokens.is_tokenised else "language"
        raise InputError(
            f"--{given} goes with tokenised references only.",
            "Without them the output is compared as text.",
            f"Give tokenised references, or leave {given.replace('-', '_')} out.",
        )
    if sides.tokenised and language:
        as_published(sources[:1], language)  # a missing package stops here, before the work
    if not how.truncate:
        check_fit(sources, translator.source_tokenizer, translator.max_length)
    translator.target_ids(references)  # refuse what is too long for perplexity before the work
    run: dict[str, Any] = {"batch_tokens": how.batch_tokens, "truncate": how.truncate}
    with how.watch("translating", len(chunks_by_length(sources))) as tick:
        found = translation.translate_all(translator, sources, options, **run, tick=tick)
    settings = search_settings(options) | how.settings(translator.int8)
    settings |= _about(translator, examples, sides, tokens)
    card = translation_card(
        found,
        sides.every if examples.several else references,
        perplexity(translator, sources, references, **run),
        how.circumstances(examples, settings, found),
        sides.tokenised,
        language,
    )
    return Evaluation(card, found.texts)


def _about(
    translator: Translator, examples: Examples, sides: Sides, tokens: Tokens
) -> dict[str, Any]:
    """Return settings that a card names only where they are not as usual."""
    about: dict[str, Any] = {}
    to = languages_of(translator)[1]
    if len(translator.targets) > 1:
        about["to"] = to
    if translator.settings.data.typography:
        about["typography"] = "normalised in sources, output and references"
    if examples.several:
        about["references"] = f"{sides.spread} a sentence; perplexity of the first"
    if sides.tokenised:
        language = None if tokens.is_tokenised else tokens.language or to
        about |= {"tokenised output": tokens.is_tokenised, "tokenised as": language}
    return about


def with_beams(
    found: Evaluation,
    translator: Translator,
    examples: Examples,
    how: How,
    search: dict[str, Any],
) -> Evaluation:
    """Add the comparison of beam sizes."""
    sides = Sides.of(translator, examples)
    options = {name: value for name, value in search.items() if name != "beam_size"}
    options |= {"batch_tokens": how.batch_tokens, "truncate": how.truncate}
    with how.watch("comparing beams", len(WIDTHS)) as tick:
        compared = compare_beams(translator, sides.sources, sides.references, tick=tick, **options)
    return replace(found, beams=compared)


def with_failures(
    found: Evaluation,
    translator: Translator,
    examples: Examples,
    worst: int,
    training_text: Path | None = None,
    attention: bool = True,
) -> Evaluation:
    """Add the analysis of failures.

    `training_text` is the target side of the training text, which tells rare words. `attention`
    needs a translator with the torch model.
    """
    sides, counts = Sides.of(translator, examples), None
    if training_text is not None:
        text = Corpus(TextFiles((training_text,), format="lines"), skip_bad=True)
        counts = word_counts(line for (line,) in text)
    sources, references = sides.sources, sides.references
    report = analyse(
        translator, sources, references, found.outputs, worst, counts, attention=attention
    )
    return replace(found, failures=report)


def evaluate_classifier(
    classifier: Classifier, examples: Examples, how: How, notice: Callable[[str], None] = silent
) -> Evaluation:
    """Classify the texts and score the labels by accuracy, F1, log loss and calibration."""
    texts = [row[0] for row in examples.rows]
    truth = [classifier.spellings[row[1]] for row in examples.rows]
    if not how.truncate:
        check_fit(texts, classifier.tokenizer, classifier.max_length)
    with how.watch("classifying", len(chunks_by_length(texts))) as tick:
        answers = classify(
            classifier, texts, batch_tokens=how.batch_tokens, truncate=how.truncate, tick=tick
        )
    if answers.cut:
        notice(
            f"cut to {classifier.max_length:,} subwords: {answers.cut:,} of {len(texts):,} texts"
        )
    around = how.circumstances(examples, how.settings(classifier.int8), answers)
    card = classification_card(answers, truth, around)
    return Evaluation(card, [answers.labels[i] for i in answers.best])
