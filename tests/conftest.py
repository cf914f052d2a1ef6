"""Check the shape annotations of the model as it runs, where the model itself is tested."""

from collections.abc import Iterator

import pytest
from jaxtyping import config, install_import_hook

install_import_hook("glassformer.model", "beartype.beartype")

import torch  # noqa: E402  (the hook must come before anything that imports the package)

from glassformer.engine.entries import warm_up  # noqa: E402

# The checks take as long as the forward and backward pass of a toy model, so that other tests run
# without them: `model` and `equivalence` call every module in every variant.
CHECKED = ("model", "equivalence", "decode", "inspect", "train/test_step.py", "train/test_loss.py")
config.update("jaxtyping_disable", True)


@pytest.fixture(scope="session", autouse=True)
def _compiled_engine() -> None:
    """Compile the engine before the first test: later it would print its line into one of them."""
    warm_up()


@pytest.fixture(autouse=True)
def _reproducible() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # tiny tensors: a second thread would only wait


@pytest.fixture(autouse=True)
def _shape_checks(request: pytest.FixtureRequest) -> Iterator[None]:
    place = request.path.relative_to(request.config.rootpath / "tests")
    config.update("jaxtyping_disable", not any(place.is_relative_to(one) for one in CHECKED))
    yield
    config.update("jaxtyping_disable", True)
