"""Whole models: order of the parts, and masks from padding."""

from typing import get_args

import pytest
import torch
from torch import Tensor

from glassformer.config import ModelSettings
from glassformer.errors import InputError
from glassformer.model.build import build
from glassformer.model.masks import causal_mask, padding_mask, target_mask

KINDS = get_args(ModelSettings.model_fields["kind"].annotation)
UNUSED = 10  # an id that no sentence below has
exact = {"rtol": 0, "atol": 1e-12}


def model_of(kind: str = "translator", **changes: object):
    sizes = {"vocab_size": 11, "d_model": 8, "d_ff": 16, "encoder_layers": 2, "decoder_layers": 2}
    return build("tiny", kind=kind, **sizes, **changes).double().eval()


def batch(pad_id: int) -> tuple[Tensor, Tensor]:
    """Return sources and targets of unequal lengths, padded with `pad_id`."""
    token = 3 - pad_id if pad_id in (0, 3) else 5
    source = [[4, 1, token, 7, 9], [2, 8, pad_id, pad_id, pad_id]]
    target = [[1, token, 6, 2], [1, 5, pad_id, pad_id]]
    return torch.tensor(source), torch.tensor(target)


@pytest.mark.parametrize("pad_id", [0, 3])
def test_forward_is_encoder_then_decoder_then_output(pad_id):
    model, (source, target) = model_of(pad_id=pad_id), batch(pad_id)
    real = padding_mask(source, pad_id)
    memory = model.encoder(source, real)
    x = model.decoder(target, memory, target_mask(target, pad_id), real)
    torch.testing.assert_close(model(source, target), x @ model.output.weight.T, **exact)
    torch.testing.assert_close(model.decode(target, memory, real), x, **exact)


@pytest.mark.parametrize("pad_id", [0, 3])
def test_padding_does_not_change_logits(pad_id):
    model, (source, target) = model_of(pad_id=pad_id), batch(pad_id)
    alone = model(source[1:, :2], target[1:, :2])
    torch.testing.assert_close(model(source, target)[1:, :2], alone, **exact)


def test_given_masks_replace_the_padding_masks():
    model, (source, target) = model_of(pad_id=0), batch(0)
    all_real = torch.ones(1, 1, 1, 5, dtype=torch.bool)
    given = model(source, target, all_real, causal_mask(4))
    default = model(source, target)
    source_only = model(source, target, source_mask=all_real)
    target_only = model(source, target, target_mask=causal_mask(4))
    model.pad_id = UNUSED  # no token is padding
    torch.testing.assert_close(given, model(source, target), **exact)
    for other in (default, source_only, target_only):
        assert not torch.allclose(given[1], other[1])


def test_cached_decoding_equals_one_pass():
    model, (source, target) = model_of(), batch(0)
    target = target.masked_fill(target == 0, 9)
    real = padding_mask(source)
    cache = model.decoder.start_cache(4, model.encoder(source, real))
    steps = [model.decode(ids, None, real, cache=cache) for ids in target.split(1, dim=1)]
    torch.testing.assert_close(model.output(torch.cat(steps, 1)), model(source, target), **exact)


@pytest.mark.parametrize("pad_id", [0, 3])
def test_a_language_model_is_a_decoder_and_an_output(pad_id):
    model, (ids, _) = model_of("language-model", pad_id=pad_id), batch(pad_id)
    x = model.decoder(ids, mask=target_mask(ids, pad_id))
    torch.testing.assert_close(model(ids), x @ model.output.weight.T, **exact)


def test_a_language_model_ignores_padding_unless_the_mask_allows_it():
    model, ids = model_of("language-model"), torch.tensor([[0, 4, 6]])
    torch.testing.assert_close(model(ids), model(ids, target_mask(ids)), **exact)
    seeing = model(ids, causal_mask(3))
    assert not torch.allclose(model(ids)[:, 1:], seeing[:, 1:])
    model.pad_id = UNUSED  # no token is padding
    torch.testing.assert_close(model(ids), seeing, **exact)


@pytest.mark.parametrize("steps", [[1] * 5, [3, 1, 1], [2, 3]], ids=str)
def test_a_language_model_with_a_cache_equals_one_pass(steps):
    model, ids = model_of("language-model", n_kv_heads=2), torch.randint(1, 11, (3, 5))
    cache = model.decoder.start_cache(5, batch=3)
    pieces = [model(piece, cache=cache) for piece in ids.split(steps, dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), model(ids), **exact)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "embedder"])
def test_every_model_is_its_output_of_its_features(kind):
    model, (source, target) = model_of(kind), batch(0)
    inputs = (source, target) if kind == "translator" else (source,)
    features = model.features(*inputs)
    assert features.size(-1) == 8
    torch.testing.assert_close(model(*inputs), model.output(features), **exact)


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_sentence_without_a_batch_is_refused_with_the_remedy(kind):
    model, ids = model_of(kind), torch.tensor([4, 1, 7])
    with pytest.raises(InputError) as caught:
        model(ids, ids) if kind == "translator" else model(ids)
    assert "(3,)" in caught.value.what
    assert "ids[None]" in caught.value.remedy
