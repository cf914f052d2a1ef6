"""OpenAI's endpoints for language models: completions, chats and the list of models."""

import asyncio
import time
from collections.abc import AsyncIterator
from secrets import randbelow, token_hex
from typing import Any

from glassformer.pipeline import Classifier, Generator
from glassformer.serve import schemas as s
from glassformer.serve.chat import chat_ids
from glassformer.serve.continuations import Continuation, NewTokens, prompts
from glassformer.serve.endpoint import DONE, Endpoint, event_of
from glassformer.serve.libretranslate import limit_characters
from glassformer.serve.server import Server

COMPLETION_TOKENS, CHAT_TOKENS = 16, 256  # where max_tokens is left out; 16 is OpenAI's own
CHAT_OBJECT = "chat.completion"


async def answer_completion(
    server: Server, body: s.CompletionRequest
) -> s.Completion | AsyncIterator[str]:
    _, generator = server.models.of_kind(Generator, body.model)
    texts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
    limit_characters(texts, server.limits.characters)
    limit = NewTokens(body.max_tokens, COMPLETION_TOKENS)
    found = continuations(generator, generator.prompt_ids(texts), body, limit)
    server.writer.check(len(found))
    head = Head(body.model, "cmpl", "text_completion")
    begin = [text if body.echo else "" for text in texts for _ in range(body.n)]
    if body.stream:
        return streamed(server, found, head, body, begin)
    answers = await written(server, found)
    choices = [
        s.Choice(index=i, text=first + text, finish_reason=one.reason)
        for i, (first, text, one) in enumerate(zip(begin, answers, found, strict=True))
    ]
    return s.Completion(
        id=head.id, created=head.created, model=body.model, choices=choices, usage=usage(found)
    )


async def answer_chat(server: Server, body: s.ChatRequest) -> s.Chat | AsyncIterator[str]:
    served, generator = server.models.of_kind(Generator, body.model)
    ids = chat_ids(served, generator, body.messages, server.limits.characters)
    limit = NewTokens(body.max_completion_tokens or body.max_tokens, CHAT_TOKENS)
    found = continuations(generator, [ids], body, limit)
    server.writer.check(len(found))
    head = Head(body.model, "chatcmpl", CHAT_OBJECT)
    if body.stream:
        return streamed(server, found, head, body, [""] * len(found))
    answers = await written(server, found)
    choices = [
        s.ChatChoice(index=i, message=s.ChatMessage(content=text), finish_reason=one.reason)
        for i, (text, one) in enumerate(zip(answers, found, strict=True))
    ]
    return s.Chat(
        id=head.id, created=head.created, model=body.model, choices=choices, usage=usage(found)
    )


def continuations(
    generator: Generator, rows: list[list[int]], body: s.Sampling, limit: NewTokens
) -> list[Continuation]:
    """Return the continuations to write: `n` of each prompt, in the order of the prompts."""
    sampling: dict[str, Any] = {"sample": False}
    if body.temperature > 0:
        seed = randbelow(2**32) if body.seed is None else body.seed
        sampling = {"sample": True, "temperature": body.temperature, "seed": seed}
        sampling |= {"top_p": body.top_p, "top_k": body.top_k}
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    checked = prompts(generator, rows, limit, sampling)
    each = [prompt for prompt in checked for _ in range(body.n)]
    return [Continuation(generator, one, number, stops) for number, one in enumerate(each)]


async def written(server: Server, found: list[Continuation]) -> list[str]:
    """Return the text of each continuation."""

    async def whole(one: Continuation) -> str:
        return "".join([piece async for piece in server.writer.pieces(one.pieces())])

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(whole(one)) for one in found]
    return [task.result() for task in tasks]


def usage(found: list[Continuation]) -> s.Usage:
    read, made = sum(len(one.prompt.ids) for one in found), sum(one.n_tokens for one in found)
    return s.Usage(prompt_tokens=read, completion_tokens=made, total_tokens=read + made)


class Head:
    """The fields that every event of an answer begins with."""

    def __init__(self, model: str, prefix: str, kind: str) -> None:
        self.id, self.created = f"{prefix}-{token_hex(12)}", int(time.time())
        self.model, self.kind = model, kind

    @property
    def is_chat(self) -> bool:
        return self.kind == CHAT_OBJECT

    def event(self, choices: list[Any], **more: Any) -> str:
        kind = f"{self.kind}.chunk" if self.is_chat else self.kind
        head = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return event_of({**head, "choices": choices, **more})

    def piece(self, index: int, text: str, reason: str | None = None) -> str:
        """Return the event of a piece of text, or of the end of a choice."""
        content = {"delta": {"content": text} if text else {}} if self.is_chat else {"text": text}
        return self.event([{"index": index, **content, "logprobs": None, "finish_reason": reason}])


async def streamed(
    server: Server, found: list[Continuation], head: Head, body: s.Sampling, begin: list[str]
) -> AsyncIterator[str]:
    """Yield the events of an answer, choice after choice; each starts with its text of `begin`."""
    for index, one in enumerate(found):
        if head.is_chat:
            delta = {"role": "assistant", "content": ""}
            yield head.event([{"index": index, "delta": delta, "finish_reason": None}])
        if begin[index]:
            yield head.piece(index, begin[index])
        async for piece in server.writer.pieces(one.pieces()):
            yield head.piece(index, piece)
        yield head.piece(index, "", one.reason)
    if body.stream_options is not None and body.stream_options.include_usage:
        yield head.event([], usage=usage(found).model_dump())
    yield DONE


async def answer_models(server: Server, _: None) -> s.ModelList:
    return s.ModelList(
        data=[
            s.Model(
                id=one.name,
                created=server.created,
                kind=one.kind,
                directions=one.directions,
                chat=isinstance(one.pipeline, Generator)
                and bool(one.pipeline.tokenizer.chat_template),
                int8=one.pipeline.int8,
                labels=list(one.pipeline.labels) if isinstance(one.pipeline, Classifier) else [],
            )
            for one in server.models
        ]
    )


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/completions",
        answer_completion,
        s.Completion,
        "Continue prompts with a language model.",
        "openai",
        s.CompletionRequest,
        streams=True,
    ),
    Endpoint(
        "POST",
        "/v1/chat/completions",
        answer_chat,
        s.Chat,
        "Answer messages with a chat model.",
        "openai",
        s.ChatRequest,
        streams=True,
    ),
    Endpoint(
        "GET", "/v1/models", answer_models, s.ModelList, "List the models of the server.", "openai"
    ),
)
