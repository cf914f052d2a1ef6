"""The logit lens: its last layer is the model, and a layer that adds nothing changes nothing."""

import pytest
import torch

from glassformer.inspect.lens import logit_lens
from glassformer.inspect.maps import decode

SOURCE, INPUTS = [5, 6, 7, 3], [2, 8, 9]


@pytest.mark.parametrize("norm", ["pre-norm", "post-norm"])
def test_the_last_layer_predicts_what_the_model_does(untrained, norm: str) -> None:
    model = untrained(residual=norm).model
    found = logit_lens(model, SOURCE, INPUTS)
    expected, _ = decode([model], SOURCE, INPUTS)
    assert len(found) == 1 + len(model.decoder.layers)
    torch.testing.assert_close(found[-1], expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(found[0], found[-1])


def test_a_layer_that_adds_nothing_leaves_the_prediction(untrained) -> None:
    model = untrained("language-model").model
    last = model.decoder.layers[-1]
    for name, weights in last.named_parameters():
        if name.endswith("output.weight") or "feed_forward" in name:
            weights.data.zero_()
    found = logit_lens(model, None, INPUTS)
    torch.testing.assert_close(found[-1], found[-2])
    assert not last._forward_hooks and not model.decoder.layers[0]._forward_pre_hooks
