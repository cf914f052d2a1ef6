"""Sampled splits have the distribution of the papers, spell the text and depend on seeds alone."""

from collections import Counter
from functools import cache
from itertools import pairwise
from math import exp, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import subword_sampling
from glassformer.data.subword_sampling import SubwordSampler, Vocabulary
from glassformer.data.tokenizer import Tokenizer

UNK = 1
WORD = "▁abab"
MERGES = {"ab": 0.0, "▁ab": -1.0, "abab": -2.0, "▁a": -3.0}
SCORES = {"▁": -1.5, "a": -2.2, "b": -2.6, "ab": -1.9, "▁a": -2.3, "▁ab": -3.1, "bab": -4.5}
DRAWS = 4_000
TEXT = [
    "A dog runs in the park.",
    "Two cats sleep under the old table.",
    "L'homme âgé mange une pomme à l'école.",
    "the dogs and the cats run and sleep under the tables of the school",
]


def sampler_of(scores: dict[str, float]) -> SubwordSampler:
    """A sampler whose id of a piece is its place among the pieces, from 10."""
    pieces = {piece: (10 + i, score) for i, (piece, score) in enumerate(scores.items())}
    return SubwordSampler(Vocabulary(pieces, UNK, ()))


BPE = MERGES | {"▁": -4.0, "a": -5.0, "b": -6.0}
SAMPLERS = {"bpe": sampler_of(BPE), "unigram": sampler_of(SCORES)}
PIECES = {"bpe": list(BPE), "unigram": list(SCORES)}


def merge_dropout(word: str, p: float) -> Counter[tuple[str, ...]]:
    """The probability of every result, by taking both ways at every merge that comes up."""
    found: Counter[tuple[str, ...]] = Counter()

    def go_on(symbols: tuple[tuple[int, int], ...], refused: frozenset, weight: float) -> None:
        pairs = [
            (MERGES[word[a:c]], -a, (a, b, c))
            for (a, b), (_, c) in pairwise(symbols)
            if word[a:c] in MERGES and (a, b, c) not in refused
        ]
        if not pairs:
            found[tuple(word[a:b] for a, b in symbols)] += weight
            return
        a, b, c = best = max(pairs)[2]
        joined = [s for s in symbols if s not in ((a, b), (b, c))]
        go_on(tuple(sorted([*joined, (a, c)])), refused, weight * (1 - p))
        go_on(symbols, refused | {best}, weight * p)

    go_on(tuple((i, i + 1) for i in range(len(word))), frozenset(), 1.0)
    return found


def unigram(word: str, alpha: float) -> Counter[tuple[str, ...]]:
    """The probability of every split into pieces, by listing them all."""

    @cache
    def splits(rest: str) -> list[tuple[str, ...]]:
        cuts = [rest[:end] for end in range(1, len(rest) + 1) if rest[:end] in SCORES]
        return [(c, *more) for c in cuts for more in splits(rest[len(c) :])] if rest else [()]

    weights = {split: exp(alpha * sum(SCORES[p] for p in split)) for split in splits(word)}
    total = sum(weights.values())
    return Counter({split: weight / total for split, weight in weights.items()})


THEORY = {"bpe": merge_dropout, "unigram": unigram}


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("kind", THEORY)
def test_splits_come_as_often_as_the_theory_has_it(
    monkeypatch: pytest.MonkeyPatch, kind: str, alpha: float, cached: bool
) -> None:
    """Long words take another way through the code, which has the same distribution."""
    monkeypatch.setattr(subword_sampling, "CACHED_LENGTH", 32 if cached else 0)
    expected = THEORY[kind](WORD, alpha)
    drawn = SAMPLERS[kind].sample([WORD] * DRAWS, alpha, seed=5)
    found = Counter(tuple(PIECES[kind][i - 10] for i in ids) for ids in drawn)
    assert found.keys() <= {split for split, p in expected.items() if p}
    for split, p in expected.items():
        deviation = sqrt(DRAWS * p * (1 - p))
        assert abs(found[split] - DRAWS * p) <= 4 * deviation + 1e-6, split


