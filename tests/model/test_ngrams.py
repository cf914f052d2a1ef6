"""N-grams vote: each different one of a text once, wherever it stands, and padding never."""

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


def test_words_of_several_tokens_are_one_and_padding_follows_the_last():
    votes = with_words()
    ids = padded([[3, 5, 4, 2, 6], [3, 5, 6, 3, 6, 5], [4, 3, 5]])
    first, second, third = votes.words(ids).tolist()
    assert first[1:] == [4, 2, 6, 0, 0], "what continues nothing stands alone"
    assert second[2:] == [0, 0, 0, 0] and second[0] != second[1], "their order matters"
    assert third == [4, first[0], 0, 0, 0, 0]
    assert len({*second[:2], first[0]} - set(range(V))) == 3, "and none is taken for a token"


def test_a_word_of_several_tokens_has_one_vote_wherever_it_stands():
    votes = with_words(1)
    (word,) = votes(torch.tensor([[3, 5]]))
    assert_close(votes(torch.tensor([[3, 5, 2, 3, 5]]))[0], word + votes.weight[:, 2])


def test_pairs_are_of_words():
    """a|b c and a b|c are the same tokens in other words."""
    votes = with_words()
    both = torch.tensor([[3, 4, 5], [3, 5, 4]])
    one, other = (set(row.tolist()) - {votes.pad_id} for row in votes.places_of(both))
    assert len(one) == len(other) == 3, "two words and a pair"
    assert not one & other


def test_padding_changes_nothing_where_tokens_make_words():
    votes = with_words(3)
    texts = [[3, 5, 6, 4, 2, 3, 5], [6, 5, 3], [4]]
    for width in (7, 9, 12):
        together = votes(padded(texts, width))
        for row, text in zip(together, texts, strict=True):
            assert_close(row, votes(torch.tensor([text]))[0])


@pytest.mark.parametrize("share", [0.0, 0.5, 0.65])
def test_a_classifier_weighs_both_opinions_and_learns_its_own(share):
    shape = {"vocab_size": V, "n_classes": C, "ngrams": 2, "ngram_share": share}
    model = build("tiny", kind="classifier", **shape).eval()
    torch.nn.init.normal_(model.votes.weight)
    ids = padded(TEXTS)
    own = model.output(model.features(ids))
    assert_close(model(ids), (1 - share) * own + share * model.votes(ids))
    model(ids).sum().backward()
    assert model.votes.weight.grad is None and model.output.weight.grad is not None


def test_before_they_are_counted_they_say_nothing():
    model = build("tiny", kind="classifier", vocab_size=V, ngrams=3)
    assert (model.votes(padded(TEXTS)) == 0).all()


@pytest.mark.parametrize("kind", ["translator", "tagger", "masked-language-model"])
def test_only_a_classifier_has_votes(kind):
    with pytest.raises(SettingsError, match="ngrams = 2 does not go with kind"):
        build("tiny", kind=kind, ngrams=2)
