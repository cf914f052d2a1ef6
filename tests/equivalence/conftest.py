"""Fixtures of the equivalence suite."""

from collections.abc import Iterator

import pytest
import torch
from jaxtyping import config


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)  # toys are too small to share: two threads would wait for each other


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No shape checks: a compiler cannot see through them, and they take most of a toy's time."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)
