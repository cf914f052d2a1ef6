"""Text generation: a language model continues a prompt."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from glassformer.config import RunSettings
from glassformer.data.tokenizer import Tokenizer
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
from glassformer.pipeline.chat import Message, messages_of, prompt_of
from glassformer.pipeline.engines import torch_module
from glassformer.pipeline.memory import answer_within_memory, search_bytes
from glassformer.pipeline.options import SearchKeywords, Unpack, one_answer

if TYPE_CHECKING:
    from glassformer.model.transformer import LanguageModel


ANSWER = 512  # tokens of an answer in a chat, at most


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
        rows = self.prompt_ids(prompts)

        def answer(indices: Ids) -> list[list[Translation]]:
            found: dict[int, list[Translation]] = {}
            for begin in dict.fromkeys(rows[i][0] for i in indices):  # one, where it is a mark
                own = [i for i in indices if rows[i][0] == begin]
                prefixes, numbers = [rows[i][1:] for i in own], [first + i for i in own]
                marks = begin, self.tokenizer.eos_id, options
                answers = search(
                    self.decoder, None, *marks, prefixes, numbers, bos_is_mark=self.begins_with_mark
                )
                for i, one in zip(own, answers, strict=True):
                    given = prompts[i], rows[i][1:]
                    found[i] = translations(self.tokenizer, one, options, *given)
            return [found[i] for i in indices]

        def needs(indices: Ids) -> int:
            return search_bytes(self.settings.model, options, (), [len(rows[i]) for i in indices])

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
        (prefix,) = self.prompt_ids([prompt])
        return self._stream(prefix, _options(beam_size, **search), number)

    def chat(self, messages: str | Sequence[Message], **search: Unpack[SearchKeywords]) -> str:
        """Return the answer to messages, or to one text, by the model's own chat template.

        A message is {"role": "user", "content": "…"}. The answer is drawn unless `sample=False`;
        `max_length` counts the messages and the answer.
        """
        return "".join(self.stream_chat(messages, **search))

    def stream_chat(
        self,
        messages: str | Sequence[Message],
        *,
        number: int = 0,
        **search: Unpack[SearchKeywords],
    ) -> Iterator[str]:
        """Yield the answer to messages piece by piece as it is decoded."""
        prompt = self.chat_ids(messages)
        how: dict[str, Any] = {"max_length": len(prompt) + ANSWER, **search}
        return self._stream(prompt, _options(1, **how), number)

    def prompt_ids(self, prompts: Sequence[str]) -> list[Ids]:
        """Return the ids that the model reads of each prompt, the begin mark included."""
        return [self.begun(ids) for ids in encode_prefixes(self.tokenizer, prompts, "prompt")]

    def chat_ids(self, messages: str | Sequence[Message]) -> Ids:
        """Return the ids that the model reads of messages, up to where its answer begins."""
        tokenizer = self.tokenizer
        bos, eos = tokenizer.pieces([tokenizer.bos_id, tokenizer.eos_id])
        text = prompt_of(tokenizer.chat_template, messages_of(messages), bos, eos)
        (prompt,) = tokenizer.encode([text])
        return prompt if prompt[:1] == [tokenizer.bos_id] else self.begun(prompt)

    def tokens(self, prompt: Ids, options: SearchOptions, number: int = 0) -> Iterator[int]:
        """Yield the tokens that follow the ids of a prompt, without the end mark.

        `options.max_length` counts all ids but the first, which is not predicted.
        """
        eos, mark = self.tokenizer.eos_id, self.begins_with_mark
        begin, *prefix = prompt
        return stream(self.decoder, None, begin, eos, options, prefix, number, bos_is_mark=mark)

    @property
    def begins_with_mark(self) -> bool:
        """Return whether every text begins with a mark, as the model was trained to read it."""
        return bool(self.tokenizer.before) or not self.tokenizer.is_foreign

    def begun(self, ids: Ids) -> Ids:
        """Return the ids with the mark of the beginning, where the model has one."""
        return [self.tokenizer.bos_id, *ids] if self.begins_with_mark or not ids else list(ids)

    def _stream(self, prompt: Ids, options: SearchOptions, number: int) -> Iterator[str]:
        return pieces_of(self.tokenizer, prompt[1:], self.tokens(prompt, options, number))


def _options(beam_size: int, **search: Any) -> SearchOptions:
    """Sample by default, up to 256 tokens."""
    return SearchOptions(**{"sample": True, "max_length": 256, "beam_size": beam_size, **search})
