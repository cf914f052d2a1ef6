"""BLEU: sacreBLEU's, of the right column against the right answers."""

import re
from math import exp
from types import SimpleNamespace

import pytest
from sacrebleu.metrics import BLEU, CHRF

from glassformer.evaluate.bleu import bleu, bleu_of, bleu_score, chrf_score

REFERENCES = ["Le vieux chat voit un chien noir.", "Deux enfants veulent du thé chaud, hier."]
OUTPUT = ["Le vieux chat voit deux chiens.", "Deux petits enfants veulent du thé chaud."]


def test_the_score_equals_sacrebleus():
    assert bleu(OUTPUT, REFERENCES) == BLEU().corpus_score(OUTPUT, [REFERENCES]).score
    assert 0 < bleu(OUTPUT, REFERENCES) < 100


def test_outputs_and_references_are_not_interchangeable():
    assert bleu(OUTPUT[:1], REFERENCES[:1]) != bleu(REFERENCES[:1], OUTPUT[:1])


def test_the_same_text_scores_100_however_its_punctuation_is_spaced():
    assert bleu(REFERENCES, REFERENCES) == pytest.approx(100)
    assert bleu([text.replace(".", " .") for text in REFERENCES], REFERENCES) == pytest.approx(100)


def test_bleu_is_cased():
    assert bleu([text.upper() for text in REFERENCES], REFERENCES) < 10


def test_bleu_is_of_the_corpus_not_a_mean_of_sentences():
    alone = [bleu([a], [b]) for a, b in zip(OUTPUT, REFERENCES, strict=True)]
    assert bleu(OUTPUT, REFERENCES) != pytest.approx(sum(alone) / 2)


def test_the_first_column_is_translated_and_the_second_is_the_reference():
    sources = ["first", "second"]
    answers = dict(zip(sources, OUTPUT, strict=True))
    translator = SimpleNamespace(
        translate=lambda texts, beam_size, split, typeset: [answers[text] for text in texts]
    )
    rows = list(zip(sources, REFERENCES, strict=True))
    assert bleu_of(translator, rows) == bleu(OUTPUT, REFERENCES)
    assert bleu_of(translator, rows[::-1]) == pytest.approx(bleu(OUTPUT, REFERENCES))


MANY = [f"{text[:-1]} {n} fois." for n in range(40) for text in REFERENCES]
OUTPUT_OF_MANY = [text.replace("chien", "chat") if n % 3 else text for n, text in enumerate(MANY)]


def test_a_score_equals_bleu_and_lies_in_its_interval():
    score = bleu_score(OUTPUT_OF_MANY, MANY)
    assert score.value == bleu(OUTPUT_OF_MANY, MANY)
    assert 0 < score.low < score.value < score.high < 100
    chrf = chrf_score(OUTPUT_OF_MANY, MANY)
    assert chrf.value == CHRF().corpus_score(OUTPUT_OF_MANY, [MANY]).score
    assert 0 < chrf.low < chrf.value < chrf.high < 100


def test_the_interval_is_sacrebleus_and_deterministic():
    score = BLEU().corpus_score(OUTPUT_OF_MANY, [MANY], n_bootstrap=1_000)
    _, middle, half = re.findall(r"\d+\.\d+", score.format(width=4, score_only=True))
    ours = bleu_score(OUTPUT_OF_MANY, MANY)
    assert (ours.low + ours.high) / 2 == pytest.approx(float(middle), abs=1e-3)
    assert (ours.high - ours.low) / 2 == pytest.approx(float(half), abs=1e-3)
    assert ours == bleu_score(OUTPUT_OF_MANY, MANY)


def test_the_signature_names_the_tokenisation_and_case():
    cased, tokenised = (
        bleu_score(OUTPUT, REFERENCES),
        bleu_score(OUTPUT, REFERENCES, tokenised=True),
    )
    assert "case:mixed" in cased.signature and "tok:13a" in cased.signature
    assert "case:lc" in tokenised.signature and "tok:none" in tokenised.signature
    assert all(
        "bs:1000|" in s.signature for s in (cased, tokenised, chrf_score(OUTPUT, REFERENCES))
    )
    assert "nc:6" in chrf_score(OUTPUT, REFERENCES).signature


def test_lengths_and_brevity_penalty_are_in_bleus_tokens():
    score = bleu_score(["a b c d"], ["a b c d e f g h"], tokenised=True)
    assert (score.length, score.reference_length, score.length_ratio) == (4, 8, 0.5)
    assert score.brevity_penalty == pytest.approx(exp(1 - 8 / 4))
    assert score.value == pytest.approx(100 * exp(-1))
    dotted = bleu_score(["a b c d."], ["a b c d."])
    assert dotted.reference_length == 5  # 13a takes the full stop off
    assert bleu_score(["a b c d."], ["a b c d."], tokenised=True).reference_length == 4


def test_tokenised_text_is_scored_without_warnings_and_without_case(caplog):
    lines = ["Un chat . " * 2] * 200  # what sacreBLEU takes for tokenised by mistake
    assert bleu_score([line.upper() for line in lines], lines, tokenised=True).value == (
        pytest.approx(100)
    )
    assert not caplog.records


@pytest.mark.parametrize(("outputs", "value"), [("x", 0), ("", 0), ("un chat voit un chien", 100)])
def test_scores_of_0_and_100_have_an_empty_interval(outputs, value):
    score = bleu_score([outputs] * 3, ["un chat voit un chien"] * 3)
    assert (score.low, score.value, score.high) == pytest.approx((value, value, value))


def test_chrf_of_mostly_wrong_text_has_an_interval():
    outputs, references = [*["xxxxxx"] * 5, "un chat"], ["un chien"] * 6
    with pytest.raises(TypeError, match="coerce float and float32"):  # why it is not sacreBLEU's
        CHRF().corpus_score(outputs, [references], n_bootstrap=1_000)
    score = chrf_score(outputs, references)
    assert score.value == CHRF().corpus_score(outputs, [references]).score
    assert score.low <= score.value <= score.high


def test_a_sentence_may_have_any_number_of_references():
    outputs = ["le chat voit un chien", "deux enfants veulent du thé"]
    rows = [["le chat voit un chien"], ["ils veulent boire", "deux enfants veulent du thé"]]
    score = bleu_score(outputs, rows)
    assert bleu(outputs, rows) == score.value == pytest.approx(100)
    assert score.reference_length == 10 and "nrefs:var" in score.signature
    assert chrf_score(outputs, rows).value == pytest.approx(100)
    one = [[row[0]] for row in rows]
    flat = [row[0] for row in rows]
    assert bleu_score(outputs, one) == bleu_score(outputs, flat)
    assert chrf_score(outputs, one) == chrf_score(outputs, flat)
