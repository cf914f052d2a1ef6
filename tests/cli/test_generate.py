"""`glassformer generate`: a prompt in, the prompt and what follows it out."""

from collections.abc import Callable
from typing import Any

import pytest

from cli.models import TEXTS, type_in, write_model
from glassformer.decode.options import SearchOptions
from glassformer.pipeline import load_generator
from train.runs import Command

Run = Callable[..., list[str]]
SHORT: dict[str, Any] = {"max_length": 20}
DRAWN: dict[str, Any] = {**SHORT, "sample": True, "beam_size": 1}


@pytest.fixture
def command(glassformer: Command) -> Command:
    """The command, with a language model in `run`."""
    write_model(kind="language-model")
    return glassformer


@pytest.fixture
def generate(command: Command) -> Run:
    """The lines of an answer that goes well."""

    def msg(*arguments: object) -> list[str]:
        run = ("--model", "run", "--threads", 1, "--max-length", 20)
        code, out, err = command("generate", *run, *arguments)
        assert (code, err) == (0, "")
        return out.split("\n")[:-1]

    return msg


def test_an_answer_begins_with_its_prompt_and_depends_on_the_seed(
    generate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load_generator("run").generate(TEXTS, **SHORT)
    assert all(a.startswith(text) and a != text for a, text in zip(expected, TEXTS, strict=True))
    assert generate(*TEXTS) == generate("--seed", 0, *TEXTS) == expected
    assert generate("--seed", 1, *TEXTS) != expected
    type_in(monkeypatch, "\n".join(TEXTS))
    assert generate() == expected


def test_what_is_drawn_depends_on_the_seed_and_the_place_only(
    generate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [TEXTS[0]] * 40  # more than are msg at once
    expected = load_generator("run").generate(prompts, **SHORT)
    assert len(set(expected)) > 20
    type_in(monkeypatch, "\n".join(prompts))
    assert generate() == expected
    assert generate("--stream", *prompts[:3]) == expected[:3]


def test_an_empty_prompt_begins_with_nothing(generate: Run) -> None:
    expected = load_generator("run").generate("", **SHORT)
    assert expected and generate("") == [expected]


def test_a_stream_ends_in_the_same_answer(generate: Run) -> None:
    assert generate("--stream", TEXTS[0]) == generate(TEXTS[0])
    assert generate("--stream", "--beam", 1, *TEXTS) == generate("--beam", 1, *TEXTS)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["--beam", 1], {**SHORT, "beam_size": 1}),
        (["--beam", 4, "--length-penalty", 0], {**SHORT, "beam_size": 4, "length_penalty": 0.0}),
        (["--temperature", 0.1], {**DRAWN, "temperature": 0.1}),
        (["--top-k", 3, "--seed", 4], {**DRAWN, "top_k": 3, "seed": 4}),
        (["--top-p", 0.5], {**DRAWN, "top_p": 0.5}),
        (["--min-length", 18], {**DRAWN, "min_length": 18}),
        (["--no-repeat-ngram", 1], {**DRAWN, "no_repeat_ngram": 1}),
        (["--repetition-penalty", 3], {**DRAWN, "repetition_penalty": 3.0}),
    ],
    ids=str,
)
def test_options_reach_the_search(
    generate: Run, arguments: list[object], options: dict[str, Any]
) -> None:
    found = load_generator("run").n_best(TEXTS, SearchOptions(**options))
    assert generate(*arguments, *TEXTS) == [best.text for best, *_ in found]


def test_n_best_lists_have_index_text_and_score(generate: Run) -> None:
    found = load_generator("run").n_best(TEXTS[:2], SearchOptions(**DRAWN, n_best=3))
    assert generate("--n-best", 3, *TEXTS[:2]) == [
        f"{index} ||| {one.text} ||| {one.score:.4f}"
        for index, answers in enumerate(found)
        for one in answers
    ]


def test_int8_is_the_model_quantised(generate: Run) -> None:
    expected = load_generator("run", int8=True).generate(TEXTS, sample=False, **SHORT)
    assert generate("--int8", "--beam", 1, *TEXTS) == expected


def test_a_prompt_longer_than_an_answer_may_be_is_named(command: Command) -> None:
    run = ("--model", "run", "--threads", 1)
    code, out, msg = command("generate", *run, TEXTS[0], "tea" + " tea" * 9_999)
    assert code == 2 and out.startswith(TEXTS[0]) and out.count("\n") == 1
    assert "Text 2: " in msg and "max_length" in msg


@pytest.mark.parametrize("way", [(), ("--stream",)], ids=str)
def test_a_prompt_that_no_subwords_spell_is_refused(command: Command, way: tuple[str]) -> None:
    code, out, msg = command("generate", "--model", "run", "--threads", 1, *way, "the Ж")
    assert (code, out) == (2, "") and "The prompt 'the Ж' cannot be spelt" in msg


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--beam", 2, "--seed", 1], "--seed does not go with --beam"),
        (["--stream", "--beam", 2], "--beam does not go with --stream"),
        (["--stream", "--n-best", 2], "--n-best does not go with --stream"),
        (["--length-penalty", 2], "--length-penalty goes with --beam or --n-best only"),
        (["--stream", "--beam", 1, "--length-penalty", 2], "--length-penalty does not go with"),
        (["--top-p", 1.5], "top_p = 1.5"),
        (["--file", "texts"], "Texts are given"),
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(
    command: Command, arguments: list[object], what: str
) -> None:
    code, out, msg = command("generate", "a dog", "--model", "run", *arguments)
    assert (code, out) == (2, "") and what in msg


def test_a_model_of_another_kind_is_named(glassformer: Command) -> None:
    write_model("run")
    code, out, msg = glassformer("generate", "a dog", "--model", "run")
    assert (code, out) == (4, "") and "run holds a translator, not a language model" in msg
