"""Sentences being decoded: the source read once, then one step at a time over the cache.

The hypotheses of a sentence stand side by side in the target axis, like tokens that do not see
each other: each attends to its own ancestors and to nobody else's. Reordering a beam then reorders
a small mask. Keys and values are not copied for it, and those of the source are shared by all.

    slot       0    1  2    3  4         ancestors       0 1 2 3 4
    token     <s>   a  b    c  d         <s> a c  →      ✓ ✓   ✓
                    └──┴────┘  │         <s> a d  →      ✓ ✓     ✓
                    └──────────┘                     (b has no children: dropped)

Now and then the slots that nobody descends from, such as b's, are left out: hypotheses have most of
their past in common, so of a long answer a beam keeps little more than one hypothesis does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.decode.replay import Replay, Speaker, recordings, speak
from glassformer.model.cache import DecoderCache
from glassformer.model.masks import padding_mask
from glassformer.model.transformer import LanguageModel

USUAL = 24  # steps that there is room for at first
TIDY = 4  # steps after which a beam's slots are looked through: leaving some out copies the others


@dataclass
class _Voice:
    """One model of a session, with what it keeps of its sentences."""

    model: Speaker
    cache: DecoderCache
    source_mask: Tensor | None
    replay: Replay | None

    def says(
        self, ids: Tensor, mask: Tensor | None, positions: Tensor | None
    ) -> Float[Tensor, "B T V"]:
        if self.replay is None or positions is None:
            return speak(self.model, ids, mask, self.source_mask, self.cache, positions)
        return self.replay.step(ids, mask, self.source_mask, self.cache, positions)


class Session:
    """Sentence b of every step is sentence b of the batch, until `keep` lets sentences go.

    With several models it is an ensemble: the mean of their probabilities.
    """

    def __init__(
        self,
        models: Sequence[Speaker],
        source: Int[Tensor, "B S"] | None,
        batch: int,
        max_length: int,
        width: int = 1,
    ) -> None:
        self.width, self.steps = width, 0
        self._most = max_length * width + 1
        room = min(self._most, USUAL * width + 1)
        self.voices = [_start(model, source, batch, room) for model in models]
        self.ancestors = torch.ones(batch, width, self._most, dtype=torch.bool)
        self._itself = torch.eye(width, dtype=torch.bool)

    def prefill(self, ids: Int[Tensor, "B P"]) -> Float[Tensor, "B P V"]:
        """The logits of what follows each of the first tokens, all read at once."""
        self.steps = ids.size(1)
        # One token is a step like those that follow, but before a beam's, which are of another
        # kind: for one call in a batch no recording is made.
        first = torch.zeros(1, dtype=torch.long) if self.steps == self.width == 1 else None
        return self._ask(ids, None, first)

    def step(
        self, ids: Int[Tensor, "B W"], parents: Int[Tensor, "B W"] | None = None
    ) -> Float[Tensor, "B W V"]:
        """The logits of what follows `ids`, where hypothesis w continues hypothesis parents[w]."""
        positions = torch.full((self.width,), self.steps)
        self.steps += 1
        return self._ask(ids, self._ancestry(parents), positions)

    def _ancestry(self, parents: Tensor | None) -> Bool[Tensor, "B 1 W P"] | None:
        if self.width == 1:  # a single line of descent: everything that was said is its own
            return None
        filled = self.voices[0].cache.length
        if parents is not None:
            seen = self.ancestors[:, :, :filled]
            seen.copy_(seen.gather(1, parents[:, :, None].expand_as(seen)))
            if self.steps % TIDY == 0:
                filled = self._tidy(seen)
        self.ancestors[:, :, filled : filled + self.width] = self._itself
        return self.ancestors[:, None, :, : filled + self.width]

    def _tidy(self, seen: Bool[Tensor, "B W P"]) -> int:
        """Leave out slots that no hypothesis sees; how many are left.

        Those of one step stay together, as many of them as any sentence needs.
        """
        alive = seen.any(1)
        positions = self.voices[0].cache.positions
        order = torch.where(alive, 2 * positions, 2 * positions + 1).argsort(1)
        needed = alive.gather(1, order).any(0)
        slots = order[:, needed]
        left = slots.size(1)
        self.ancestors[:, :, :left] = seen.gather(2, slots[:, None].expand(-1, self.width, -1))
        for voice in self.voices:
            voice.cache.choose(slots)
        return left

    def _ask(
        self, ids: Tensor, mask: Tensor | None, positions: Tensor | None
    ) -> Float[Tensor, "B T V"]:
        self._make_room(ids.size(1))
        said = [voice.says(ids, mask, positions) for voice in self.voices]
        if len(said) == 1:
            return said[0]
        return torch.stack([logits.softmax(-1) for logits in said]).mean(0).log()

    def _make_room(self, more: int) -> None:
        """For the next slots; most answers end long before the greatest length."""
        for cache in (voice.cache for voice in self.voices):
            needed = cache.length + more
            if needed > cache.capacity:
                cache.reserve(min(self._most, max(needed, 2 * cache.capacity)))

    def keep(self, sentences: Int[Tensor, "R"]) -> None:
        """Go on with these sentences only, in this order."""
        self.ancestors = self.ancestors[sentences]
        for voice in self.voices:
            voice.cache.reorder(sentences)
            if voice.source_mask is not None:
                voice.source_mask = voice.source_mask[sentences]


def _start(model: Speaker, source: Tensor | None, batch: int, room: int) -> _Voice:
    replay = recordings(model)
    if isinstance(model, LanguageModel):
        return _Voice(model, model.decoder.start_cache(room, batch=batch), None, replay)
    assert source is not None, "a translator reads a source"
    is_word = padding_mask(source, model.pad_id)
    # Most batches are of one length: no mask is one thing less to do at every step.
    mask = None if is_word.all() else is_word
    memory = replay.read(source, mask) if replay else model.encoder(source, mask)
    return _Voice(model, model.decoder.start_cache(room, memory), mask, replay)


def output_limits(source: Int[Tensor, "B S"], pad_id: int) -> Int[Tensor, "B"]:
    """As many tokens as no sane translation reaches: the paper's input length + 50 (§6.1).

    By each sentence's own length, so that an answer does not depend on its neighbours.
    """
    return (source != pad_id).sum(1) + 50
