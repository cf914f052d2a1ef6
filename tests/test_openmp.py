"""Threads wait as the user has chosen, or else sleep soon."""

import os

import pytest

from glassformer.openmp import CHOICES, VARIABLES, share_cores


def test_waiting_threads_sleep_soon_unless_the_user_has_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in CHOICES:
        monkeypatch.setenv(name, "kept")  # and put back after the test
        monkeypatch.delenv(name)
    share_cores()
    assert {name: os.environ[name] for name in VARIABLES} == dict(VARIABLES)
    monkeypatch.delenv("GOMP_SPINCOUNT")
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    share_cores()
    assert "GOMP_SPINCOUNT" not in os.environ
