"""Mixtures: weights hold per token, every example has its turn, any epoch can be made alone."""

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.batch import Examples
from glassformer.data.mixture import Mixture, Source, compose, passes
from glassformer.data.ragged import Ragged
from glassformer.errors import DataError


def examples(count: int, length: int, first: int = 10) -> Examples:
    """Pairs whose target is as long as `length` says; the first id tells them apart."""
    target = Ragged.of([[first + i] * (length - 1) for i in range(count)])
    source = Ragged.of([[first + i, 4, 5] for i in range(count)])
    return Examples("translator", (source, target))


SMALL = Source("small", examples(7, 4), 1.0)
LARGE = Source("large", examples(400, 9, first=1_000), 3.0)
MIXTURE = Mixture((SMALL, LARGE), epoch_tokens=800)


def read(mixture: Mixture, epochs: range, seed: int = 1) -> Counter[int]:
    """How often each example is read."""
    made = [mixture.epoch(seed, number) for number in epochs]
    return Counter(int(e.sides[0][i][0]) for e in made for i in range(len(e)))


def test_weights_are_shares_of_the_target_tokens():
    made = MIXTURE.epoch(1, 0)
    is_small = np.array([made.sides[0][i][0] < 1_000 for i in range(len(made))])
    tokens = made.lengths[:, 1]
    assert tokens.sum() == pytest.approx(800, rel=0.02)
    assert tokens[is_small].sum() / tokens.sum() == pytest.approx(1 / 4, rel=0.02)


def test_in_both_directions_a_token_of_either_side_counts_half():
    both = Source("both", LARGE.examples, 1.0, both_directions=True)
    assert both.tokens == pytest.approx(LARGE.examples.lengths.mean() * 400)


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(1, 50), st.integers(0, 9))
def test_every_example_comes_once_before_any_comes_again(count, size, epochs):
    source = Source("any", examples(count, 3), 1.0)
    pieces = [source.piece(3, number, size) for number in range(epochs + 1)]
    often = np.bincount(np.concatenate(pieces), minlength=count)
    assert [len(piece) for piece in pieces] == [size] * len(pieces)
    assert often.max() - often.min() <= 1


def test_small_sources_repeat_and_large_ones_are_read_through():
    often = read(MIXTURE, range(6))  # 50 of the small source each, 67 of the large one
    small, large = ([often[first + i] for i in range(n)] for first, n in ((10, 7), (1_000, 400)))
    assert min(small) >= 42 and max(small) - min(small) <= 1
    assert set(large) == {1, 2} and sum(large) == 6 * 67


def test_an_epoch_is_a_function_of_seed_and_number():
    def ids(seed, number):
        return MIXTURE.epoch(seed, number).sides[0].flat.tolist()

    assert ids(1, 5) == ids(1, 5)
    assert ids(1, 5) != ids(1, 6) != ids(2, 6)


def test_the_order_of_a_source_does_not_depend_on_the_others():
    alone = Mixture((LARGE,), 600).epoch(1, 2).sides[0].flat.tolist()
    mixed = MIXTURE.epoch(1, 2).sides[0].flat.tolist()
    assert mixed[-len(alone) :] == alone


def test_a_source_is_used_in_its_part_of_the_run_only():
    late = Source("late", SMALL.examples, 1.0, begin=0.5)
    early = Source("early", LARGE.examples, 1.0, end=0.5)
    mixture = Mixture((late, early), 800)
    assert set(mixture.sizes(0.0)) == set(mixture.sizes(0.49)) == {"early"}
    assert set(mixture.sizes(0.5)) == set(mixture.sizes(1.0)) == {"late"}
    assert mixture.sizes(0.5)["late"] == 200  # all the tokens are its own then


def test_a_gap_without_a_source_is_refused():
    with pytest.raises(DataError, match="at 70% of the run"):
        Mixture((Source("early", SMALL.examples, 1.0, end=0.5),), 100).epoch(1, 9, 0.7)


def test_passes_tell_how_often_a_run_reads_a_source():
    often = read(MIXTURE, range(10))
    expected = passes(MIXTURE, 8_000)
    assert sum(often[10 + i] for i in range(7)) / 7 == pytest.approx(expected["small"])
    assert sum(often[1_000 + i] for i in range(400)) / 400 == pytest.approx(expected["large"])


def test_passes_count_the_part_of_the_run_that_a_source_is_used_in():
    half = Mixture((LARGE, Source("half", SMALL.examples, 3.0, begin=0.5)), 800)
    assert passes(half, 1_600)["half"] == pytest.approx(100 / 7)
    assert passes(half, 1_600)["large"] == pytest.approx((89 + 44) / 400)


def test_steps_of_augmentation_follow_one_another_with_seeds_of_their_own():
    seeds = []

    def step(sides, source_of, seed):
        seeds.append(seed)
        return [[[*ids, len(seeds)] for ids in side] for side in sides]

    augment = compose(None, step, step)
    assert augment is not None and compose(None, None) is None
    mixture = Mixture((SMALL,), 20, augment)
    assert mixture.epoch(1, 0).sides[0][0].tolist()[-2:] == [1, 2]
    assert len(set(seeds)) == 2


SCRIPT = """
from hashlib import sha256
from data.test_mixture import MIXTURE
from data.test_noise import learned, noised
noise = noised(learned(), 3, lower=0.2, upper=0.1, unpunctuated=0.2, joined=0.2, copied=0.3)
print(sha256(MIXTURE.epoch(7, 3).sides[0].flat.tobytes()).hexdigest())
print(sha256(repr(noise).encode()).hexdigest())
"""


def test_another_process_makes_the_same_epoch_with_the_same_noise():
    made = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
        ).stdout.split()
        for seed in ("1", "2")
    ]
    assert made[0] == made[1] and len(set(made[0])) == 2
