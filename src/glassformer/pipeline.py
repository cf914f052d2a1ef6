"""A checkpoint that you can call: text in, text out."""

from pathlib import Path
from typing import overload

import numpy as np
from torch import Tensor

from glassformer import checkpoint
from glassformer.config import RunSettings
from glassformer.data.batch import pad
from glassformer.data.batching import TokenBatches
from glassformer.data.tokenizer import BOS, EOS, Tokenizer
from glassformer.decode.greedy import greedy
from glassformer.errors import CheckpointError
from glassformer.model.build import build
from glassformer.model.transformer import Transformer

Texts = list[str] | tuple[str, ...]


class Translator:
    """A translator with its subwords. `translate` takes one text or many."""

    def __init__(
        self, model: Transformer, tokenizers: dict[str, Tokenizer], settings: RunSettings
    ) -> None:
        self.model, self.settings = model.eval(), settings
        self.source_tokenizer = tokenizers.get("joint") or tokenizers["source"]
        self.target_tokenizer = tokenizers.get("joint") or tokenizers["target"]

    def inputs(self, source: str, target: str) -> tuple[Tensor, Tensor]:
        """What the model reads when it is made to say `target` to `source`."""
        (x,), (y,) = self.source_tokenizer.encode([source]), self.target_tokenizer.encode([target])
        return pad([[*x, EOS]]), pad([[BOS, *y]])

    @overload
    def translate(self, text: str, batch_tokens: int = 4_096) -> str: ...
    @overload
    def translate(self, text: Texts, batch_tokens: int = 4_096) -> list[str]: ...
    def translate(self, text: str | Texts, batch_tokens: int = 4_096) -> str | list[str]:
        """Greedily; sentences of like length together, answers in the order of the questions."""
        texts = [text] if isinstance(text, str) else list(text)
        sources = [[*ids, EOS] for ids in self.source_tokenizer.encode(texts)]
        lengths = np.array([[len(ids)] for ids in sources])
        answers = [""] * len(texts)
        for indices in TokenBatches(lengths, batch_tokens).epoch(0, shuffle=False):
            said = greedy(self.model, pad([sources[i] for i in indices]), BOS, EOS)
            for i, ids in zip(indices, said, strict=True):
                answers[i] = self.target_tokenizer.decode(ids)
        return answers[0] if isinstance(text, str) else answers


def load(folder: str | Path) -> Translator:
    """The model of a run or of one of its checkpoints: a run's best, or its latest."""
    saved = checkpoint.read(checkpoint.find(Path(folder)))
    if saved.settings.model.kind != "translator" or not saved.tokenizers:
        raise CheckpointError(
            f"{folder} holds a {saved.settings.model.kind} for {saved.settings.data.name!r}.",
            "Only translators of text can be called as yet.",
            "Name the run of a translator.",
        )
    model = build(saved.settings.model)
    checkpoint.set_weights(model, saved.weights)
    assert isinstance(model, Transformer)
    return Translator(model, saved.tokenizers, saved.settings)
