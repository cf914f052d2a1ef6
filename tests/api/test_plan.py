"""The settings that are chosen for a size of data and a number of minutes."""

from itertools import product

import pytest

from glassformer.api.plan import MAX_EPOCHS, Counts, dropout_for, plan, valid_count
from glassformer.config import RunSettings
from glassformer.data.check import check
from glassformer.data.own import Kind

MULTI30K = Counts(rows=28_500, words=370_000, characters=120, longest_usual=21)
IMDB = Counts(rows=23_000, words=5_400_000, characters=200, longest_usual=590)
LANGUAGES = ("en", "fr")


def test_captions_get_about_the_recipe_of_captions() -> None:
    s = plan("translator", MULTI30K, LANGUAGES, 20, cores=2).settings
    m = s.model
    assert (m.d_model, m.d_ff, m.encoder_layers, m.decoder_layers) == (128, 256, 4, 4)
    assert 7_000 < m.vocab_size < 9_000 and m.dropout == 0.2
    t = s.train
    assert (t.processes, t.threads, s.data.batch_tokens) == (2, 1, 2_048)
    assert (t.optimizer, t.schedule, t.metric, t.max_minutes) == ("muon", "linear", "bleu", 18)
    assert 0.98 < t.ema < 0.998 and 80 <= t.validate_every <= 200


def test_reviews_get_about_the_recipe_of_reviews() -> None:
    s = plan("classifier", IMDB, ("en", "en"), 20, cores=2).settings
    m = s.model
    assert (m.kind, m.d_model, m.encoder_layers, m.positions) == ("classifier", 128, 4, "rope")
    assert (m.ngrams, m.ngram_share, m.ngram_buckets) == (3, 0.65, 2**22)
    assert 16_000 <= m.vocab_size <= 16_500 and s.data.max_length == 768 and s.data.fold_case


@pytest.mark.parametrize("kind", ["translator", "classifier"])
def test_every_choice_is_a_valid_recipe_that_survives_toml(kind: Kind) -> None:
    sizes = (20, 2_000, 30_000, 1_000_000)
    for rows, length, minutes, cores in product(sizes, (2, 300), (0.1, 5, 600), (1, 2, 64)):
        chosen = plan(kind, Counts(rows, rows * length, 90, length), LANGUAGES, minutes, cores)
        files = {"name": "files", "train": ("a.tsv",), "valid": ("b.tsv",), "columns": ("1", "2")}
        settings = chosen.settings.replace(data=files)
        check(settings)
        assert RunSettings.from_toml(settings.to_toml()) == settings
        train = settings.train
        assert train.warmup_share is not None and 0 < train.warmup_share < 0.1
        assert train.epochs == MAX_EPOCHS[kind] and train.max_minutes < minutes
        assert train.processes * train.threads <= cores
        assert f"width {settings.model.d_model}" in chosen.line and "\n" not in chosen.line


def test_more_time_never_lowers_dropout_and_longer_text_takes_less() -> None:
    rates = [dropout_for(epochs) for epochs in (0.5, 2, 10, 100)]
    assert rates == [0.0, 0.1, 0.2, 0.3]


def test_a_part_validates_but_never_too_much() -> None:
    assert [valid_count("translator", n) for n in (20, 2_000, 10**6)] == [1, 100, 500]
    assert [valid_count("classifier", n) for n in (20, 2_000, 10**6)] == [2, 200, 2_000]


def test_counts_are_of_the_longer_side_and_of_the_text_only() -> None:
    counts = Counts.of([("a b", "c"), ("d", "e f g")], 2)
    assert (counts.rows, counts.words, counts.characters) == (2, 4, 8)
    assert Counts.of([("a b", "some label")], 1).words == 2
