"""Classifier and tagger: pooling over real tokens, and logits without padding effects."""

import pytest
import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.model.build import build
from glassformer.model.classifier import first_pool, max_pool, mean_pool
from glassformer.model.masks import padding_mask

POOLS = {"mean": mean_pool, "first": first_pool, "max": max_pool}
IN_PLACE = ["tagger", "masked-language-model"]
IDS = torch.tensor([[4, 1, 3, 7], [2, 8, 0, 0], [5, 0, 0, 0]])
ALL_PADDING = torch.tensor([[4, 1, 3], [0, 0, 0]])
exact = {"rtol": 0, "atol": 1e-12}


def model_of(kind: str = "classifier", **changes: object):
    sizes = {"vocab_size": 11, "d_model": 8, "d_ff": 16, "encoder_layers": 2, "n_classes": 3}
    return build("tiny", kind=kind, **sizes, **changes).double().eval()


def pooled_by_hand(pooling: str, tokens: list[Tensor]) -> Tensor:
    total = largest = tokens[0]
    for token in tokens[1:]:
        total, largest = total + token, torch.maximum(largest, token)
    return {"mean": total / len(tokens), "first": tokens[0], "max": largest}[pooling]


@pytest.mark.parametrize("pooling", POOLS)
def test_pooling_ignores_padding(pooling):
    x = (
        torch.randn(3, 4, 8, dtype=torch.float64) - 2
    )  # mostly below zero, so that a zero would show
    expected = [
        pooled_by_hand(pooling, [x[row, i] for i in range(4) if IDS[row, i] != 0])
        for row in range(3)
    ]
    actual = POOLS[pooling](x, padding_mask(IDS))
    torch.testing.assert_close(actual, torch.stack(expected), **exact)


@pytest.mark.parametrize("pooling", POOLS)
def test_a_mask_is_broadcast_over_the_batch(pooling):
    x, mask = torch.randn(3, 4, 8, dtype=torch.float64), padding_mask(IDS[1:2])
    pool = POOLS[pooling]
    torch.testing.assert_close(pool(x, mask), pool(x, mask.expand(3, 1, 1, 4)), **exact)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_text_of_padding_only_pools_to_zeros(pooling):
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    pooled = POOLS[pooling](x, padding_mask(ALL_PADDING))
    assert (pooled[1] == 0).all() and (pooled[0] != 0).all()


@pytest.mark.parametrize("pooling", POOLS)
def test_a_text_of_padding_only_has_finite_gradients(pooling):
    model = model_of(pooling=pooling).train()
    model(ALL_PADDING).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert model.encoder.embedding.weight.grad.abs().max() > 0


@pytest.mark.parametrize("pooling", POOLS)
def test_a_classifier_pools_and_projects_the_encoder_output(pooling):
    model, mask = model_of(pooling=pooling), padding_mask(IDS)
    pooled = POOLS[pooling](model.encoder(IDS, mask), mask)
    expected = pooled @ model.output.weight.T + model.output.bias
    torch.testing.assert_close(model(IDS), expected, **exact)
    assert model(IDS).shape == (3, 3)


def test_a_tagger_gives_logits_at_every_token():
    model = model_of("tagger")
    x = model.encoder(IDS, padding_mask(IDS))
    torch.testing.assert_close(model(IDS), x @ model.output.weight.T + model.output.bias, **exact)
    assert model(IDS).shape == (3, 4, 3)


def test_a_masked_language_model_gives_logits_over_its_subwords_at_every_token():
    model = model_of("masked-language-model")
    x = model.encoder(IDS, padding_mask(IDS))
    torch.testing.assert_close(model(IDS), x @ model.encoder.embedding.weight.T, **exact)
    assert model(IDS).shape == (3, 4, 11)


@pytest.mark.parametrize("kind", IN_PLACE)
def test_a_tagger_attends_both_ways_and_not_to_padding(kind):
    model, embedded = model_of(kind), []
    model.encoder.embedding.register_forward_hook(lambda *call: embedded.append(call[-1]))
    for row, answers in enumerate(model(IDS)):
        real = IDS[row] != 0
        for answer in answers[real]:
            (gradient,) = torch.autograd.grad(answer.square().sum(), embedded[0], retain_graph=True)
            assert torch.equal((gradient[row] != 0).any(-1), real)


@pytest.mark.parametrize("pad_id", [0, 6])
@pytest.mark.parametrize(
    "head",
    [*({"pooling": p} for p in POOLS), *({"kind": k} for k in IN_PLACE)],
    ids=lambda h: str(*h.values()),
)
def test_padding_does_not_change_a_sentences_logits(head, pad_id):
    model, sentence = model_of(pad_id=pad_id, **head), torch.tensor([[4, 1, 9]])
    padded = torch.cat((sentence, torch.full((1, 3), pad_id)), dim=1)
    logits = model(padded)
    kept = logits[:, :3] if logits.dim() == 3 else logits
    torch.testing.assert_close(kept, model(sentence), **exact)


@pytest.mark.parametrize("kind", ["classifier", *IN_PLACE])
def test_a_given_mask_replaces_the_padding_mask(kind):
    model, all_real = model_of(kind), torch.ones(1, 1, 1, 4, dtype=torch.bool)
    given, default = model(IDS, all_real), model(IDS)
    model.pad_id = 10  # in no sentence
    torch.testing.assert_close(given, model(IDS), **exact)
    assert not torch.allclose(given[1:], default[1:])


@pytest.mark.parametrize("kind", ["classifier", *IN_PLACE])
def test_dropout_is_applied_before_the_output_in_training(kind):
    model = model_of(kind, dropout=0.5)
    seen: list[Tensor] = []
    model.output.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model.encoder.eval()  # only the dropout of the head is active
    for training in (False, True):
        model.dropout.train(training)
        model(IDS)
    whole, dropped = seen
    assert set((dropped / whole).round(decimals=9).unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("pool", [mean_pool, max_pool])
def test_pooling_refuses_a_mask_that_is_no_padding_mask(pool):
    with pytest.raises(InputError, match=r"shape \(2, 1, 3, 3\)") as caught:
        pool(torch.randn(2, 3, 4), torch.ones(2, 1, 3, 3, dtype=torch.bool))
    assert "(batch, 1, 1, length)" in caught.value.why
    assert "padding_mask" in caught.value.remedy
