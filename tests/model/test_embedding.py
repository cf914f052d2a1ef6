"""Token embedding: rows of the table times √d_model, and refused ids."""

from math import sqrt

import pytest
import torch
from torch import Tensor, nn

from glassformer.errors import InputError
from glassformer.model.embedding import TokenEmbedding

V, D = 7, 5


@pytest.fixture
def embedding() -> TokenEmbedding:
    embedding = TokenEmbedding(V, D).double()
    nn.init.normal_(embedding.weight)
    return embedding


def refusal(embedding: TokenEmbedding, ids: Tensor) -> InputError:
    with pytest.raises(InputError) as caught:
        embedding(ids)
    return caught.value


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_each_id_gets_its_row_times_the_root_of_the_width(embedding, dtype):
    ids = torch.randint(V, (3, 4), dtype=dtype)
    one_hot = nn.functional.one_hot(ids.long(), V).double()
    torch.testing.assert_close(
        embedding(ids), one_hot @ embedding.weight * sqrt(D), rtol=0, atol=1e-12
    )


def test_the_first_and_the_last_id_are_valid(embedding):
    assert embedding(torch.tensor([[0, V - 1]])).shape == (1, 2, D)


@pytest.mark.parametrize("bad", [-1, V, V + 100])
def test_an_id_outside_the_vocabulary_is_an_error_that_names_it(embedding, bad):
    error = refusal(embedding, torch.tensor([[1, 2], [bad, 3]]))
    assert error.what == f"Token id {bad} is outside the vocabulary."
    assert f"{V} entries" in error.why and f"from 0 to {V - 1}" in error.why
    assert "tokenizer" in error.remedy and "vocab_size" in error.remedy


@pytest.mark.parametrize(
    "ids",
    [
        torch.ones(2, 3),
        torch.ones(2, 3, dtype=torch.bool),
        torch.ones(2, 3, dtype=torch.complex64),
        torch.tensor(1),
        torch.tensor([1, 2, 3]),
        torch.ones(1, 2, 3, dtype=torch.long),
    ],
    ids=["float", "bool", "complex", "0-d", "1-d", "3-d"],
)
def test_ids_of_wrong_dtype_or_rank_are_refused(embedding, ids):
    error = refusal(embedding, ids)
    assert str(tuple(ids.shape)) in error.what and str(ids.dtype) in error.what
    assert "integers of shape (batch, length)" in error.why
    assert "ids.long()" in error.remedy and "ids[None]" in error.remedy


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_short_integers_work_or_are_refused_with_the_remedy(embedding, dtype):
    ids = torch.randint(V, (3, 4))
    try:
        embedded = embedding(ids.to(dtype))
    except InputError as error:
        assert str(dtype) in error.what and "ids.long()" in error.remedy
    else:
        assert torch.equal(embedded, embedding(ids))


def test_an_empty_sequence_is_refused(embedding):
    error = refusal(embedding, torch.empty(2, 0, dtype=torch.long))
    assert "(2, 0)" in error.what and "empty" in error.what
    assert "at least one token" in error.why
    assert "end-of-sentence" in error.remedy


def test_an_empty_batch_gives_an_empty_output(embedding):
    assert embedding(torch.empty(0, 3, dtype=torch.long)).shape == (0, 3, D)


def test_the_factor_can_be_left_out():
    embedding = TokenEmbedding(7, 4, scale=1.0)
    nn.init.normal_(embedding.weight)
    ids = torch.tensor([[3, 0, 6]])
    assert torch.equal(embedding(ids), embedding.weight[ids])
