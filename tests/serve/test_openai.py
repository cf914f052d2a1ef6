"""OpenAI's endpoints, by the real client."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from glassformer.serve.server import Server

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
    assert found.usage is not None and found.usage.prompt_tokens == len(prompt)
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
    assert list(found) == ["toy-translator", "toy-labels", "toy-text"]
    assert getattr(found["toy-labels"], "labels", None) == ["sad", "glad"]


def test_a_chat_with_a_model_without_a_template_is_refused_by_name(
    remote: openai.OpenAI,
) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match="'toy-text' has no chat template"):
        remote.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}])


def test_a_chat_uses_the_template_of_the_model(
    server: Server, remote: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = server.models.named(MODEL).pipeline
    spoken = lambda messages: " ".join(one.content for one in messages)  # noqa: E731
    monkeypatch.setattr(generator, "chat_template", spoken, raising=False)
    messages: Any = [{"role": "system", "content": "a"}, {"role": "user", "content": "dog"}]
    how: dict[str, Any] = {"model": MODEL, "max_tokens": 5, "seed": 2}
    chat = remote.chat.completions.create(messages=messages, **how).choices[0].message
    plain = remote.completions.create(prompt="a dog", **how).choices[0].text
    assert chat.content == plain and chat.role == "assistant"
    events = remote.chat.completions.create(messages=messages, stream=True, **how)
    parts = [event.choices[0].delta.content or "" for event in events if event.choices]
    assert "".join(parts) == plain


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"model": "nothing"}, "No model is served under the name 'nothing'"),
        ({"model": "toy-labels"}, "is a classifier, not a language model"),
        ({"temperature": 3}, "'temperature' is not valid"),
        ({"max_tokens": 2_048, "prompt": "a dog" * 2_000}, "Together the model has places for"),
        ({"extra_body": {"logprobs": 3}}, "'logprobs' is not valid"),
        ({"prompt": "a dog "}, "ends with ' '"),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    remote: openai.OpenAI, change: dict[str, Any], problem: str
) -> None:
    how: dict[str, Any] = {"model": MODEL, "prompt": "a", "max_tokens": 2} | change
    with pytest.raises(openai.APIStatusError, match=problem):
        remote.completions.create(**how)
