"""The text of a conversation, as a chat model was trained to read it."""

from collections.abc import Sequence
from typing import Protocol

from glassformer.serve.models import Served
from glassformer.serve.refusals import RequestError
from glassformer.serve.schemas import Message


class ChatTemplate(Protocol):
    """Turns messages into the prompt of a model."""

    def __call__(self, messages: Sequence[Message]) -> str: ...


def template_of(served: Served) -> ChatTemplate:
    """Return the chat template of a model; refuse a model that has none."""
    found: ChatTemplate | None = getattr(served.pipeline, "chat_template", None)
    if found is None:
        raise RequestError(
            422,
            f"The model {served.name!r} has no chat template.",
            "It was trained to continue text, not to answer messages.",
            "Send a prompt to /v1/completions, or serve a chat model.",
        )
    return found
