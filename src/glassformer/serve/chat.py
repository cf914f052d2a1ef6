"""The ids of a conversation, as a chat model was trained to read it."""

from collections.abc import Sequence

from glassformer.pipeline import Generator
from glassformer.serve.libretranslate import limit_characters
from glassformer.serve.models import Served
from glassformer.serve.refusals import RequestError
from glassformer.serve.schemas import Message

ROLES = {"developer": "system"}  # the later name of the same role; templates know the earlier one


def chat_ids(
    served: Served, generator: Generator, messages: Sequence[Message], most: int
) -> list[int]:
    """Return the ids of messages by the model's own template; refuse a model that has none."""
    if not generator.tokenizer.chat_template:
        raise RequestError(
            422,
            f"The model {served.name!r} has no chat template.",
            "It was trained to continue text, not to answer messages.",
            "Send a prompt to /v1/completions, or serve a chat model.",
        )
    limit_characters([text_of(one) for one in messages], most)
    return generator.chat_ids(
        [{"role": ROLES.get(one.role, one.role), "content": text_of(one)} for one in messages]
    )


def text_of(message: Message) -> str:
    """Return the text of a message, whose parts are joined as they are."""
    if isinstance(message.content, str):
        return message.content
    return "".join(part.text for part in message.content)
