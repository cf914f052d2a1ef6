"""A bag-of-n-grams classifier: each n-gram has a vote for each class, wherever it occurs."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

MIX = 0x2545F4914F6CDD1D  # an odd number whose products spread over all 64 bits
ALONE, BEGINS, CONTINUES = range(3)  # how a token is part of a word


class NgramVotes(nn.Module):
    """Sum the votes of a text's distinct n-grams of up to `longest` words, for each class.

    A word is a token and the tokens that continue it; `kinds` marks these, none until it is set.
    A word of one token has its own row of the table. All other n-grams share `places` rows by a
    hash. The votes are fitted before training (`train/votes.py`) and have no gradient.
    """

    def __init__(
        self, vocab_size: int, n_classes: int, longest: int, places: int, pad_id: int = 0
    ) -> None:
        super().__init__()
        self.vocab_size, self.longest, self.places = vocab_size, longest, places
        self.pad_id = pad_id
        votes = torch.empty(n_classes, vocab_size + places)
        self.weight = nn.Parameter(votes, requires_grad=False)
        self.kinds = nn.Parameter(torch.zeros(vocab_size), requires_grad=False)

    def forward(self, ids: Tensor) -> Float[Tensor, "B C"]:
        places, count = self.distinct(ids)
        return (self.votes(places) * count).sum(-1).T

    def votes(self, places: Int[Tensor, "B N"]) -> Float[Tensor, "C B N"]:
        return self.weight[:, places]

    def distinct(
        self, ids: Tensor, finer: int = 1
    ) -> tuple[Int[Tensor, "B N"], Bool[Tensor, "B N"]]:
        """Return the places of all n-grams, sorted, and whether each counts.

        Repetitions of a place do not count, nor do n-grams with padding.
        """
        places = self.places_of(ids, finer).sort(1).values
        first = torch.ones_like(places, dtype=torch.bool)
        first[:, 1:] = places[:, 1:] != places[:, :-1]
        return places, first & (places != self.pad_id)

    def places_of(self, ids: Tensor, finer: int = 1) -> Int[Tensor, "B N"]:
        """Return the place of each n-gram; that of padding where it contains padding.

        Places are in a table `finer` times as large; `coarse` maps them to this table.
        """
        words = self.words(ids)
        code, whole = words, words != self.pad_id
        own = (code >= 0) & (code < self.vocab_size)
        found = [torch.where(own, code, self._shared(code, finer))]
        for n in range(2, min(self.longest, words.size(1)) + 1):
            code = code[:, :-1] * MIX + n + words[:, n - 1 :]
            whole = whole[:, :-1] & (words[:, n - 1 :] != self.pad_id)
            found.append(torch.where(whole, self._shared(code, finer), self.pad_id))
        return torch.cat(found, 1)

    def words(self, ids: Tensor) -> Int[Tensor, "B S"]:
        """Return a number for each word, padded behind the last.

        The number of a word is Σ idₚ · MIXᵖ: the id of a single token, a hash of several.
        """
        ids, kinds = ids.long(), self.kinds[ids]
        goes_on = torch.zeros_like(ids, dtype=torch.bool)
        goes_on[:, 1:] = (kinds[:, 1:] == CONTINUES) & (kinds[:, :-1] != ALONE)
        place = torch.arange(ids.size(1), device=ids.device)
        within = place - torch.where(goes_on, 0, place).cummax(1).values
        powers = torch.full_like(place, MIX).cumprod(0).roll(1)
        powers[0] = 1
        word = (~goes_on).cumsum(1) - 1
        numbers = torch.zeros_like(ids).scatter_add_(1, word, ids * powers[within])
        return numbers.masked_fill_(place > word[:, -1:], self.pad_id)

    def coarse(self, places: Int[Tensor, "*n"]) -> Int[Tensor, "*n"]:
        hashed = self.vocab_size + (places - self.vocab_size) % self.places
        return torch.where(places < self.vocab_size, places, hashed)

    def _shared(self, code: Int[Tensor, "B N"], finer: int) -> Int[Tensor, "B N"]:
        return self.vocab_size + (code * MIX >> 24) % (self.places * finer)
