"""N-grams vote: each different one of a text once, wherever it stands, and padding never."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from glassformer.errors import SettingsError
from glassformer.model.build import build
from glassformer.model.ngrams import NgramVotes

V, C = 7, 3
TEXTS = [[4, 5, 4, 5], [6, 6, 6], [3]]


def votes_of(longest: int, places: int = 50_000) -> NgramVotes:
    votes = NgramVotes(V, C, longest, places)
    torch.nn.init.normal_(votes.weight)
    return votes


def padded(texts: list[list[int]], width: int = 6) -> Tensor:
    return torch.tensor([text + [0] * (width - len(text)) for text in texts])


def alone(votes: NgramVotes, ngram: tuple[int, ...]) -> int:
    """The place of one n-gram: the last that a text of nothing else has."""
    return int(votes.places_of(torch.tensor([ngram]))[0, -1])


@pytest.mark.parametrize("longest", [1, 2, 3, 4])
def test_a_text_gets_the_sum_over_the_set_of_its_ngrams(longest):
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


def test_single_tokens_have_places_of_their_own_and_longer_ones_lie_behind():
    votes = votes_of(3, places=4)
    places = votes.places_of(torch.tensor([[4, 5, 6, 3]]))[0].tolist()
    assert places[:4] == [4, 5, 6, 3]
    assert all(V <= place < V + 4 for place in places[4:]) and len(places) == 4 + 3 + 2


def test_a_finer_table_tells_more_apart_and_its_places_lead_back():
    votes = votes_of(3, places=5)
    ids = torch.randint(1, V, (8, 6))
    fine = votes.places_of(ids, finer=1_000)
    assert torch.equal(votes.coarse(fine), votes.places_of(ids))
    assert fine.unique().numel() > votes.places_of(ids).unique().numel()


def test_the_order_of_tokens_matters_to_pairs_and_not_to_single_ones():
    one, other = torch.tensor([[4, 5, 6]]), torch.tensor([[6, 5, 4]])
    single, pairs = votes_of(1), votes_of(2)
    assert_close(single(one), single(other))
    assert not torch.allclose(pairs(one), pairs(other))


def test_neither_padding_nor_neighbours_change_what_is_said_of_a_text():
    votes = votes_of(3)
    together = votes(padded(TEXTS, width=9))
    for text, row in zip(TEXTS, together, strict=True):
        assert_close(votes(torch.tensor([text]))[0], row)


def test_ngrams_of_a_long_table_spread_over_it():
    """A hash that used few places would make strangers of one mind."""
    votes = NgramVotes(V, C, 2, 1_000)
    ids = torch.tensor([[a, b] for a in range(1, 200) for b in range(1, 6)])
    places = votes.places_of(ids)[:, -1]
    assert places.unique().numel() > 0.9 * 1_000 * (1 - 2.71828 ** (-len(ids) / 1_000))


def test_a_classifier_says_the_mean_of_both_opinions_and_learns_its_own():
    model = build("tiny", kind="classifier", vocab_size=V, n_classes=C, ngrams=2).eval()
    torch.nn.init.normal_(model.votes.weight)
    ids = padded(TEXTS)
    own = model.output(model.features(ids))
    assert_close(model(ids), (own + model.votes(ids)) / 2)
    model(ids).sum().backward()
    assert model.votes.weight.grad is None and model.output.weight.grad is not None


def test_before_they_are_counted_they_say_nothing():
    model = build("tiny", kind="classifier", vocab_size=V, ngrams=3)
    assert (model.votes(padded(TEXTS)) == 0).all()


@pytest.mark.parametrize("kind", ["translator", "tagger", "masked-language-model"])
def test_only_a_classifier_has_votes(kind):
    with pytest.raises(SettingsError, match="ngrams = 2 does not go with kind"):
        build("tiny", kind=kind, ngrams=2)
