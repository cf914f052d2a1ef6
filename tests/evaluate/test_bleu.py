"""BLEU: sacreBLEU's, of the right column against the right answers."""

from types import SimpleNamespace

import pytest
from sacrebleu.metrics import BLEU

from glassformer.evaluate.bleu import bleu, bleu_of

REFERENCES = ["Le vieux chat voit un chien noir.", "Deux enfants veulent du thé chaud, hier."]
SAID = ["Le vieux chat voit deux chiens.", "Deux petits enfants veulent du thé chaud."]


def test_the_score_is_sacrebleus():
    assert bleu(SAID, REFERENCES) == BLEU().corpus_score(SAID, [REFERENCES]).score
    assert 0 < bleu(SAID, REFERENCES) < 100


def test_the_references_are_not_taken_for_what_was_said():
    assert bleu(SAID[:1], REFERENCES[:1]) != bleu(REFERENCES[:1], SAID[:1])


def test_the_same_text_scores_100_however_its_punctuation_is_spaced():
    assert bleu(REFERENCES, REFERENCES) == pytest.approx(100)
    assert bleu([text.replace(".", " .") for text in REFERENCES], REFERENCES) == pytest.approx(100)


def test_case_counts():
    assert bleu([text.upper() for text in REFERENCES], REFERENCES) < 10


def test_it_is_a_score_of_the_corpus_not_a_mean_of_sentences():
    alone = [bleu([a], [b]) for a, b in zip(SAID, REFERENCES, strict=True)]
    assert bleu(SAID, REFERENCES) != pytest.approx(sum(alone) / 2)


def test_a_translator_is_asked_the_first_column_and_judged_by_the_second():
    sources = ["first", "second"]
    answers = dict(zip(sources, SAID, strict=True))
    translator = SimpleNamespace(translate=lambda texts: [answers[text] for text in texts])
    rows = list(zip(sources, REFERENCES, strict=True))
    assert bleu_of(translator, rows) == bleu(SAID, REFERENCES)
    assert bleu_of(translator, rows[::-1]) == pytest.approx(bleu(SAID, REFERENCES))
