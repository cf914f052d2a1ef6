"""Which search options are valid."""

from math import inf, nan

import pytest

from glassformer.decode.options import SearchOptions, penalty
from glassformer.errors import SettingsError


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"beam_size": 0}, "at least 1"),
        ({"n_best": 0}, "at least 1"),
        ({"beam_size": 257}, "at most 256"),
        ({"beam_size": 100_000}, "at most 256"),
        ({"n_best": 257}, "at most 256"),
        ({"n_best": 4_097, "sample": True}, "at most 4,096"),
        ({"min_length": 4_097}, "at most 4,096"),
        ({"max_length": 4_097}, "at most 4,096"),
        ({"min_length": -1}, "at least 0"),
        ({"max_length": 0}, "at least 1"),
        ({"max_length": 4, "min_length": 5}, "at least 5"),
        ({"no_repeat_ngram": -1}, "at least 0"),
        ({"repetition_penalty": 0.9}, "at least 1"),
        ({"repetition_penalty": float("inf")}, "at least 1"),
        ({"temperature": 0.0}, "at least 0.0001"),
        ({"temperature": 9e-5}, "at least 0.0001"),
        ({"temperature": inf}, "a number"),
        ({"temperature": nan}, "a number"),
        ({"length_penalty": 101.0}, "from -100 to 100"),
        ({"length_penalty": -1e3}, "from -100 to 100"),
        ({"length_penalty": nan}, "a number"),
        ({"top_k": -1}, "at least 0"),
        ({"top_p": 0.0}, "above 0 and at most 1"),
        ({"top_p": 1.1}, "above 0 and at most 1"),
        ({"n_best": 6}, "at most beam_size, 5"),
        ({"beam_size": 2, "n_best": 3}, "at most beam_size, 2"),
        ({"temperature": 50.0}, "option of sampling"),
        ({"top_k": 1}, "option of sampling"),
        ({"top_p": 0.5}, "option of sampling"),
        ({"seed": 7, "beam_size": 1}, "option of sampling"),
    ],
    ids=str,
)
def test_invalid_options_are_refused_with_their_name_and_rule(changes, rule):
    name, value = next(iter(changes.items()))
    if "beam_size" in changes and "n_best" in changes:
        name, value = "n_best", 3
    with pytest.raises(SettingsError) as caught:
        SearchOptions(**changes)
    assert f"{name} = {value!r}" in caught.value.what
    assert rule in caught.value.why
    assert name in caught.value.remedy


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"beam_size": 1},
        {"n_best": 5},
        {"beam_size": 256, "n_best": 256},
        {"sample": True, "n_best": 4_096},
        {"min_length": 4_096, "max_length": 4_096},
        {"length_penalty": -100.0},
        {"sample": True, "temperature": 1e-4, "seed": 7},
        {"min_length": 3, "max_length": 3},
        {"sample": True, "beam_size": 1, "n_best": 7},
        {"sample": True, "top_p": 1e-9, "top_k": 1_000_000},
        {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 0},
    ],
    ids=str,
)
def test_valid_options_are_accepted(changes):
    options = SearchOptions(**changes)
    assert all(getattr(options, name) == value for name, value in changes.items())


def test_the_defaults_are_the_papers():
    """Length penalty and length limit; its beam is 4 (§6.1)."""
    assert SearchOptions().length_penalty == 0.6
    assert SearchOptions().max_length is None


def test_the_length_that_counts_is_twice_the_source_and_ten_or_the_least_length():
    options = SearchOptions(min_length=30)
    assert [options.counted_length(n) for n in (1, 10, 20, None)] == [30, 30, 50, inf]
    assert SearchOptions().counted_length(1) == 12


@pytest.mark.parametrize("alpha", [-1.0, 0.6, 2.0])
def test_the_length_penalty_grows_up_to_the_length_that_counts(alpha):
    assert penalty(9, alpha, 12) == penalty(9, alpha)
    assert penalty(99, alpha, 12) == penalty(12, alpha)


@pytest.mark.parametrize("alpha", [-1.0, -0.5, 0.0, 0.6, 1.0, 2.0])
def test_the_length_penalty_is_one_for_one_token_and_grows_as_alpha_says(alpha):
    assert penalty(1, alpha) == 1.0
    values = [penalty(length, alpha) for length in range(1, 30)]
    assert values == sorted(values, reverse=alpha < 0)
    assert penalty(7, alpha) == pytest.approx(2**alpha)
    assert penalty(19, alpha) == pytest.approx(4**alpha)
