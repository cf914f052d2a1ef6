"""N-gram logits: each distinct n-gram counts once, padding never."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from glassformer.errors import SettingsError
from glassformer.model.build import build
from glassformer.model.ngrams import ALONE, BEGINS, CONTINUES, NgramVotes

V, C = 7, 3
TEXTS = [[4, 5, 4, 5], [6, 6, 6], [3]]


def votes_of(longest: int, places: int = 50_000) -> NgramVotes:
    votes = NgramVotes(V, C, longest, places)
    torch.nn.init.normal_(votes.weight)
    return votes


def padded(texts: list[list[int]], width: int = 6) -> Tensor:
    return torch.tensor([text + [0] * (width - len(text)) for text in texts])


def alone(votes: NgramVotes, ngram: tuple[int, ...]) -> int:
    """Return the row of one n-gram: the last of a text that is only this n-gram."""
    return int(votes.places_of(torch.tensor([ngram]))[0, -1])


@pytest.mark.parametrize("longest", [1, 2, 3, 4])
def test_logits_are_the_sum_over_distinct_ngrams(longest):
    votes = votes_of(longest)
    expected = []
    for text in TEXTS:
        ngrams = {
            tuple(text[i : i + n]) for n in range(1, longest + 1) for i in range(len(text) - n + 1)
        }
        places = {alone(votes, ngram) for ngram in ngrams}
        assert len(places) == len(ngrams), "no two of so few share a place of so many"
        expected.append(votes.weight[:, sorted(places)].sum(1))
    assert_close(votes(padded(TEXTS)), torch.stack(expected))


def test_single_tokens_have_own_rows_and_longer_ngrams_share_buckets():
    votes = votes_of(3, places=4)
    places = votes.places_of(torch.tensor([[4, 5, 6, 3]]))[0].tolist()
    assert places[:4] == [4, 5, 6, 3]
    assert all(V <= place < V + 4 for place in places[4:]) and len(places) == 4 + 3 + 2


def test_a_finer_table_has_fewer_collisions_and_maps_to_the_coarse_one():
    votes = votes_of(3, places=5)
    ids = torch.randint(1, V, (8, 6))
    fine = votes.places_of(ids, finer=1_000)
    assert torch.equal(votes.coarse(fine), votes.places_of(ids))
    assert fine.unique().numel() > votes.places_of(ids).unique().numel()


def test_order_matters_to_bigrams_only():
    one, other = torch.tensor([[4, 5, 6]]), torch.tensor([[6, 5, 4]])
    single, pairs = votes_of(1), votes_of(2)
    assert_close(single(one), single(other))
    assert not torch.allclose(pairs(one), pairs(other))


def test_padding_and_batch_do_not_change_logits():
    votes = votes_of(3)
    together = votes(padded(TEXTS, width=9))
    for text, row in zip(TEXTS, together, strict=True):
        assert_close(votes(torch.tensor([text]))[0], row)


def test_hashes_spread_over_the_table():
    """A hash that uses few buckets would collide often."""
    votes = NgramVotes(200, C, 2, 1_000)
    ids = torch.tensor([[a, b] for a in range(1, 200) for b in range(1, 6)])
    places = votes.places_of(ids)[:, -1]
    assert places.unique().numel() > 0.9 * 1_000 * (1 - 2.71828 ** (-len(ids) / 1_000))


def with_words(longest: int = 2) -> NgramVotes:
    """Tokens 1 and 2 are marks; 3 and 4 begin words, 5 and 6 continue them."""
    votes = votes_of(longest)
    kinds = [ALONE, ALONE, ALONE, BEGINS, BEGINS, CONTINUES, CONTINUES]
    votes.kinds.data = torch.tensor(kinds, dtype=torch.float)
    return votes


def test_tokens_are_grouped_to_words_and_padded_at_the_end():
    votes = with_words()
    ids = padded([[3, 5, 4, 2, 6], [3, 5, 6, 3, 6, 5], [4, 3, 5]])
    first, second, third = votes.words(ids).tolist()
    assert first[1:] == [4, 2, 6, 0, 0], "what continues nothing stands alone"
    assert second[2:] == [0, 0, 0, 0] and second[0] != second[1], "their order matters"
    assert third == [4, first[0], 0, 0, 0, 0]
    assert len({*second[:2], first[0]} - set(range(V))) == 3, "and none is taken for a token"


def test_a_word_of_several_tokens_has_one_row_at_any_position():
    votes = with_words(1)
    (word,) = votes(torch.tensor([[3, 5]]))
    assert_close(votes(torch.tensor([[3, 5, 2, 3, 5]]))[0], word + votes.weight[:, 2])


def test_bigrams_are_of_words():
    """a|b c and a b|c are the same tokens in other words."""
    votes = with_words()
    both = torch.tensor([[3, 4, 5], [3, 5, 4]])
    one, other = (set(row.tolist()) - {votes.pad_id} for row in votes.places_of(both))
    assert len(one) == len(other) == 3, "two words and a pair"
    assert not one & other


def test_padding_does_not_change_grouped_words():
    votes = with_words(3)
    texts = [[3, 5, 6, 4, 2, 3, 5], [6, 5, 3], [4]]
    for width in (7, 9, 12):
        together = votes(padded(texts, width))
        for row, text in zip(together, texts, strict=True):
            assert_close(row, votes(torch.tensor([text]))[0])


@pytest.mark.parametrize("share", [0.0, 0.5, 0.65])
def test_a_classifier_mixes_both_logits_and_trains_the_encoder_only(share):
    shape = {"vocab_size": V, "n_classes": C, "ngrams": 2, "ngram_share": share}
    model = build("tiny", kind="classifier", **shape).eval()
    torch.nn.init.normal_(model.votes.weight)
    ids = padded(TEXTS)
    own = model.output(model.features(ids))
    assert_close(model(ids), (1 - share) * own + share * model.votes(ids))
    model(ids).sum().backward()
    assert model.votes.weight.grad is None and model.output.weight.grad is not None


def test_unfitted_ngram_logits_are_zero():
    model = build("tiny", kind="classifier", vocab_size=V, ngrams=3)
    assert (model.votes(padded(TEXTS)) == 0).all()


@pytest.mark.parametrize("kind", ["translator", "tagger", "masked-language-model"])
def test_only_a_classifier_may_have_ngrams(kind):
    with pytest.raises(SettingsError, match="ngrams = 2 does not go with kind"):
        build("tiny", kind=kind, ngrams=2)
