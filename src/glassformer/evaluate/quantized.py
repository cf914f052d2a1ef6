"""Comparison of a model with its quantised copy on the same examples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.evaluate.bleu import bleu
from glassformer.evaluate.examples import Examples, check_fit, chunks_by_length
from glassformer.pipeline import BATCH_TOKENS, Classifier, Translator
from glassformer.progress import Watch

ALONE = 1  # tokens of a batch that holds one text, however long


@dataclass(frozen=True)
class Comparison:
    """Scores of the original and the quantised model, and outputs that changed."""

    metric: str  # BLEU, or accuracy in %
    texts: int
    fp32: float
    int8: float
    changed: int  # outputs that differ from those in fp32
    unstable: int  # outputs in eight bits that depend on the batch

    def __str__(self) -> str:
        change = f"{self.int8 - self.fp32:+.2f}"
        return "\n".join(
            [
                f"{self.metric}, {self.texts:,} texts: fp32 {self.fp32:.2f}, INT8 {self.int8:.2f} "
                f"({change})",
                f"answers that differ from fp32: {self.changed:,} of {self.texts:,}",
                f"INT8 answers that change with the batch: {self.unstable:,} of {self.texts:,}",
            ]
        )


@dataclass(frozen=True)
class Trial:
    """Texts that both models answer, and the right answers."""

    texts: list[str]
    truth: list[str]
    beam: int
    truncate: bool

    @classmethod
    def of(
        cls, model: Translator | Classifier, examples: Examples, beam: int, truncate: bool
    ) -> "Trial":
        """Normalise the examples as the model reads them; refuse texts that are too long."""
        rows = examples.rows
        if isinstance(model, Translator):
            data = model.settings.data
            languages = (data.source_language, data.target_language)
            rows = [tuple(map(model.plain, row[:2], languages)) for row in rows]
        else:
            rows = [(text, model.spellings[label]) for text, label in rows]
        texts, truth = [row[0] for row in rows], [row[1] for row in rows]
        if not truncate:
            check_fit(texts, model.tokenizer, model.max_length)
        return cls(texts, truth, beam, truncate)

    def compare(
        self, before: Translator | Classifier, after: Translator | Classifier, watch: Watch
    ) -> Comparison:
        """Run the original in batches, and the quantised model in batches and text by text."""
        with watch("comparing", 3 * len(chunks_by_length(self.texts))) as tick:
            in_fp32 = self._answers(before, BATCH_TOKENS, tick)
            in_int8 = self._answers(after, BATCH_TOKENS, tick)
            alone = self._answers(after, ALONE, tick)
        count, name = len(self.texts), "BLEU"
        if isinstance(before, Translator):
            scores = [bleu(output, self.truth) for output in (in_fp32, in_int8)]
        else:
            name = "accuracy in %"
            wrong = (_different(output, self.truth) for output in (in_fp32, in_int8))
            scores = [100 * (count - errors) / count for errors in wrong]
        changed, unstable = _different(in_fp32, in_int8), _different(in_int8, alone)
        return Comparison(name, count, scores[0], scores[1], changed, unstable)

    def _answers(
        self, model: Translator | Classifier, batch_tokens: int, tick: Callable[[], None]
    ) -> list[str]:
        answers = [""] * len(self.texts)
        for turn in chunks_by_length(self.texts):
            some = self._ask(model, [self.texts[i] for i in turn], batch_tokens)
            for i, answer in zip(turn, some, strict=True):
                answers[i] = answer
            tick()
        return answers

    def _ask(
        self, model: Translator | Classifier, texts: list[str], batch_tokens: int
    ) -> list[str]:
        how: dict[str, Any] = {"batch_tokens": batch_tokens, "truncate": self.truncate}
        if isinstance(model, Translator):
            to = model.targets[0]
            return model.translate(texts, self.beam, to=to, split=False, typeset=False, **how)
        return [found.label for found in model.classify(texts, **how)]


def _different(some: Sequence[str], others: Sequence[str]) -> int:
    return sum(a != b for a, b in zip(some, others, strict=True))
