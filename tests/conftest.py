"""Under pytest, and only there, every shape annotation of the model is checked as it runs."""

from typing import Any

import pytest
from jaxtyping import config, install_import_hook

install_import_hook("glassformer.model", "beartype.beartype")

import torch  # noqa: E402  (the hook must come before anything that imports the package)


@pytest.fixture(autouse=True)
def _reproducible() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # tiny tensors: a second thread would only wait


@pytest.fixture(autouse=True)
def _recorded_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """While torch records a model (`decode/replay.py`) its sizes are tensors, not numbers."""
    trace = torch.jit.trace

    def unchecked(*args: Any, **kwargs: Any) -> Any:
        before = config.jaxtyping_disable
        config.update("jaxtyping_disable", True)
        try:
            return trace(*args, **kwargs)
        finally:
            config.update("jaxtyping_disable", before)

    monkeypatch.setattr(torch.jit, "trace", unchecked)
