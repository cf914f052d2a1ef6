"""N-gram votes: each distinct n-gram counts once, padding never."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint, as_arrays, weights_of
from glassformer.config import ModelSettings, RunSettings
from glassformer.data.tokenizer import Tokenizer
from glassformer.errors import CheckpointError, SettingsError
from glassformer.model.build import build
from glassformer.ngrams import (
    ALONE,
    BEGINS,
    CONTINUES,
    KINDS,
    WEIGHT,
    NgramVotes,
    ngram_shapes,
    without_votes,
)
from glassformer.pipeline import load_classifier
from glassformer.pipeline.engines import Engine
from glassformer.quantize import quantise_weights

V, C = 7, 3
TEXTS = [[4, 5, 4, 5], [6, 6, 6], [3]]
WORDS = [ALONE, ALONE, ALONE, BEGINS, BEGINS, CONTINUES, CONTINUES]


def random_weights(settings: ModelSettings) -> dict[str, NDArray[Any]]:
    numbers = np.random.default_rng(0)
    return {
        name: numbers.normal(size=shape).astype(np.float32) if name == WEIGHT else np.zeros(shape)
        for name, shape in ngram_shapes(settings).items()
    }


def votes_of(
    longest: int, buckets: int = 50_000, kinds: list[int] | None = None, **changes: Any
) -> NgramVotes:
    sizes = {"vocab_size": V, "n_classes": C, "ngrams": longest, "ngram_buckets": buckets}
    settings = ModelSettings(kind="classifier", **sizes | changes)
    weights = random_weights(settings)
    return NgramVotes.of(settings, weights | ({KINDS: np.array(kinds)} if kinds else {}))


def places(votes: NgramVotes, ids: list[int]) -> list[int]:
    return votes.all_places(np.array(ids)).tolist()


@pytest.mark.parametrize("longest", [1, 2, 3, 5])
def test_logits_are_the_sum_over_distinct_ngrams(longest: int) -> None:
    votes = votes_of(longest)
    for text in TEXTS:
        ngrams = {
            tuple(text[i : i + n]) for n in range(1, longest + 1) for i in range(len(text) - n + 1)
        }
        columns = {places(votes, list(ngram))[-1] for ngram in ngrams}
        assert len(columns) == len(ngrams), "no two of so few share one of so many columns"
        assert votes(text) == pytest.approx(votes.weight[:, sorted(columns)].sum(1), abs=1e-5)
    assert np.array_equal(votes.of_rows(TEXTS), np.stack([votes(text) for text in TEXTS]))


def test_single_tokens_have_own_columns_and_longer_ngrams_share_buckets() -> None:
    found = places(votes_of(3, buckets=4), [4, 5, 6, 3])
    assert found[:4] == [4, 5, 6, 3]
    assert all(V <= place < V + 4 for place in found[4:]) and len(found) == 4 + 3 + 2


def test_a_finer_table_has_fewer_collisions_and_maps_to_the_coarse_one() -> None:
    votes, ids = votes_of(3, buckets=5), np.random.default_rng(0).integers(1, V, 40)
    fine = votes.places(ids, finer=1_000)
    assert np.array_equal(np.unique(votes.coarse(fine)), votes.places(ids))
    assert len(fine) > len(votes.places(ids))


def test_order_matters_to_bigrams_only() -> None:
    single, pairs = votes_of(1), votes_of(2)
    assert np.array_equal(single([4, 5, 6]), single([6, 5, 4]))
    assert not np.allclose(pairs([4, 5, 6]), pairs([6, 5, 4]))


def test_padding_has_no_vote() -> None:
    votes = votes_of(1)
    assert np.array_equal(votes([4, 5, 0, 0]), votes([4, 5]))


def test_hashes_spread_over_the_table() -> None:
    """A hash that uses few buckets would collide often."""
    votes = votes_of(2, buckets=1_000, vocab_size=200)
    found = {places(votes, [a, b])[-1] for a in range(1, 200) for b in range(1, 6)}
    assert len(found) > 0.9 * 1_000 * (1 - 2.71828 ** (-199 * 5 / 1_000))


def test_tokens_are_grouped_to_words() -> None:
    """Tokens 1 and 2 are marks; 3 and 4 begin words, 5 and 6 continue them."""
    votes = votes_of(2, kinds=WORDS)
    first, second, third = (
        votes.words(np.array(ids)).tolist()
        for ids in ([3, 5, 4, 2, 6], [3, 5, 6, 3, 6, 5], [4, 3, 5])
    )
    assert first[1:] == [4, 2, 6], "a continuation behind a mark stands alone"
    assert len(second) == 2 and second[0] != second[1], "their order matters"
    assert third == [4, first[0]]
    assert len({*second, first[0]} - set(range(V))) == 3, "none has the number of a token"


def test_a_word_of_several_tokens_has_one_column_at_any_position() -> None:
    votes = votes_of(1, kinds=WORDS)
    together = votes([3, 5, 2, 3, 5])
    assert together == pytest.approx(votes([3, 5]) + votes.weight[:, 2], abs=1e-5)


def test_bigrams_are_of_words() -> None:
    """a|b c and a b|c are the same tokens in other words."""
    votes = votes_of(2, kinds=WORDS)
    one, other = (set(places(votes, ids)) for ids in ([3, 4, 5], [3, 5, 4]))
    assert len(one) == len(other) == 3, "two words and a pair"
    assert not one & other


@pytest.mark.parametrize("kind", ["translator", "tagger", "masked-language-model"])
def test_only_a_classifier_may_have_ngrams(kind: str) -> None:
    with pytest.raises(SettingsError, match="ngrams = 2 does not go with kind"):
        build("tiny", kind=kind, ngrams=2)


# Beside an encoder

TEXT = ["a dull film", "a fine film that one sees twice", "dull"]


def saved(folder: Path, eight_bits: bool = False, **changes: NDArray[Any] | None) -> Path:
    """Write a classifier with votes of which some tensors are changed, or left out."""
    tokenizer = Tokenizer.train(TEXT * 5, 40)
    shape = {"vocab_size": len(tokenizer), "d_model": 16, "n_heads": 2, "d_ff": 16}
    votes = {"ngrams": 3, "ngram_buckets": 64, "ngram_share": 0.65}
    settings = RunSettings.of(
        model={"kind": "classifier", "encoder_layers": 1, **shape, **votes},
        data={"max_length": 30, "labels": ("bad", "good")},
    )
    weights = as_arrays(weights_of(build(settings.model))) | random_weights(settings.model)
    stored = quantise_weights(weights) if eight_bits else weights
    stored |= {name.replace("_", "."): array for name, array in changes.items()}
    kept = {name: array for name, array in stored.items() if array is not None}
    checkpoint.write(Checkpoint(settings, kept, {"joint": tokenizer}), folder)
    return folder


@pytest.mark.parametrize("engine", ["compiled", "torch"])
@pytest.mark.parametrize("eight_bits", [False, True])
def test_a_classifier_mixes_the_logits_of_encoder_and_ngrams(
    tmp_path: Path, engine: Engine, eight_bits: bool
) -> None:
    classifier = load_classifier(saved(tmp_path / "one", eight_bits), engine=engine)
    rows = [[2, *ids] for ids in classifier.tokenizer.encode(TEXT)]
    encoder = classifier.runs.classify(rows)
    assert classifier.votes is not None
    votes = np.stack([classifier.votes(row) for row in rows])
    mixed = classifier.logits(rows)
    assert mixed == pytest.approx(0.35 * encoder + 0.65 * votes, abs=1e-5)
    powers = np.exp(mixed)
    found = [list(one.probabilities.values()) for one in classifier.classify(TEXT)]
    assert np.array(found) == pytest.approx(powers / powers.sum(1, keepdims=True), abs=1e-5)


def test_votes_in_eight_bits_are_near_fp32(tmp_path: Path) -> None:
    exact = load_classifier(saved(tmp_path / "exact")).votes
    stored = saved(tmp_path / "small", eight_bits=True)
    small, back = (load_classifier(stored, int8=int8).votes for int8 in (None, False))
    assert exact is not None and small is not None and back is not None
    assert small.weight.dtype == np.int8 and back.weight.dtype == np.float32
    for ids in TEXTS:
        assert small(ids) == pytest.approx(exact(ids), abs=0.2)
        assert small(ids) == pytest.approx(back(ids), abs=1e-5)
    assert small.arrays()[WEIGHT] == pytest.approx(back.weight, abs=1e-6)


@pytest.mark.parametrize("engine", ["compiled", "torch"])
def test_votes_that_are_missing_misshapen_or_no_numbers_are_refused(
    tmp_path: Path, engine: Engine
) -> None:
    nothing: dict[str, Any] = {"votes_kinds": None}
    narrow: dict[str, Any] = {"votes_weight": np.zeros((2, 5), np.float32)}
    no_numbers: dict[str, Any] = {"votes_kinds": np.full(40, np.nan, np.float32)}
    for change, text in (
        (nothing, r"votes\.kinds is absent"),
        (narrow, r"votes\.weight is \(2, 5\)"),
        (no_numbers, r"votes\.kinds holds NaN"),
    ):
        (name,) = change
        folder = saved(tmp_path / name / text[-5:], **change)
        with pytest.raises(CheckpointError, match=text):
            load_classifier(folder, engine=engine)


def test_the_weights_of_the_encoder_are_those_without_votes() -> None:
    weights = {"encoder.embedding.weight": 1, WEIGHT: 2, KINDS: 3, f"{WEIGHT}.scale": 4}
    assert without_votes(weights) == {"encoder.embedding.weight": 1}
