"""Chat: messages to the text that a language model was trained to continue."""

from collections.abc import Sequence
from typing import Any

from glassformer.errors import CheckpointError, InputError, MissingPackageError

Message = dict[str, str]  # "role" and "content"


def messages_of(chat: str | Sequence[Message]) -> list[Message]:
    """Return messages; a text is one message of the user."""
    messages = [{"role": "user", "content": chat}] if isinstance(chat, str) else list(chat)
    for message in messages:
        fields = message.keys() if isinstance(message, dict) else ()
        if not {"role", "content"} <= set(fields) or not all(
            isinstance(value, str) for value in message.values()
        ):
            raise InputError(
                f"{str(message)[:60]} is not a message of a chat.",
                "A message has a role, such as user, and a content.",
                'Give a text, or messages such as {"role": "user", "content": "Hello"}.',
            )
    return messages


def prompt_of(template: str, messages: Sequence[Message], bos: str, eos: str) -> str:
    """Render messages by the model's own template, up to where its answer begins.

    The template comes with downloaded weights, so it runs in Jinja's sandbox.
    """
    if not template:
        raise CheckpointError(
            "The model has no chat template.",
            "It was not trained to answer messages.",
            "Let it continue a text: generate.",
        )
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise MissingPackageError("jinja2", "The chat template of a model", "interop") from None
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    given: dict[str, Any] = {"messages": list(messages), "add_generation_prompt": True}
    environment.globals["raise_exception"] = _refuse
    try:
        return environment.from_string(template).render(bos_token=bos, eos_token=eos, **given)
    except (TemplateError, TypeError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise CheckpointError(
            f"The chat template of the model cannot be used: {str(error)[:200]}",
            "It was imported with the weights.",
            "Write the prompt yourself, and continue it: generate.",
        ) from None


def _refuse(reason: str) -> None:
    raise InputError(
        f"The model's chat template refuses the messages: {reason[:200]}",
        "Models expect certain roles in a certain order.",
        "Begin with a message of the user, and take turns.",
    )
