"""A Decoder that runs the model of `model/` with its key-value cache, on any device.

The hypotheses of a sentence are neighbours in the target axis: one step of a beam of width W is one
forward pass over W new tokens, all at the same position. Each attends to its own ancestors only, by
a mask. When the beam is reordered, rows of that mask are gathered; keys and values stay in place,
and those of the source are shared by all hypotheses.

    slot       0    1  2    3  4         ancestors       0 1 2 3 4
    token     <s>   a  b    c  d         <s> a c  →      ✓ ✓   ✓
                    └──┴────┘  │         <s> a d  →      ✓ ✓     ✓
                    └──────────┘
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.decode.decoder import Ids, Values
from glassformer.errors import InputError
from glassformer.model.cache import DecoderCache
from glassformer.model.masks import padding_mask
from glassformer.model.transformer import LanguageModel, Transformer


class TorchDecoder:
    """Implements `decode.decoder.Decoder` with a torch model, which it sets to evaluation mode.

    Hooks on its modules and `record_attention` see every call.
    """

    def __init__(self, model: Transformer | LanguageModel) -> None:
        self.model = model.eval()  # no dropout
        self.pad_id = model.pad_id
        self.vocab_size: int = model.output.weight.size(0)
        self.reads_source = isinstance(model, Transformer)
        self.max_target = model.decoder.positions.longest

    @torch.inference_mode()
    def start(
        self, sources: Sequence[Sequence[int]] | None, batch: int, width: int, max_length: int
    ) -> "TorchDecoding":
        capacity = max_length * width + 1
        if isinstance(self.model, LanguageModel):
            return TorchDecoding(
                self.model, self.model.decoder.start_cache(capacity, batch=batch), None, width
            )
        assert sources is not None, "a translator reads sources"
        source = self._padded(sources)
        mask = padding_mask(source, self.pad_id)
        cache = self.model.decoder.start_cache(capacity, self.model.encoder(source, mask))
        return TorchDecoding(self.model, cache, mask, width)

    def _padded(self, sources: Sequence[Sequence[int]]) -> Tensor:
        ids = np.full((len(sources), max(map(len, sources))), self.pad_id, np.int64)
        for row, source in zip(ids, sources, strict=True):
            row[: len(source)] = source
        return torch.from_numpy(ids).to(self.model.output.weight.device)


class TorchDecoding:
    """A batch of sentences with its cache."""

    def __init__(
        self,
        model: Transformer | LanguageModel,
        cache: DecoderCache,
        source_mask: Bool[Tensor, "B 1 1 S"] | None,
        width: int,
    ) -> None:
        self.model, self.cache, self.source_mask, self.width = model, cache, source_mask, width
        self.device = model.output.weight.device
        self.position = 0  # of the next token
        self.ancestors: Bool[Tensor, "B W P"] | None = None  # None: every slot so far is one

    @torch.inference_mode()
    def prefill(self, ids: Ids) -> "TorchScores":
        self.position = ids.shape[1]
        return self._forward(ids)

    @torch.inference_mode()
    def step(self, tokens: Ids, parents: Ids | None = None) -> "TorchScores":
        if tokens.shape[1] != self.width:
            raise InputError(
                f"A step of {tokens.shape[1]} hypotheses is asked for.",
                f"Decoding was started with width {self.width}.",
                "Pass one token for every hypothesis.",
            )
        positions = torch.full((self.width,), self.position, device=self.device)
        self.position += 1
        if self.width == 1:  # the only hypothesis descends from every slot
            return self._forward(tokens, None, positions)
        self._extend_ancestors(len(tokens), parents)
        assert self.ancestors is not None
        return self._forward(tokens, self.ancestors[:, None], positions)

    def _extend_ancestors(self, batch: int, parents: Ids | None) -> None:
        """Take over the parents' ancestors and add W slots; each hypothesis attends to its own."""
        if self.ancestors is None:
            shape = batch, self.width, self.cache.length
            past = torch.ones(shape, dtype=torch.bool, device=self.device)
        else:
            past = self.ancestors
            if parents is not None:
                order = torch.from_numpy(parents).to(self.device)
                past = past.gather(1, order[:, :, None].expand_as(past))
        itself = torch.eye(self.width, dtype=torch.bool, device=self.device)
        self.ancestors = torch.cat((past, itself.expand(batch, -1, -1)), dim=2)

    def _forward(
        self, ids: Ids, mask: Tensor | None = None, positions: Tensor | None = None
    ) -> "TorchScores":
        tokens = torch.from_numpy(ids).to(self.device)
        features = self.model.decoder(tokens, None, mask, self.source_mask, self.cache, positions)
        return TorchScores(self.model.output(features))

    @torch.inference_mode()
    def keep(self, sentences: Ids) -> None:
        rows = torch.from_numpy(sentences).to(self.device)
        self.cache.reorder(rows)
        if self.source_mask is not None:
            self.source_mask = self.source_mask[rows]
        if self.ancestors is not None:
            self.ancestors = self.ancestors[rows]


class TorchScores:
    """`Scores` of logits on the model's device. Only what is asked for is copied from it."""

    def __init__(self, logits: Float[Tensor, "B W V"]) -> None:
        self.logits = logits

    @torch.inference_mode()
    def top(self, k: int, banned: Sequence[int] = ()) -> tuple[Values, Ids]:
        log_probs = self._log_probs()
        log_probs[..., list(banned)] = -torch.inf
        values, ids = _top(log_probs, min(k, log_probs.size(-1)))
        ids = ids.masked_fill(values == -torch.inf, 0)
        missing = (0, k - values.size(-1))  # a vocabulary of fewer than k tokens
        values = torch.nn.functional.pad(values, missing, value=-torch.inf)
        return values.cpu().numpy(), torch.nn.functional.pad(ids, missing).cpu().numpy()

    @torch.inference_mode()
    def rows(self) -> Values:
        return self._log_probs().cpu().numpy()

    def _log_probs(self) -> Tensor:
        return self.logits.float().log_softmax(-1)


def _top(x: Float[Tensor, "B W V"], k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest values and their places, ties by the lower place.

    torch.topk is much faster than a sort, but leaves open which of several equal values it takes.
    """
    values, places = x.topk(k)
    if (x >= values[..., -1:]).sum() > values.numel():  # equal values on both sides of the cut
        values, places = x.sort(dim=-1, descending=True, stable=True)
        return values[..., :k], places[..., :k]
    places, order = places.sort(dim=-1)
    values, order = values.gather(-1, order).sort(dim=-1, descending=True, stable=True)
    return values, places.gather(-1, order)
