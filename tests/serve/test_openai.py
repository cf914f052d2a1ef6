"""OpenAI's endpoints, by the real client."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from starlette.testclient import TestClient

from glassformer.serve.continuations import NewTokens
from glassformer.serve.server import Server
from serve.conftest import CHAT, KINDS

MODEL = "toy-text"


@pytest.fixture
def remote(server: Server, serving: Any) -> Iterator[openai.OpenAI]:
    with (
        serving(server) as address,
        openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as found,
    ):
        yield found


def test_the_real_client_completes_as_python_does(
    remote: openai.OpenAI, pipelines: dict[str, Any]
) -> None:
    python = pipelines[MODEL]
    (prompt,) = python.tokenizer.encode(["a dog"])
    whole = python.generate("a dog", seed=7, max_length=len(prompt) + 9)
    found = remote.completions.create(model=MODEL, prompt="a dog", max_tokens=9, seed=7)
    assert "a dog" + found.choices[0].text == whole
    assert found.usage is not None and found.usage.prompt_tokens == 1 + len(prompt)
    assert 0 < found.usage.completion_tokens <= 9
    echoed = remote.completions.create(model=MODEL, prompt="a dog", max_tokens=9, seed=7, echo=True)
    assert echoed.choices[0].text == whole


def test_a_stream_joins_to_the_whole_answer(remote: openai.OpenAI) -> None:
    how: dict[str, Any] = {"model": MODEL, "prompt": ["a", "two"], "max_tokens": 12, "seed": 1}
    whole = remote.completions.create(**how, n=2)
    texts, reasons, counted = [""] * 4, [""] * 4, 0
    options = {"include_usage": True}
    for event in remote.completions.create(**how, n=2, stream=True, stream_options=options):
        for choice in event.choices:
            texts[choice.index] += choice.text
            reasons[choice.index] = choice.finish_reason or ""
        counted = event.usage.completion_tokens if event.usage else counted
    assert texts == [choice.text for choice in whole.choices]
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert whole.usage is not None and counted == whole.usage.completion_tokens


def test_temperature_zero_is_greedy_and_length_ends_an_answer(remote: openai.OpenAI) -> None:
    first, second = (
        remote.completions.create(model=MODEL, prompt="the", max_tokens=3, temperature=0)
        for _ in range(2)
    )
    assert first.choices[0].text == second.choices[0].text
    assert first.choices[0].finish_reason == "length"


def test_a_stop_sequence_ends_the_answer_before_it(remote: openai.OpenAI) -> None:
    how: dict[str, Any] = {"model": MODEL, "prompt": "a", "max_tokens": 30, "seed": 3}
    whole = remote.completions.create(**how).choices[0].text
    stop = whole[len(whole) // 2 :][:3]
    cut = remote.completions.create(**how, stop=[stop, "never"]).choices[0]
    assert cut.text == whole[: whole.index(stop)] and cut.finish_reason == "stop"
    streamed = remote.completions.create(**how, stop=stop, stream=True)
    assert "".join(event.choices[0].text for event in streamed if event.choices) == cut.text


def test_models_are_listed_with_their_kind(remote: openai.OpenAI) -> None:
    found = {one.id: one for one in remote.models.list()}
    assert list(found) == [*KINDS, CHAT]
    assert getattr(found["toy-labels"], "labels", None) == ["sad", "glad"]


def test_a_chat_with_a_model_without_a_template_is_refused_by_name(
    remote: openai.OpenAI,
) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match="'toy-text' has no chat template"):
        remote.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}])


MESSAGES: Any = [{"role": "system", "content": "a b"}, {"role": "user", "content": "c d"}]


def test_the_real_client_chats_as_python_does(
    remote: openai.OpenAI, pipelines: dict[str, Any]
) -> None:
    python = pipelines[CHAT]
    read = python.chat_ids(MESSAGES)
    how: dict[str, Any] = {"temperature": 0.7, "top_p": 0.9, "seed": 4}
    longest = len(read) - 1 + 9
    whole = python.chat(MESSAGES, max_length=longest, **how)
    found = remote.chat.completions.create(model=CHAT, messages=MESSAGES, max_tokens=9, **how)
    message, used = found.choices[0].message, found.usage
    assert message.content == whole and message.role == "assistant" and whole
    assert used is not None and used.prompt_tokens == len(read)
    assert 0 < used.completion_tokens <= 9
    assert used.total_tokens == used.prompt_tokens + used.completion_tokens
    greedy = remote.chat.completions.create(
        model=CHAT, messages=MESSAGES, max_completion_tokens=5, temperature=0
    )
    expected = python.chat(MESSAGES, max_length=len(read) + 4, sample=False)
    assert greedy.choices[0].message.content == expected
    assert greedy.choices[0].finish_reason == "length"


def test_a_streamed_chat_joins_to_the_whole_answer(remote: openai.OpenAI) -> None:
    how: dict[str, Any] = {"model": CHAT, "messages": MESSAGES, "max_tokens": 8, "seed": 2, "n": 2}
    whole = remote.chat.completions.create(**how)
    texts, roles, reasons, counted = [""] * 2, [""] * 2, [""] * 2, 0
    options = {"include_usage": True}
    for event in remote.chat.completions.create(**how, stream=True, stream_options=options):
        assert event.object == "chat.completion.chunk" and event.model == CHAT
        for choice in event.choices:
            texts[choice.index] += choice.delta.content or ""
            roles[choice.index] += choice.delta.role or ""
            reasons[choice.index] = choice.finish_reason or ""
        counted = event.usage.total_tokens if event.usage else counted
    assert texts == [choice.message.content for choice in whole.choices]
    assert roles == ["assistant"] * 2
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert whole.usage is not None and counted == whole.usage.total_tokens


def test_a_stop_string_ends_a_chat_before_it(remote: openai.OpenAI) -> None:
    how: dict[str, Any] = {"model": CHAT, "messages": MESSAGES, "max_tokens": 12, "seed": 5}
    whole = remote.chat.completions.create(**how).choices[0].message.content or ""
    stop = whole[2:4]
    for stream in (False, True):
        found = remote.chat.completions.create(**how, stop=[stop], stream=stream)
        if stream:
            text = "".join(e.choices[0].delta.content or "" for e in found)
        else:
            text = found.choices[0].message.content
        assert text == whole[: whole.index(stop)]


def test_parts_of_a_message_and_the_later_name_of_its_role_are_read(client: TestClient) -> None:
    parts = [{"type": "text", "text": "c "}, {"type": "text", "text": "d"}]
    later = [{"role": "developer", "content": "a b"}, {"role": "user", "content": parts}]
    answers = [
        client.post(
            "/v1/chat/completions",
            json={"model": CHAT, "messages": messages, "temperature": 0, "max_tokens": 6},
        ).json()["choices"]
        for messages in (MESSAGES, later)
    ]
    assert answers[0] == answers[1]


def test_a_stream_is_events_that_end_with_done(client: TestClient) -> None:
    body = {"model": CHAT, "messages": MESSAGES, "max_tokens": 3, "stream": True}
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, end = [line for line in answer.text.split("\n\n") if line]
    assert end == "data: [DONE]" and len(events) >= 2
    first = json.loads(events[0].removeprefix("data: "))["choices"][0]["delta"]
    assert first == {"role": "assistant", "content": ""}


def test_without_max_tokens_an_answer_takes_what_room_is_left(client: TestClient) -> None:
    """The default of a chat is more than a short model has places for."""
    assert NewTokens(None, 256).within(20) == 20
    assert NewTokens(None, 16).within(20) == 16
    assert NewTokens(30, 16).within(20) == 30  # refused later, by name


def test_an_imported_model_continues_a_text_with_its_own_marks(
    remote: openai.OpenAI, pipelines: dict[str, Any]
) -> None:
    python = pipelines[CHAT]
    (read,) = python.prompt_ids(["a b"])
    whole = python.generate("a b", sample=False, max_length=len(read) - 1 + 7)
    found = remote.completions.create(model=CHAT, prompt="a b", max_tokens=7, temperature=0)
    assert "a b" + found.choices[0].text == whole


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"model": "nothing"}, "No model is served under the name 'nothing'"),
        ({"model": "toy-labels"}, "is a classifier, not a language model"),
        ({"temperature": 3}, "'temperature' is not valid"),
        ({"max_tokens": 2_048, "prompt": "a dog" * 2_000}, "Together the model has places for"),
        ({"extra_body": {"logprobs": 3}}, "'logprobs' is not valid"),
        ({"prompt": "a dog "}, "ends with ' '"),
        ({"presence_penalty": 0.5}, "'presence_penalty' is not valid"),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    remote: openai.OpenAI, change: dict[str, Any], problem: str
) -> None:
    how: dict[str, Any] = {"model": MODEL, "prompt": "a", "max_tokens": 2} | change
    with pytest.raises(openai.APIStatusError, match=problem):
        remote.completions.create(**how)
