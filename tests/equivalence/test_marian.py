"""The same weights in Hugging Face's MarianMTModel give the same logits and the same gradients."""

import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equivalence.variants import PAD, batch, real, toy
from glassformer.errors import InputError, MissingPackageError
from glassformer.interop.links import Link
from glassformer.interop.marian import marian_links, to_marian

CLOSE = {"atol": 1e-10, "rtol": 1e-10}
PAPER = {"residual": "post-norm", "encoder_layers": 2}


def marian_logits(theirs: Any, source: Tensor, target: Tensor) -> Tensor:
    return theirs(
        input_ids=source,
        attention_mask=source != PAD,
        decoder_input_ids=target,
        decoder_attention_mask=target != PAD,
    ).logits


@pytest.mark.parametrize("attention_bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize(
    "ties",
    [
        {},
        {"tie_target_output": False},
        {"tie_source_target": False},
        {"tie_source_target": False, "source_vocab_size": 13},
        {"tie_source_target": False, "tie_target_output": False},
    ],
    ids=["all tied", "output apart", "source apart", "source of another size", "none tied"],
)
def test_logits_and_gradients_equal_marian_s(ties: dict[str, Any], attention_bias: bool) -> None:
    ours = toy(**PAPER, **ties, attention_bias=attention_bias)
    theirs = to_marian(ours, max_length=8)
    links = list(marian_links(ours, theirs))
    assert {id(link.ours) for link in links} == {id(p) for p in ours.parameters()}
    linked = {id(link.theirs) for link in links}
    trained = {name: p for name, p in theirs.named_parameters() if p.requires_grad}
    biases = {name for name in trained if "attn." in name and name.endswith("bias")}
    unlinked = {name for name, p in trained.items() if id(p) not in linked}
    assert unlinked == (set() if attention_bias else biases)

    ids = batch("translator")
    outputs = [real(logits, ids) for logits in (ours(*ids), marian_logits(theirs, *ids))]
    assert_close(*outputs, **CLOSE)
    weights = torch.randn_like(outputs[0])
    for output in outputs:
        (output * weights).sum().backward()
    for mine, other in map(Link.gradients, links):
        assert_close(mine, other, **CLOSE)


@pytest.mark.parametrize(
    ("choice", "what", "needed"),
    [
        ({"residual": "pre-norm"}, "PreNorm", "post-norm residuals"),
        ({"norm": "rms-norm"}, "RMSNorm", "layer-norm"),
        ({"feed_forward": "gelu"}, "GELUFeedForward", "a relu or silu feed-forward"),
        ({"feed_forward": "swiglu"}, "SwiGLUFeedForward", "a relu or silu feed-forward"),
        ({"positions": "rope"}, "RotaryEmbedding", "sinusoidal positions"),
        ({"positions": "learned"}, "LearnedPositions", "sinusoidal positions"),
        ({"n_kv_heads": 2}, "Grouped queries", "n_kv_heads = n_heads"),
    ],
    ids=str,
)
def test_what_marian_cannot_express_is_refused(
    choice: dict[str, Any], what: str, needed: str
) -> None:
    with pytest.raises(InputError, match=f"{what} cannot be written as a MarianMTModel") as error:
        to_marian(toy(**PAPER | choice))
    assert error.value.why == f"Marian has the paper's architecture, with {needed}."
    assert "vaswani2017-base" in error.value.remedy


def test_without_transformers_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingPackageError, match="'transformers' is not installed") as error:
        to_marian(toy(**PAPER))
    assert "MarianMTModel" in error.value.why
    assert "glassformer[peers]" in error.value.remedy
