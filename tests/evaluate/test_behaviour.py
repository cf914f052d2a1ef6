"""The behaviour suite is large, fair to good translations, and hard on wrong ones."""

import json
import random
from collections.abc import Callable

import pytest

from glassformer.errors import DataError, InputError
from glassformer.evaluate.behaviour import DIRECTIONS, check, load_cases, run
from glassformer.evaluate.rules import RULES, Case

BOTH = {direction: load_cases(direction) for direction in DIRECTIONS}
ALL = [case for cases in BOTH.values() for case in cases]
WITHOUT_TRANSLATION = {"already French", "already English", "empty and odd input"}


def test_the_suite_has_the_kinds_and_cases_that_it_promises() -> None:
    assert len(BOTH["en-fr"]) >= 220
    assert len({case.kind for case in BOTH["en-fr"]}) >= 18
    assert len(BOTH["fr-en"]) >= 40
    everyday = [case.source for case in BOTH["en-fr"] if case.kind == "everyday"]
    assert len(everyday) == 22
    assert everyday[:2] == ["Where is the train station?", "I would like to cancel my order."]


def test_no_case_is_there_twice_and_all_rules_exist_and_are_used() -> None:
    for cases in BOTH.values():
        assert len({case.source for case in cases}) == len(cases)
    assert {rule for case in ALL for rule in case.rules} == set(RULES)


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.target}: {case.source[:40]!r}")
def test_a_good_translation_passes(case: Case) -> None:
    assert case.references
    for reference in case.references:
        assert check(case, reference) == {}
        assert check(case, reference.replace("'", "’").replace(" ?", "\N{NO-BREAK SPACE}?")) == {}


def half(text: str) -> str:
    return text[: len(text) // 2]


def shuffled(text: str) -> str:
    tokens = text.split()
    random.Random(0).shuffle(tokens)
    return " ".join(tokens)


# how a translation is spoilt, kinds in which it may pass, and the share that may pass elsewhere
SPOILT: list[tuple[Callable[[Case], str], set[str], float]] = [
    (lambda case: case.source, WITHOUT_TRANSLATION, 0.0),
    (lambda case: "", {"empty and odd input"}, 0.0),
    (lambda case: half(case.references[0]), {"empty and odd input"}, 0.0),
    (lambda case: case.references[0] + " le" * 6, set(), 0.0),
    (lambda case: "Je ne sais pas.", set(), 0.01),
    (lambda case: shuffled(case.references[0]), {"one word", "empty and odd input"}, 0.12),
]
NAMES = ["copy of the source", "nothing", "first half", "loop", "one answer to all", "shuffled"]


@pytest.mark.parametrize(("spoil", "kinds", "share"), SPOILT, ids=NAMES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_spoilt_translation_fails(
    direction: str, spoil: Callable[[Case], str], kinds: set[str], share: float
) -> None:
    judged = [case for case in BOTH[direction] if case.kind not in kinds]
    passed = [case.source for case in judged if not check(case, spoil(case))]
    assert len(passed) <= share * len(judged), passed


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_translation_of_another_case_fails(direction: str) -> None:
    cases = BOTH[direction]
    for case, other in zip(cases, cases[1:] + cases[:1], strict=True):
        if not {case.source.strip(), other.source.strip()} & {"", "..."}:
            assert check(case, other.references[0]), (case.source, other.references[0])


def references(texts: list[str]) -> list[str]:
    known = {case.source: case.references[0] for case in BOTH["en-fr"]}
    return [known[text] for text in texts]


def test_references_pass_in_every_kind_and_the_table_fits_sixty_columns() -> None:
    report = run(references)
    assert report.passed == report.total == len(BOTH["en-fr"])
    assert report.share == 1.0
    assert all(passed == total for passed, total in report.kinds.values())
    table = report.table().splitlines()
    assert max(map(len, table)) <= 60
    assert len(table) == len(report.kinds) + 3
    assert "100%" in table[-1]


def test_failures_tell_source_output_rule_and_reason() -> None:
    report = run(lambda texts: ["Bonjour." for _ in texts])
    failure = next(one for one in report.failures if one.case.source == "")
    assert failure.problems == {"blank": "'Bonjour.' for an empty source"}
    told = str(next(one for one in report.failures if one.case.kind == "everyday"))
    assert "Where is the train station?" in told
    assert "Bonjour." in told
    assert "ends: ends with ., not ?" in told


def test_the_report_is_complete_as_json_and_short_as_markdown() -> None:
    report = run(references)
    content = json.loads(report.to_json())
    assert content["passed"] == content["total"] == len(content["cases"])
    assert content["kinds"]["everyday"] == {"passed": 22, "total": 22}
    assert content["cases"][0]["problems"] == {}
    assert "| everyday | 22 | 22 |" in report.markdown()


def test_a_refused_text_fails_alone() -> None:
    def translate(texts: list[str]) -> list[str]:
        if any("Donau" in text for text in texts):
            raise DataError("Too long.", "It is.", "Cut it.")
        return references(texts)

    (failure,) = run(translate).failures
    assert failure.problems == {"refused": "Too long."}


def test_a_missing_translation_and_an_unknown_direction_are_errors() -> None:
    with pytest.raises(InputError, match="1 translations came back for"):
        run(lambda texts: ["Bonjour."])
    with pytest.raises(InputError, match="no behaviour cases for the direction 'en-de'"):
        run(references, "en-de")
