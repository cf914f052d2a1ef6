"""A bag of n-grams: what each of them, wherever it stands in a text, says for each class."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

MIX = 0x2545F4914F6CDD1D  # an odd number whose products spread over all 64 bits


class NgramVotes(nn.Module):
    """For each class the sum of the votes of a text's different n-grams, of up to `longest` tokens.

    Single tokens have places of their own in the table; longer n-grams share `places` others by a
    hash. The votes are counted and fitted before training (`train/votes.py`), and no gradient
    changes them.
    """

    def __init__(
        self, vocab_size: int, n_classes: int, longest: int, places: int, pad_id: int = 0
    ) -> None:
        super().__init__()
        self.vocab_size, self.longest, self.places = vocab_size, longest, places
        self.pad_id = pad_id
        votes = torch.empty(n_classes, vocab_size + places)
        self.weight = nn.Parameter(votes, requires_grad=False)

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
        """Of all tokens, all pairs of neighbours, and so on; padding's where one has padding.

        In a table `finer` times as large, whose places `coarse` brings back to this one's.
        """
        code = ids.long()
        found, whole = [code], ids != self.pad_id
        for n in range(2, min(self.longest, ids.size(1)) + 1):
            code = code[:, :-1] * MIX + n + ids[:, n - 1 :]
            whole = whole[:, :-1] & (ids[:, n - 1 :] != self.pad_id)
            hashed = self.vocab_size + (code * MIX >> 24) % (self.places * finer)
            found.append(torch.where(whole, hashed, self.pad_id))
        return torch.cat(found, 1)

    def coarse(self, places: Int[Tensor, "*n"]) -> Int[Tensor, "*n"]:
        hashed = self.vocab_size + (places - self.vocab_size) % self.places
        return torch.where(places < self.vocab_size, places, hashed)