def test_the_theory_tells_rates_apart() -> None:
    """The tolerance above is narrower than the effect of another rate."""
    for kind, theory in THEORY.items():
        one, other = theory(WORD, 0.1), theory(WORD, 0.5)
        far = [abs(one[s] - other[s]) * DRAWS / sqrt(DRAWS * 0.25) for s in one]
        assert max(far) > 8, kind


OPTIONS = {
    "bpe": {"kind": "bpe", "vocab_size": 120},
    "unigram": {"kind": "unigram", "vocab_size": 60},
    "bpe, bytes": {"kind": "bpe", "vocab_size": 420, "byte_fallback": True, "identity": True},
    "unigram, bytes": {
        "kind": "unigram", "vocab_size": 420, "byte_fallback": True, "identity": True
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=OPTIONS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(TEXT * 10, **OPTIONS[request.param])


ODD = st.text(st.sampled_from("abdeorsu théÀ ▁日<>\n½"), max_size=60)


@given(text=ODD, seed=st.integers(0, 2**64 - 1))
def test_a_sample_decodes_to_what_the_plain_split_decodes_to(
    tokenizer: Tokenizer, text: str, seed: int
) -> None:
    (plain,), (drawn,) = tokenizer.encode([text]), tokenizer.sample([text], 0.4, seed)
    assert tokenizer.decode(drawn) == tokenizer.decode(plain)


@given(text=ODD)
def test_the_sharpest_distribution_gives_the_plain_split(tokenizer: Tokenizer, text: str) -> None:
    """No merge left out, or the likeliest split alone: our reading of the model is its own."""
    model, sampler = tokenizer._pieces, tokenizer._sampler
    is_bpe = type(sampler._split).__name__ == "MergeDropout"
    ((drawn,), plain) = (
        sampler.sample([model.normalize(text)], 0.0 if is_bpe else 1e6, 1),
        model.encode(text),
    )
    if is_bpe:
        assert drawn == plain
    else:  # of equally likely splits it may be another one
        assert sum(map(model.get_score, drawn)) == pytest.approx(sum(map(model.get_score, plain)))


def test_rate_zero_is_the_plain_split(tokenizer: Tokenizer) -> None:
    assert tokenizer.sample(TEXT, 0.0, 1) == tokenizer.encode(TEXT)


def test_a_text_is_drawn_by_its_seed_and_number_whatever_the_others_are(
    tokenizer: Tokenizer,
) -> None:
    whole = tokenizer.sample(TEXT, 0.3, 7)
    assert tokenizer.sample([TEXT[0], "other", TEXT[2]], 0.3, 7)[2] == whole[2]
    assert tokenizer.sample(TEXT[:2], 0.3, 7) == whole[:2]
    same = tokenizer.sample(TEXT[:1] * 20, 0.3, 7)
    assert len({tuple(ids) for ids in same}) > 1


def test_a_word_of_ten_thousand_letters_is_no_matter(tokenizer: Tokenizer) -> None:
    """Linear in its length: a quadratic way would take minutes."""
    text = "underdogs" * 1_200
    (drawn,) = tokenizer.sample([text], 0.3, 1)
    assert tokenizer.decode(drawn) == text


def test_pieces_that_reach_over_spaces_are_drawn_too() -> None:
    sampler = sampler_of({"▁": -1.5, "a": -1.5, "▁a": -2.5, "a▁a": -1.25})
    drawn = {tuple(ids) for ids in sampler.sample(["▁a▁a"] * 200, 1.0, 1)}
    assert {10, 13} in map(set, drawn)


def test_unknown_characters_in_a_row_are_one_unknown_piece() -> None:
    for sampler in SAMPLERS.values():
        ((*_, last),) = sampler.sample(["▁xyz"], 0.5, 1)
        assert last == UNK and sampler.sample(["▁xyzaxx"], 1.0, 1)[0].count(UNK) == 2
