"""All findings on one self-contained HTML page without scripts."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape

from glassformer.evaluate.card import Table, cell_text
from glassformer.lab.finding import Finding
from glassformer.lab.report import LABELS, tables

STYLE = """
:root { color-scheme: light dark; --soft: #8885; --good: #1a7f4b; --bad: #b3261e; }
:root { --mixed: #8a6100; }
@media (prefers-color-scheme: dark) { :root { --good: #5fd39a; --bad: #ff8a80; --mixed: #f0c04a; } }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; }
body { padding: 0 1rem; }
h2 { margin-top: 3rem; border-top: 1px solid var(--soft); padding-top: 1.5rem; }
dt { font-weight: 600; } dd { margin: 0 0 .5rem 1.5rem; }
img { max-width: 100%; background: #fff; border-radius: 4px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; margin: .5rem 0 1rem; }
th, td { border-bottom: 1px solid var(--soft); padding: .2rem .7rem; text-align: right; }
th.l, td.l { text-align: left; }
code, small { font-size: 14px; overflow-wrap: anywhere; }
.supported { color: var(--good); }
.not-supported { color: var(--bad); }
.depends { color: var(--mixed); }
"""


def page(findings: Sequence[tuple[Finding, str | None]]) -> str:
    """Return the page for findings, each with the text of its SVG or None."""
    contents = "".join(_entry(finding) for finding, _ in findings)
    sections = "".join(_section(finding, svg) for finding, svg in findings)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "img-src data:; style-src 'unsafe-inline'\">"
        f"<title>Glassformer: the lab</title><style>{STYLE}</style></head><body><main>"
        "<h1>The lab: claims about the Transformer, measured</h1>"
        "<p>A rule that is stated before the run computes each verdict from the numbers below it. "
        "Numbers are means over seeds with 95% intervals. They hold for these small models and "
        "tasks; change an experiment and run it to test others.</p>"
        f"<ol>{contents}</ol>{sections}</main></body></html>\n"
    )


def _entry(finding: Finding) -> str:
    name, title = escape(finding.stated["name"]), escape(finding.stated["title"])
    return f'<li><a href="#{name}">{title}</a>: {_mark(finding)}</li>'


def _mark(finding: Finding) -> str:
    outcome = finding.verdict.outcome
    quick = " (quick run)" if finding.budget.quick else ""
    return f'<strong class="{outcome.replace(" ", "-")}">{escape(outcome)}</strong>{quick}'


def _section(finding: Finding, svg: str | None) -> str:
    stated = finding.stated
    terms = "".join(
        f"<dt>{label}</dt><dd>{escape(stated[name])}</dd>" for name, label in LABELS.items()
    )
    image = ""
    if svg is not None:  # as an image, in which no script runs
        data = b64encode(svg.encode()).decode()
        alt = escape(f"{stated['title']}: {finding.verdict.because}")
        image = f'<p><img src="data:image/svg+xml;base64,{data}" alt="{alt}"></p>'
    shown = "".join(_html(table) for table in tables(finding))
    machine = ", ".join(f"{name} {value}" for name, value in finding.machine.items())
    return (
        f'<section><h2 id="{escape(stated["name"])}">{escape(stated["title"])}</h2>'
        f"<p>{_mark(finding)}: {escape(finding.verdict.because)}</p><dl>{terms}</dl>{image}{shown}"
        f"<p><small><code>{escape(finding.command)}</code>, {len(finding.budget.seeds)} seeds, "
        f"{finding.seconds:,.0f} seconds on: {escape(machine)}</small></p></section>"
    )


def _html(table: Table) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        left = [' class="l"' if side == "l" else "" for side in table.alignment]
        pairs = zip(left, cells, strict=True)
        return "<tr>" + "".join(f"<{tag}{c}>{escape(x)}</{tag}>" for c, x in pairs) + "</tr>"

    head, rows = (
        row("th", table.columns),
        "".join(row("td", [cell_text(cell) for cell in cells]) for cells in table.rows),
    )
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="The numbers">'
        f"<table><thead>{head}</thead><tbody>{rows}</tbody></table></div>"
    )
