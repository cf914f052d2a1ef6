"""The score card of a translator, by sacreBLEU and by hand."""

import json
from math import exp, log

import pytest

from glassformer.decode.options import SearchOptions
from glassformer.errors import DataError
from glassformer.evaluate import examples
from glassformer.evaluate.bleu import bleu_score, chrf_score
from glassformer.evaluate.card import Circumstances, markdown
from glassformer.evaluate.translation import (
    Translations,
    perplexity,
    search_settings,
    translate_all,
    translation_card,
)
from glassformer.pipeline import Translation

REFERENCES = [f"Le chat numéro {n} voit l'homme, hier." for n in range(30)]
TEXTS = [text if n % 3 else text.replace("voit", "mange") for n, text in enumerate(REFERENCES)]
AROUND = Circumstances(
    "glassformer evaluate m", "m", {"a.fr": "12ab"}, {"beam_size": 5}, {"cpu": "x"}, 2.0, 2**30
)


class Echo:
    """Says back what it is asked, in upper case, a token for each letter; notes what it is told."""

    def __init__(self) -> None:
        self.calls = []

    def n_best(self, texts, options, *, batch_tokens, truncate, typeset):
        assert not typeset
        self.calls.append((list(texts), options, batch_tokens, truncate))
        return [[Translation(text.upper(), 0.0, 0.0, [7] * len(text))] * 2 for text in texts]

    def score(self, texts, targets, *, batch_tokens, truncate):
        return [(len(target) * log(0.25), len(target)) for target in targets]


def test_sources_are_translated_in_chunks_by_length_and_returned_in_order(monkeypatch):
    monkeypatch.setattr(examples, "CHUNK", 4)
    texts, translator, ticks = ["x" * (n * 7 % 11) for n in range(11)], Echo(), []
    options = SearchOptions(beam_size=2)
    found = translate_all(
        translator, texts, options, batch_tokens=9, truncate=True, tick=lambda: ticks.append(1)
    )
    assert found.texts == [text.upper() for text in texts]
    assert found.tokens == sum(map(len, texts)) and found.seconds > 0
    assert found.peak_memory is None or found.peak_memory > 2**20
    warm_up, *turns = translator.calls
    assert warm_up[0] == texts[:1]
    assert [len(asked) for asked, *_ in turns] == [4, 4, 3] and len(ticks) == 3
    assert len(ticks) == len(examples.chunks_by_length(texts))
    assert [len(text) for asked, *_ in turns for text in asked] == sorted(map(len, texts))
    assert all(call[1:] == (options, 9, True) for call in translator.calls)


def test_perplexity_is_per_token_of_all_references_together():
    assert perplexity(Echo(), ["a", "b"], ["xx", "yyyyy"]) == pytest.approx(4.0)
    translator = Echo()
    translator.score = lambda *_, **__: [(-1.0, 2), (-8.0, 4)]
    assert perplexity(translator, ["a", "b"], ["x", "y"]) == pytest.approx(exp(9 / 6))


def card(tokenised=None, texts=TEXTS, language="fr"):
    found = Translations(texts, tokens=300, seconds=2.0, peak_memory=2**30)
    return translation_card(found, REFERENCES, 4.5, AROUND, tokenised, language)


def test_the_card_has_sacrebleus_scores_and_counts():
    c = card()
    assert c.bleu == bleu_score(TEXTS, REFERENCES) and c.chrf == chrf_score(TEXTS, REFERENCES)
    assert c.bleu.low < c.bleu.value < c.bleu.high
    assert c.tokenised_bleu is None
    assert (c.sentences, c.perplexity) == (30, 4.5)
    assert c.exact_match == pytest.approx(20 / 30)
    assert (c.tokens_per_second, c.sentences_per_second) == (150.0, 15.0)


def test_on_tokenised_references_the_output_is_tokenised_as_they_were():
    pytest.importorskip("sacremoses")
    tokenised = [f"le chat numéro {n} voit l&apos; homme , hier ." for n in range(30)]
    on_tokens = card(tokenised).tokenised_bleu
    assert on_tokens is not None and on_tokens.reference_length == 30 * 10
    same = [
        text.replace("voit", "mange") if n % 3 == 0 else text for n, text in enumerate(tokenised)
    ]
    assert on_tokens == bleu_score(same, tokenised, tokenised=True)
    assert on_tokens.low < on_tokens.value < on_tokens.high


def test_tokenised_output_is_not_tokenised_again():
    """But for its case, of which the scale makes nothing. Moses would make more of `&apos;`."""
    tokenised = [f"le chat numéro {n} voit l&apos; homme , hier ." for n in range(30)]
    found = [text.capitalize() for text in tokenised]
    assert card(tokenised, found, None).tokenised_bleu.value == pytest.approx(100)


def test_the_card_survives_json():
    pytest.importorskip("sacremoses")
    for content in (card().to_json(), card(TEXTS).to_json()):
        assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert card().to_json()["circumstances"]["checksums"] == {"a.fr": "12ab"}


def test_markdown_contains_every_score():
    pytest.importorskip("sacremoses")
    c = card([text.lower() for text in REFERENCES])
    text = markdown(c.sheet())
    for part in (
        f"`{c.bleu.signature}`", f"`{c.tokenised_bleu.signature}`", f"`{c.chrf.signature}`",
        "| BLEU, cased, detokenised | ", f"{c.bleu.value:.2f}", f"{c.bleu.reference_length:,} |",
        f"| {c.tokenised_bleu.reference_length:,} |", "| exact match | 66.7% |",
        "| perplexity of the references | 4.500 |", "| target subwords/s | 150 |", "12ab",
        "| peak memory of the process | 1,024 MiB |", "| beam_size | 5 |",
    ):  # fmt: skip
        assert part in text, part


def test_without_tokenised_references_their_score_is_absent():
    assert "tokenised references" not in markdown(card().sheet())


@pytest.mark.parametrize("references", [REFERENCES[1:], []])
def test_lists_of_different_length_are_refused(references):
    found = Translations(TEXTS, 1, 1.0, None)
    with pytest.raises(DataError, match="30 translations"):
        translation_card(found, references, 1.0, AROUND)
    with pytest.raises(DataError, match="30 translations"):
        translation_card(found, REFERENCES, 1.0, AROUND, references, "fr")


def test_search_settings_are_those_of_the_options():
    told = search_settings(SearchOptions(beam_size=3, length_penalty=0.2, no_repeat_ngram=4))
    assert told["beam_size"] == 3 and told["length_penalty"] == 0.2 and told["no_repeat_ngram"] == 4
    assert "temperature" not in told
