"""The language of a text is guessed from its script or its frequent words."""

import pytest

from glassformer.data.languages import NAMES, UNKNOWN, guess, of_name


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The dog that was in the garden is with the children."),
        ("fr", "Le chien qui est dans le jardin joue avec les enfants."),
        ("de", "Der Hund, der im Garten ist, spielt mit den Kindern und ist nicht müde."),
        ("es", "El perro que está en la casa es de los niños y no come."),
        ("ru", "Собака играет с детьми."),
        ("uk", "Їжак і лисиця живуть у лісі."),
        ("ja", "犬は庭で遊んでいます。"),
        ("zh", "狗在花园里玩"),
        ("el", "Ο σκύλος παίζει."),
        (UNKNOWN, "Xyzzy plugh."),
        (UNKNOWN, ""),
    ],
)
def test_the_language_of_a_sentence_is_found(language: str, text: str) -> None:
    assert guess([text]) == language


def test_a_column_is_called_by_code_or_by_name() -> None:
    assert of_name("FR") == of_name(" french ") == "fr"
    assert of_name("label") is None
    assert all(of_name(name) == code for code, name in NAMES.items())
