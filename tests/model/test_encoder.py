"""The encoder: one layer against torch, the stack by permutations and padding."""

import pytest
import torch
from torch import Tensor, nn

from glassformer.interop.links import send
from glassformer.interop.torch_nn import layer_links
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.build import build
from glassformer.model.encoder import EncoderLayer, TransformerEncoder
from glassformer.model.feed_forward import FeedForward
from glassformer.model.masks import padding_mask
from glassformer.model.norm import LayerNorm
from glassformer.model.residual import PostNorm, PreNorm

D, H, F = 8, 2, 16
SCHEMES = ["sinusoidal", "learned", "rope", "alibi", "relative", "relative-bucketed", "none"]
IDS = torch.tensor([[3, 5, 2, 9, 4], [7, 1, 6, 8, 2]])
exact = {"rtol": 0, "atol": 1e-12}


def encoder(**changes: object) -> TransformerEncoder:
    sizes = {"vocab_size": 11, "d_model": D, "n_heads": H, "d_ff": F, "encoder_layers": 2}
    model = build("tiny", kind="classifier", **sizes, **changes).double().eval()
    for weight in model.encoder.positions.parameters():
        nn.init.normal_(weight)  # learned biases start at zero, which would hide them
    return model.encoder


@pytest.mark.parametrize("residual", [PostNorm, PreNorm])
def test_a_layer_equals_torch(residual):
    attention, ffn = MultiHeadAttention(D, H, bias=True), FeedForward(D, F)
    ours = EncoderLayer(attention, ffn, lambda: residual(LayerNorm(D))).double()
    theirs = nn.TransformerEncoderLayer(
        D, H, F, dropout=0.0, norm_first=residual is PreNorm, batch_first=True
    ).double()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    send(layer_links(ours, theirs), theirs)
    x, real = torch.randn(2, 5, D).double(), torch.tensor([[1] * 5, [1, 1, 1, 0, 0]]).bool()
    expected = theirs(x, src_key_padding_mask=~real)
    torch.testing.assert_close(ours(x, real[:, None, None, :]), expected, **exact)


@pytest.mark.parametrize("residual", ["post-norm", "pre-norm"])
def test_the_stack_is_its_layers_and_a_final_norm_if_pre_norm(residual):
    stack, mask = encoder(residual=residual), padding_mask(IDS, pad_id=2)
    x: Tensor = stack.embed(IDS, torch.arange(5))
    for layer in stack.layers:
        x = layer(x, mask)
    if residual == "pre-norm":
        x = nn.functional.layer_norm(x, (D,))
    torch.testing.assert_close(stack(IDS, mask), x, **exact)


@pytest.mark.parametrize("positions", SCHEMES)
def test_the_output_depends_on_order_with_every_position_scheme(positions):
    stack, order = encoder(positions=positions), torch.tensor([0, 3, 2, 1, 4])
    is_blind = torch.allclose(stack(IDS[:, order]), stack(IDS)[:, order], **exact)
    assert is_blind == (positions == "none")


def test_each_output_depends_on_all_tokens():
    stack = encoder()
    for changed in range(5):
        other = IDS.clone()
        other[:, changed] = 10
        assert (stack(other) != stack(IDS)).any(-1).all()


@pytest.mark.parametrize("positions", SCHEMES)
def test_padding_does_not_change_real_tokens(positions):
    stack = encoder(positions=positions)
    padded = torch.cat((IDS, torch.zeros(2, 3, dtype=torch.long)), dim=1)
    real = stack(padded, padding_mask(padded))[:, :5]
    torch.testing.assert_close(real, stack(IDS), **exact)
