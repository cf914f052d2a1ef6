"""Under pytest, and only there, every shape annotation of the model is checked as it runs."""

import pytest
from jaxtyping import install_import_hook

install_import_hook("glassformer.model", "beartype.beartype")

import torch  # noqa: E402  (the hook must come before anything that imports the package)


@pytest.fixture(autouse=True)
def _reproducible() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # tiny tensors: a second thread would only wait
