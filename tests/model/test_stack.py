"""Embedding of tokens, and activation checkpointing."""

from collections import Counter
from math import sqrt

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.model.build import build
from glassformer.model.decoder import TransformerDecoder
from glassformer.model.embedding import TokenEmbedding
from glassformer.model.encoder import TransformerEncoder
from glassformer.model.positions import NoPositions, sinusoids
from glassformer.model.stack import Stack

V, D = 11, 8
SOURCE = torch.tensor([[3, 5, 2, 9, 4], [7, 1, 6, 0, 0]])
TARGET = torch.tensor([[1, 8, 10], [2, 4, 0]])


def translator(**changes: object) -> nn.Module:
    torch.manual_seed(1)
    sizes = {"vocab_size": V, "d_model": D, "d_ff": 16, "encoder_layers": 4, "decoder_layers": 4}
    return build("tiny", **sizes, **changes).double().train()


def loss_of(model: nn.Module) -> Tensor:
    torch.manual_seed(2)
    return F.cross_entropy(model(SOURCE, TARGET).flatten(0, 1), TARGET.flatten())


@pytest.mark.parametrize("positions", ["rope", "relative"])
@pytest.mark.parametrize("attention", ["fused", "readable"])
def test_checkpointing_gives_identical_loss_and_gradients_with_dropout(attention, positions):
    drops = {"dropout": 0.3, "attention_dropout": 0.2, "feed_forward_dropout": 0.2}
    results = []
    for checkpointing in (False, True):
        model = translator(
            attention=attention,
            positions=positions,
            activation_checkpointing=checkpointing,
            **drops,
        )
        loss = loss_of(model)
        loss.backward()
        results.append([loss, *(p.grad for p in model.parameters())])
    assert all(map(torch.equal, *results))
    assert any(gradient.abs().max() > 0 for gradient in results[0][1:])


@pytest.mark.parametrize(
    ("checkpointing", "training", "forwards"), [(True, True, 2), (False, True, 1), (True, False, 1)]
)
def test_checkpointing_recomputes_each_layer_in_training_only(checkpointing, training, forwards):
    model = translator(activation_checkpointing=checkpointing).train(training)
    calls: Counter[str] = Counter()
    for name, module in model.named_modules():
        if name.endswith("feed_forward"):
            module.register_forward_pre_hook(lambda *_, name=name: calls.update([name]))
    loss_of(model).backward()
    assert len(calls) == 8 and set(calls.values()) == {forwards}


def saved_bytes(model: nn.Module) -> int:
    """Return the bytes that autograd stores for the backward pass, without the weights."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = loss_of(model)
    for parameter in model.parameters():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    assert loss.requires_grad  # keeps the graph and its stored tensors alive
    return sum(kept.values())


def test_checkpointing_stores_less():
    # The checkpoint stores the inputs of layers, which are small.
    inputs = sum(stack.nelement() * D * 8 * 4 for stack in (SOURCE, TARGET))
    kept = saved_bytes(translator(activation_checkpointing=True)) + inputs
    assert kept < saved_bytes(translator()) / 3


@pytest.mark.parametrize("stack", [TransformerEncoder, TransformerDecoder])
def test_a_stack_without_layers_is_refused(stack):
    with pytest.raises(InputError, match="no layers") as caught:
        stack(TokenEmbedding(V, D), NoPositions(), [])
    assert "one or more layers" in caught.value.why
    assert "at least one layer" in caught.value.remedy


def test_dropout_follows_embedding_and_positions():
    stack: Stack = translator(dropout=0.5).encoder
    positions = torch.arange(3, 8)
    rows = stack.embedding.weight[SOURCE] * sqrt(D)
    expected = rows + sinusoids(positions, D)
    torch.testing.assert_close(stack.eval().embed(SOURCE, positions), expected, rtol=0, atol=1e-12)
    ratio = stack.train().embed(SOURCE, positions) / expected
    assert set(ratio.round(decimals=9).unique().tolist()) == {0.0, 2.0}


def test_a_norm_of_the_embedding_applies_to_its_sum_with_the_positions():
    model, ids = build("tiny", embedding_norm=True).eval(), torch.tensor([[3, 0, 6]])
    encoder = model.encoder
    nn.init.normal_(encoder.embedding_norm.gain)
    plain = encoder.positions(encoder.embedding(ids))
    found = encoder.embed(ids, torch.arange(3))
    torch.testing.assert_close(found, encoder.embedding_norm(plain))


def test_a_decoder_may_start_from_zeros():
    model, ids = build("tiny", start_vector="zeros").eval(), torch.tensor([[3, 0, 6]])
    decoder, positions = model.decoder, torch.arange(3)
    found = decoder.embed(ids, positions)
    expected = decoder.positions.embed(decoder.embedding(ids), positions)
    torch.testing.assert_close(found[:, 1:], expected[:, 1:])
    torch.testing.assert_close(found[0, 0], sinusoids(positions[:1], 128)[0].float())
