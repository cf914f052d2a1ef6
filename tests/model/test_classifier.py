"""Heads on the encoder: pooling over the real tokens alone, and logits that padding leaves be."""

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
def test_pooling_is_over_the_real_tokens_alone(pooling):
    x = torch.randn(3, 4, 8, dtype=torch.float64) - 2  # mostly below zero: a zero would be seen
    expected = [
        pooled_by_hand(pooling, [x[row, i] for i in range(4) if IDS[row, i] != 0])
        for row in range(3)
    ]
    actual = POOLS[pooling](x, padding_mask(IDS))
    torch.testing.assert_close(actual, torch.stack(expected), **exact)


@pytest.mark.parametrize("pooling", POOLS)
def test_one_mask_serves_the_whole_batch(pooling):
    x, mask = torch.randn(3, 4, 8, dtype=torch.float64), padding_mask(IDS[1:2])
    pool = POOLS[pooling]
    torch.testing.assert_close(pool(x, mask), pool(x, mask.expand(3, 1, 1, 4)), **exact)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_text_of_nothing_but_padding_pools_to_zeros(pooling):
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    pooled = POOLS[pooling](x, padding_mask(ALL_PADDING))
    assert (pooled[1] == 0).all() and (pooled[0] != 0).all()


@pytest.mark.parametrize("pooling", POOLS)
def test_a_text_of_nothing_but_padding_leaves_every_gradient_finite(pooling):
    model = model_of(pooling=pooling).train()
    model(ALL_PADDING).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert model.encoder.embedding.weight.grad.abs().max() > 0


@pytest.mark.parametrize("pooling", POOLS)
def test_a_classifier_pools_and_projects_what_the_encoder_gives(pooling):
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
def test_an_answer_in_place_looks_both_ways_and_at_no_padding(kind):
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
def test_a_mask_that_is_given_wins_over_the_padding(kind):
    model, all_real = model_of(kind), torch.ones(1, 1, 1, 4, dtype=torch.bool)
    given, default = model(IDS, all_real), model(IDS)
    model.pad_id = 10  # no sentence has it
    torch.testing.assert_close(given, model(IDS), **exact)
    assert not torch.allclose(given[1:], default[1:])


@pytest.mark.parametrize("kind", ["classifier", *IN_PLACE])
def test_dropout_falls_before_the_output_in_training(kind):
    model = model_of(kind, dropout=0.5)
    seen: list[Tensor] = []
    model.output.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model.encoder.eval()  # the same vectors both times; the head's own dropout is what is left
    for training in (False, True):
        model.dropout.train(training)
        model(IDS)
    whole, dropped = seen
    assert set((dropped / whole).round(decimals=9).unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("pool", [mean_pool, max_pool])
def test_pooling_refuses_a_mask_that_does_not_say_which_tokens_are_real(pool):
    with pytest.raises(InputError, match=r"shape \(2, 1, 3, 3\)") as caught:
        pool(torch.randn(2, 3, 4), torch.ones(2, 1, 3, 3, dtype=torch.bool))
    assert "(batch, 1, 1, length)" in caught.value.why
    assert "padding_mask" in caught.value.remedy
