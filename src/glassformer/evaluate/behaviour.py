"""Behaviour suite for translators, in the manner of CheckList (Ribeiro et al., 2020).

    report = run(translator.translate, "en-fr")
    print(report.table())

Cases are hand-written, grouped by kind, and checked by rules that need no reference. The cases are
in `cases/*.toml`; each also has translations that a speaker accepts, with which tests check that
the rules are fair.
"""

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from glassformer.data.corpus import known
from glassformer.errors import GlassformerError, InputError
from glassformer.evaluate.card import markdown_table
from glassformer.evaluate.rules import RULES, USUAL, Case

Translate = Callable[[list[str]], list[str]]

DIRECTIONS = ("en-fr", "fr-en")
BAR = 20  # characters of a full bar


@dataclass(frozen=True)
class Result:
    """The output for a case, and for each rule that it breaks the reason."""

    case: Case
    output: str
    problems: dict[str, str]

    @property
    def passed(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        reasons = "; ".join(f"{rule}: {reason}" for rule, reason in self.problems.items())
        parts = {"source": self.case.source, "output": self.output}
        parts |= {"broken": reasons} if reasons else {}
        return f"{self.case.kind}\n" + "\n".join(
            f"  {name}: {text!r}" if "\n" in text or not text.strip() else f"  {name}: {text}"
            for name, text in parts.items()
        )


@dataclass(frozen=True)
class BehaviourReport:
    """The results of all cases of one direction."""

    direction: str
    results: tuple[Result, ...]

    @property
    def total(self) -> int:
        return len(self.results)

    @property
    def passed(self) -> int:
        return sum(result.passed for result in self.results)

    @property
    def share(self) -> float:
        return self.passed / self.total

    @property
    def failures(self) -> list[Result]:
        return [result for result in self.results if not result.passed]

    @property
    def kinds(self) -> dict[str, tuple[int, int]]:
        """Return the passed and total cases of each kind, in the order of the suite."""
        counts: dict[str, tuple[int, int]] = {}
        for result in self.results:
            passed, total = counts.get(result.case.kind, (0, 0))
            counts[result.case.kind] = (passed + result.passed, total + 1)
        return counts

    def table(self) -> str:
        """Return a table of at most 60 columns: kind, passed, total, a bar."""
        width = max(map(len, [*self.kinds, "all kinds"]))
        rows = [*self.kinds.items(), ("all kinds", (self.passed, self.total))]
        lines = [
            f"{kind:{width}}  {passed:4} of {total:3}  {passed / total:4.0%}  "
            f"{'█' * round(BAR * passed / total)}".rstrip()
            for kind, (passed, total) in rows
        ]
        return "\n".join([f"Behaviour, {self.direction}", "", *lines])

    def markdown(self) -> str:
        rows = [f"| {kind} | {passed} | {total} |" for kind, (passed, total) in self.kinds.items()]
        total = f"| **all kinds** | **{self.passed}** | **{self.total}** |"
        head = ["| kind | passed | cases |", "| :-- | --: | --: |"]
        return "\n".join([f"## Behaviour, {self.direction}", "", *head, *rows, total]) + "\n"

    def outputs(self) -> str:
        """Return a Markdown table of every source and its output."""
        rows = [[result.case.source, result.output] for result in self.results]
        return markdown_table(self.direction.split("-"), rows, "ll") + "\n"

    def to_dict(self) -> dict[str, Any]:
        return {
            "direction": self.direction,
            "passed": self.passed,
            "total": self.total,
            "kinds": {
                kind: {"passed": passed, "total": total}
                for kind, (passed, total) in self.kinds.items()
            },
            "cases": [
                {
                    "kind": result.case.kind,
                    "source": result.case.source,
                    "output": result.output,
                    "problems": result.problems,
                }
                for result in self.results
            ],
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"


def run(translate: Translate, direction: str = "en-fr", kind: str | None = None) -> BehaviourReport:
    """Translate all cases of `direction`, or those of one kind, and check the outputs.

    A case that `translate` refuses with an error of this package fails; other errors are raised.
    """
    cases = load_cases(direction)
    if kind is not None:
        known("kind of behaviour cases", kind, {case.kind: None for case in cases})
        cases = [case for case in cases if case.kind == kind]
    outputs = _translate_all(translate, [case.source for case in cases])
    pairs = zip(cases, outputs, strict=True)
    return BehaviourReport(direction, tuple(_judge(case, output) for case, output in pairs))


def section(reports: Sequence[dict[str, Any]], command: str) -> str:
    """Return the section of a model card: a table of the kinds, with a column per direction."""
    ways = [one["direction"].replace("-", "→") for one in reports]
    kinds = dict.fromkeys(kind for one in reports for kind in one["kinds"])
    rows = [[kind, *(_count(one["kinds"].get(kind)) for one in reports)] for kind in kinds]
    rows.append(["**all kinds**", *(f"**{_count(one)}**" for one in reports)])
    table = markdown_table(["kind", *ways], rows, "l" + "r" * len(ways))
    about = "Hand-written cases that pass the rules of the behaviour suite."
    return f"{about}\n\n{table}\n\n```\n{command}\n```"


def _count(counts: dict[str, int] | None) -> str:
    return f"{counts['passed']} of {counts['total']}" if counts else "–"


def check(case: Case, output: str) -> dict[str, str]:
    """Return the rules of `case` that `output` breaks, each with its reason."""
    reasons = {name: RULES[name](case, output) for name in case.rules}
    return {name: reason for name, reason in reasons.items() if reason}


def load_cases(direction: str) -> list[Case]:
    """Read the cases of `direction` in the order of its file."""
    if direction not in DIRECTIONS:
        raise InputError(
            f"There are no behaviour cases for the direction {direction!r}.",
            "The cases are hand-written for each direction.",
            f"Choose one of {', '.join(DIRECTIONS)}.",
        )
    path = files("glassformer.evaluate") / "cases" / f"{direction}.toml"
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    target = direction.split("-")[1]
    return [
        _case(kind, target, table, entry)
        for kind, table in content.items()
        for entry in table["cases"]
    ]


def _case(kind: str, target: str, table: dict[str, Any], entry: dict[str, Any]) -> Case:
    """Build a case; `rules` adds to the usual rules and `without` takes away, of kind and case."""
    added = (*USUAL, *table.get("rules", ()), *entry.get("rules", ()))
    removed = {*table.get("without", ()), *entry.get("without", ())}
    return Case(
        kind=kind,
        source=entry["source"],
        references=tuple(entry["references"]),
        rules=tuple(name for name in dict.fromkeys(added) if name not in removed),
        target=target,
        **{name: tuple(entry.get(name, ())) for name in ("expect", "avoid", "keep")},
    )


def _translate_all(translate: Translate, sources: list[str]) -> list[str | GlassformerError]:
    """Translate in one call, or one by one when a text is refused, to find out which."""
    try:
        outputs: list[str | GlassformerError] = list(translate(sources))
    except GlassformerError:
        outputs = [_translate_one(translate, source) for source in sources]
    if len(outputs) != len(sources):
        raise InputError(
            f"{len(outputs)} translations came back for {len(sources)} texts.",
            "Each case is checked against its own translation.",
            "Return as many translations as texts, in their order.",
        )
    return outputs


def _translate_one(translate: Translate, source: str) -> str | GlassformerError:
    try:
        return translate([source])[0]
    except GlassformerError as error:
        return error


def _judge(case: Case, output: str | GlassformerError) -> Result:
    if isinstance(output, GlassformerError):
        return Result(case, "", {"refused": output.what})
    return Result(case, output, check(case, output))
