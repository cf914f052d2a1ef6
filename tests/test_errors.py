"""Errors: one block of three lines, an exit code, and the built-in kind that a caller expects."""

import pickle

import pytest

from glassformer.errors import (
    CheckpointError,
    DataError,
    GlassformerError,
    InputError,
    MissingPackageError,
    SettingsError,
    TrainingError,
    did_you_mean,
    near_name,
)

KINDS = [
    (GlassformerError, Exception, 1),
    (InputError, ValueError, 2),
    (TrainingError, ArithmeticError, 1),
    (SettingsError, ValueError, 2),
    (DataError, ValueError, 3),
    (CheckpointError, ValueError, 4),
    (MissingPackageError, ImportError, 2),
]


@pytest.mark.parametrize("kind", [kind for kind, _, _ in KINDS if kind is not MissingPackageError])
def test_the_block_says_what_happened_then_why_then_what_to_do(kind):
    error = kind("It broke.", "It was thin.", "Take a thick one.")
    assert str(error).splitlines() == [
        "It broke.",
        "  why:  It was thin.",
        "  next: Take a thick one.",
    ]
    assert (error.what, error.why, error.remedy) == (
        "It broke.",
        "It was thin.",
        "Take a thick one.",
    )


def test_a_missing_package_is_named_with_its_use_and_the_command_that_installs_it():
    error = MissingPackageError("matplotlib", "A figure", "plots")
    assert "'matplotlib'" in error.what
    assert error.why.startswith("A figure needs it")
    assert error.remedy.startswith("pip install") and "'glassformer[plots]'" in error.remedy
    assert len(str(error).splitlines()) == 3


@pytest.mark.parametrize(("kind", "builtin", "exit_code"), KINDS)
def test_each_kind_is_a_glassformer_error_a_builtin_error_and_has_its_exit_code(
    kind, builtin, exit_code
):
    error = kind("one", "two", "three")
    assert isinstance(error, GlassformerError) and isinstance(error, builtin)
    assert error.exit_code == kind.exit_code == exit_code


@pytest.mark.parametrize("kind", [kind for kind, _, _ in KINDS])
def test_an_error_survives_the_way_between_processes(kind):
    error = kind("one", "two", "three")
    received = pickle.loads(pickle.dumps(error))  # noqa: S301  (our own bytes)
    assert type(received) is kind and str(received) == str(error)


@pytest.mark.parametrize(
    ("name", "meant"), [("d_modle", "d_model"), ("heads", "n_heads"), ("d_ff", "d_ff")]
)
def test_the_nearest_name_is_the_one_that_was_meant(name, meant):
    assert near_name(name, ["d_model", "d_ff", "n_heads"]) == meant


@pytest.mark.parametrize("name", ["", "?", "nothing of the kind"])
def test_nothing_is_suggested_where_nothing_is_near(name):
    names = {"d_model": 128, "d_ff": 256}
    assert near_name(name, names) is None
    assert did_you_mean(name, names, "List them.") == "List them."
    assert did_you_mean("d_modle", names, "List them.") == "Did you mean 'd_model'?"
