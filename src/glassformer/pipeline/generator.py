"""Text generation: a language model continues a prompt."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from glassformer.config import RunSettings
from glassformer.data.tokenizer import BOS, EOS, Tokenizer
from glassformer.decode.decoder import Decoder
from glassformer.decode.options import SearchOptions
from glassformer.decode.search import search, stream
from glassformer.pipeline.batches import (
    BATCH_TOKENS,
    Ids,
    Texts,
    Translation,
    encode_prefixes,
    in_batches,
    pieces_of,
    translations,
)
from glassformer.pipeline.engines import torch_module
from glassformer.pipeline.memory import answer_within_memory, search_bytes
from glassformer.pipeline.options import SearchKeywords, Unpack, one_answer

if TYPE_CHECKING:
    from glassformer.model.transformer import LanguageModel


class Generator:
    """A language model with its tokenizer."""

    def __init__(
        self,
        decoder: Decoder,
        tokenizers: dict[str, Tokenizer],
        settings: RunSettings,
        int8: bool = False,
    ) -> None:
        self.decoder, self.settings, self.int8 = decoder, settings, int8
        self.tokenizer = next(iter(tokenizers.values()))

    @property
    def model(self) -> "LanguageModel":
        """The torch model; only with `engine="torch"`."""
        model: LanguageModel = torch_module(self.decoder)
        return model

    @overload
    def generate(
        self,
        prompt: str = "",
        *,
        beam_size: int = 1,
        batch_tokens: int = BATCH_TOKENS,
        first: int = 0,
        **search: Unpack[SearchKeywords],
    ) -> str: ...
    @overload
    def generate(
        self,
        prompt: Texts,
        *,
        beam_size: int = 1,
        batch_tokens: int = BATCH_TOKENS,
        first: int = 0,
        **search: Unpack[SearchKeywords],
    ) -> list[str]: ...
    def generate(
        self,
        prompt: str | Texts = "",
        *,
        beam_size: int = 1,
        batch_tokens: int = BATCH_TOKENS,
        first: int = 0,
        **search: Unpack[SearchKeywords],
    ) -> str | list[str]:
        """Return the prompt, letter by letter, and a continuation, drawn unless `sample=False`."""
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        options = one_answer(_options(beam_size, **search))
        found = self.n_best(prompts, options, batch_tokens=batch_tokens, first=first)
        texts = [answers[0].text for answers in found]
        return texts[0] if isinstance(prompt, str) else texts

    def n_best(
        self,
        prompts: Sequence[str],
        options: SearchOptions,
        *,
        batch_tokens: int = BATCH_TOKENS,
        first: int = 0,
    ) -> list[list[Translation]]:
        """Return the answers to each prompt, best first; `first` is the first prompt's number."""
        begin = encode_prefixes(self.tokenizer, prompts, "prompt")

        def answer(indices: Ids) -> list[list[Translation]]:
            prefixes, numbers = [begin[i] for i in indices], [first + i for i in indices]
            found = search(self.decoder, None, BOS, EOS, options, prefixes, numbers)
            return [
                translations(self.tokenizer, one, options, prompts[i], begin[i])
                for i, one in zip(indices, found, strict=True)
            ]

        def needs(indices: Ids) -> int:
            return search_bytes(self.settings.model, options, (), [len(begin[i]) for i in indices])

        rows = [[BOS, *ids] for ids in begin]
        within = partial(answer_within_memory, needs=needs, answer=answer)
        return in_batches(rows, batch_tokens, within, [], options.width)

    def stream(
        self,
        prompt: str = "",
        *,
        number: int = 0,
        beam_size: int = 1,
        **search: Unpack[SearchKeywords],
    ) -> Iterator[str]:
        """Yield the continuation of the prompt piece by piece as it is decoded."""
        (prefix,) = encode_prefixes(self.tokenizer, [prompt], "prompt")
        options = _options(beam_size, **search)
        tokens = stream(self.decoder, None, BOS, EOS, options, prefix, number)
        return pieces_of(self.tokenizer, prefix, tokens)


def _options(beam_size: int, **search: Any) -> SearchOptions:
    """Sample by default, up to 256 tokens."""
    return SearchOptions(**{"sample": True, "max_length": 256, "beam_size": beam_size, **search})
