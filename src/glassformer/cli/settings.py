"""`glassformer settings`: every setting of a recipe, with its default, values and meaning."""

import inspect
import io
import json
import textwrap
import tokenize
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from glassformer.cli import options as o
from glassformer.config import (
    DataSettings,
    ModelSettings,
    NoiseSettings,
    SearchSettings,
    Settings,
    SourceSettings,
    TextSettings,
    TrainSettings,
)
from glassformer.errors import SettingsError, did_you_mean
from glassformer.progress import columns

Row = tuple[str, str, str, str]  # name, default, values, meaning
WIDTH = 78  # columns of what is printed
SECTIONS: dict[str, type[Settings]] = {
    "model": ModelSettings,
    "data": DataSettings,
    "data.noise": NoiseSettings,
    "data.sources": SourceSettings,
    "data.valid_sets": TextSettings,
    "train": TrainSettings,
    "search": SearchSettings,
}
TITLE = """\
# Settings

Every setting of a recipe; `glassformer settings NAME` prints one, or a section. A recipe has the
sections as TOML tables; on the command line a setting is changed by `section.name=value`
([recipes](recipes.md)).

"""
HEAD = "| setting | default | values | meaning |\n|---|---|---|---|"
KINDS = {
    "integer": "whole number",
    "number": "number",
    "boolean": "`true`, `false`",
    "string": "text",
    "array": "list of texts",
}
BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


def settings(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A section or a setting, such as train or train.ema.",
            show_default="all of them",
        ),
    ] = None,
    markdown: o.Markdown = None,
) -> None:
    """Print the settings of a recipe: name, default, values, meaning."""
    if markdown:
        o.save(markdown, reference(name))
    else:
        print(listing(name, columns(WIDTH)), end="")


def listing(name: str | None, width: int) -> str:
    """Return the same settings as text of so many columns."""
    return "\n".join(
        f"[{section}]\n\n" + "\n".join(_block(row, width) for row in its)
        for section, its in _chosen(name).items()
    )


def _block(row: Row, width: int) -> str:
    """Return a setting in lines: name and default, then the values and the meaning."""
    name, default, values, meaning = (cell.replace("`", "") for cell in row)
    stated = default if default == "required" else f"default {default}"
    indent = " " * 4
    texts = [f"{name}: {stated}", *(f"{indent}{text}" for text in (values, meaning) if text)]
    return "".join(
        textwrap.fill(text, width, subsequent_indent=indent, break_on_hyphens=False) + "\n"
        for text in texts
    )


def reference(name: str | None = None) -> str:
    """Return the Markdown tables of all sections, of one section, or the row of one setting."""
    return (TITLE if name is None else "") + "\n".join(
        f"## {section}\n\n{HEAD}\n" + "".join(_line(row) for row in its)
        for section, its in _chosen(name).items()
    )


def _chosen(name: str | None) -> dict[str, list[Row]]:
    """Return the rows of all sections, of one, or of one setting."""
    rows = {section: list(_rows(section, cls)) for section, cls in SECTIONS.items()}
    chosen = {
        section: [row for row in its if name in (None, section, row[0])]
        for section, its in rows.items()
    }
    if not any(chosen.values()):
        names = [*SECTIONS, *(row[0] for its in rows.values() for row in its)]
        raise SettingsError(
            f"There is no setting {name!r}.",
            f"The sections are {', '.join(SECTIONS)}.",
            did_you_mean(str(name), names, "List all: glassformer settings."),
        )
    return {section: its for section, its in chosen.items() if its}


def _line(row: Row) -> str:
    name, default, values, meaning = (cell.replace("|", "\\|") for cell in row)
    return f"| `{name}` | {default} | {values} | {meaning} |\n"


def _rows(section: str, cls: type[Settings]) -> Iterator[Row]:
    meanings: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, Settings):
            meanings |= comments(base)
    schema = cls.model_json_schema()
    for name, field in schema["properties"].items():
        kind = field.get("anyOf", [field])[0]  # the other one is null
        if "$ref" in kind or "$ref" in kind.get("items", {}):
            continue  # a section, which has a table of its own
        default = "required" if name in schema.get("required", []) else _value(field["default"])
        yield f"{section}.{name}", default, _values(kind), meanings.get(name, "")


def comments(cls: type) -> dict[str, str]:
    """Return the comment of each field in the source of a class: lines above it, then beside it."""
    found: dict[str, str] = {}
    above: list[str] = []
    name = None  # the first word of a line
    for token in tokenize.generate_tokens(io.StringIO(inspect.getsource(cls)).readline):
        text = token.string.removeprefix("#").strip()
        if token.type == tokenize.NAME and name is None:
            name = token.string
            found[name] = " ".join(above)
            above = []
        elif token.type == tokenize.COMMENT:
            if name is None:
                above.append(text)
            else:
                found[name] = f"{found[name]} {text}".strip()
        elif token.type == tokenize.NEWLINE:
            name = None
    return {name: _sentence(text) for name, text in found.items()}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _values(kind: dict[str, Any]) -> str:
    """Describe the values that a JSON schema allows."""
    if "enum" in kind:
        return ", ".join(map(_value, kind["enum"]))
    limits = [f"{sign} {kind[bound]:g}" for bound, sign in BOUNDS.items() if bound in kind]
    return " ".join([KINDS[kind["type"]], ", ".join(limits)]).strip()


def _value(value: object) -> str:
    if value is None:
        return "none"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"
