"""A bag of n-grams: what each of them, wherever it stands in a text, says for each class."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

MIX = 0x2545F4914F6CDD1D  # an odd number whose products spread over all 64 bits
ALONE, BEGINS, CONTINUES = range(3)  # what a token is to words


class NgramVotes(nn.Module):
    """For each class the sum of the votes of a text's different n-grams, of up to `longest` words.

    A word is a token, with those behind it that continue it; `kinds` tells which may, and until
    it is set none does. Words of one token have places of their own in the table; others, and
    longer n-grams, share `places` others by a hash. The votes are counted and fitted before
    training (`train/votes.py`), and no gradient changes them.
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
        """The place of every n-gram, in order, and whether it counts.

        A second one of the same place does not, nor does one with padding in it.
        """
        places = self.places_of(ids, finer).sort(1).values
        first = torch.ones_like(places, dtype=torch.bool)
        first[:, 1:] = places[:, 1:] != places[:, :-1]
        return places, first & (places != self.pad_id)

    def places_of(self, ids: Tensor, finer: int = 1) -> Int[Tensor, "B N"]:
        """Of all words, all pairs of neighbours, and so on; padding's where one has padding.

        In a table `finer` times as large, whose places `coarse` brings back to this one's.
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
        """A number for each word, with padding behind the last.

        A token alone is its own number; of several it is Σ idₚ · MIXᵖ, which hardly two words
        have in common.
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
