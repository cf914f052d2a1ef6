"""What `glassformer evaluate` runs on many texts at once: the behaviour suite, and several sets."""

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.examples import Data
from glassformer.cli.train import say as tell
from glassformer.errors import SettingsError
from glassformer.output import save_text

if TYPE_CHECKING:
    from glassformer.pipeline import Translator


@dataclass(frozen=True)
class Files:
    """Where a suite is written to."""

    json: Path | None
    markdown: Path | None
    card: Path | None  # a model card that is there, of which one section is replaced


def run_behaviour(
    translator: "Translator",
    targets: tuple[str, ...],
    options: dict[str, Any],
    kind: str | None,
    shown: int | None,
    files: Files,
) -> None:
    """Run the behaviour suite in each direction; print its tables and failures, or all of a kind.

    The JSON file is the report of one direction, or an object of reports by direction.
    """
    from glassformer.evaluate import behaviour
    from glassformer.evaluate.card import with_section

    reports = []
    for target in targets:
        translate = _translation(translator, target, options)
        reports.append(behaviour.run(translate, _direction(translator, target), kind))
    found = [report.to_dict() for report in reports]
    content = found[0] if len(found) == 1 else {one["direction"]: one for one in found}
    _write(files.json, _json(content))
    tables = [report.markdown() if kind is None else report.outputs() for report in reports]
    _write(files.markdown, "\n".join(tables))
    if files.card:
        old = files.card.read_text("utf-8")
        _write(files.card, with_section(old, "Behaviour", behaviour.section(found, command())))
    print("\n\n".join(report.table() for report in reports))
    for report in reports:
        for result in (report.failures if kind is None else report.results)[:shown]:
            print(f"\n{result}")


def run_sets(
    names: list[str],
    targets: tuple[str, ...],
    card_of: Callable[[Data, str], dict[str, Any]],
    limit: int | None,
    translator: "Translator",
    files: Files,
) -> None:
    """Score each set in each direction by `card_of`, and show one table of all."""
    from rich.console import Console

    from glassformer.cli.evaluate import WIDTH
    from glassformer.evaluate import suite as suites
    from glassformer.evaluate.card import markdown, show, with_fact, with_section

    cards = {}
    for name in names:
        about = named_set(name, limit)
        for target in targets:
            direction = _direction(translator, target)
            tell(f"{name}, {direction}")
            cards[name, direction] = card_of(about, target)
    suite = suites.suite(command(), cards)
    sheet = suites.sheet(suite)
    _write(files.json, _json(suite))
    _write(files.markdown, markdown(sheet))
    if files.card:
        old = with_fact(files.card.read_text("utf-8"), "score", suites.best(suite))
        _write(files.card, with_section(old, "Scores", suites.section(suite)))
    show(sheet, Console(width=WIDTH, highlight=False))


def named_set(name: str, limit: int | None) -> Data:
    """Return the data of SET/SPLIT."""
    found, slash, split = name.partition("/")
    if not slash or not found or not split:
        raise SettingsError(
            f"{name!r} is not the name of a set and its split.",
            "Several sets are named SET/SPLIT with commas between them.",
            "For example: --sets wmt14/newsdev,general/flores-dev.",
        )
    return Data(None, None, None, None, (), found, split, limit, False)


def command() -> str:
    """Return the command line as it was typed."""
    return shlex.join(["glassformer", *sys.argv[1:]])


def _direction(translator: "Translator", to: str) -> str:
    from glassformer.data.direction import from_language

    return f"{from_language(translator.settings.data, to)}-{to}"


def _translation(
    translator: "Translator", to: str, options: dict[str, Any]
) -> Callable[[list[str]], list[str]]:
    def translate(texts: list[str]) -> list[str]:
        return translator.translate(texts, to=to, **options)

    return translate


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _write(path: Path | None, content: str) -> None:
    if path:
        save_text(path, content)
        tell(f"written: {path}")
