"""The layout of the help of a verb."""

import re
from typing import Any

from typer.core import TyperCommand

BOUNDS = re.compile(r"; [\d.<=]*x[<>=\d.]+(?=\])|\s*\[[\d.<=]*x[<>=\d.]+\]")  # which errors tell
DESCRIBED = re.compile(r"(?<=\[default: )\((.*)\)(?=\]$)")  # a default in words


class Verb(TyperCommand):
    """A command whose help has no Python types: arguments as in the usage line, plain defaults."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            name, text = record
            if param.param_type_name == "argument":
                name = str(getattr(param, "metavar", None) or param.name)
            title = f"{param.param_type_name.capitalize()}s"
            sections[title].append((name, DESCRIBED.sub(r"\1", BOUNDS.sub("", text))))
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
