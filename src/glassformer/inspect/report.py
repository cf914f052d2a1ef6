"""A trace as one self-contained HTML file.

A script in the page draws it from the trace, which is embedded as JSON. Input and output texts
cannot become markup: every `<` in the JSON is escaped, the script sets text content only, and the
content security policy allows that one script and no downloads.
"""

import json
import re
import webbrowser
from base64 import b64encode
from dataclasses import asdict
from hashlib import sha256
from html import escape
from importlib.resources import files
from math import exp
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from rich.console import Console

from glassformer import __version__
from glassformer.decode.options import SearchOptions
from glassformer.inspect.heads import distance, entropy
from glassformer.inspect.pictures import CAUTION
from glassformer.inspect.rollout import rollout
from glassformer.inspect.trace import Trace
from glassformer.inspect.trace_json import rounded, side_to_dict, to_dict
from glassformer.output import save_text
from glassformer.progress import say

TITLES = {
    "translator": "Inside a translation",
    "language-model": "Inside a continuation",
    "classifier": "Inside a decision",
    "embedder": "Inside an embedding",
}
ALWAYS_SHOWN = ("beam_size", "length_penalty")  # other search options only if not the default
FRAME_HEIGHT = 900  # pixels of the view in a notebook; the rest scrolls
SLOT = re.compile(r"\{\{(\w+)\}\}")
# Characters that could end the script element of the JSON or start another.
ESCAPES = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def data_of(trace: Trace) -> dict[str, Any]:
    """Return the data of the page: trace, decoder input, rollout and head statistics."""
    return {
        "trace": to_dict(trace),
        "read": side_to_dict(trace.decoder_input),
        "rollout": {
            name: rounded(rows.tolist()) for name, rows in rollout(trace.attention).items()
        },
        "heads": {
            kind: {
                "entropy": rounded(entropy(weights).mean(-1).tolist()),
                "distance": rounded(distance(weights).mean(-1).tolist()),
            }
            for kind, weights in trace.attention.items()
        },
    }


def html_of(trace: Trace) -> str:
    """Return the page."""
    style, script = _template("report.css"), script_of_report()
    data = json.dumps(
        data_of(trace), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).translate(ESCAPES)
    title = TITLES[trace.kind]
    slots = {
        "policy": f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}",
        "version": escape(__version__),
        "title": escape(f"{title}: {trace.source.text if trace.source else _output(trace)}"),
        "heading": escape(title),
        "summary": "\n".join(_fact(*fact) for fact in summary(trace).items()),
        "caution": escape(CAUTION),
        "style": style,
        "data": data,
        "script": script,
    }
    # One pass: inserted text is not searched for slots.
    return SLOT.sub(lambda slot: slots[slot[1]], _template("report.html"))


def summary(trace: Trace) -> dict[str, str]:
    """Return the facts above the figures."""
    facts = {"model": trace.model, "text": trace.source.text if trace.source else ""}
    if trace.target is not None:
        facts["output" if trace.search else "forced output"] = trace.target.text
    if trace.answer is not None:
        node = trace.nodes[trace.answer]
        per_token = node.log_probability / len(trace.answer_path)
        facts["log-probability"] = f"{node.log_probability:.4f} ({exp(per_token):.1%} per token)"
        facts["score"] = f"{node.score:.4f}"
        if node.complete is False:
            facts["note"] = "cut off at the length limit"
    if trace.search is not None:
        defaults = asdict(SearchOptions()) | dict.fromkeys(ALWAYS_SHOWN)
        shown = {name: value for name, value in trace.search.items() if value != defaults.get(name)}
        facts["search"] = ", ".join(f"{name} {value}" for name, value in shown.items())
    ranked = sorted(trace.probabilities.items(), key=lambda item: -item[1])
    facts |= {label: f"{probability:.2%}" for label, probability in ranked}
    return {name: value for name, value in facts.items() if value}


def _output(trace: Trace) -> str:
    return trace.target.text if trace.target is not None else ""


def _fact(name: str, value: str) -> str:
    name, value = (f'<bdi dir="auto">{escape(text)}</bdi>' for text in (name, value))
    return f"<dt>{name}</dt><dd>{value}</dd>"


def _template(name: str) -> str:
    return (files("glassformer.inspect") / "templates" / name).read_text("utf-8")


def script_of_report() -> str:
    """Return the script of the page: the parts that it shares with the explorer, then its own."""
    parts = re.sub(r"^export ", "", _template("parts.js"), flags=re.MULTILINE)
    return f'"use strict";\n{parts}\n{_template("report.js")}'


def _hash(content: str) -> str:
    digest = b64encode(sha256(content.encode()).digest()).decode("ascii")
    return f"'sha256-{digest}'"


def frame_of(trace: Trace) -> str:
    """Return the page in a frame, for a notebook.

    The frame is sandboxed: its one script runs, and reaches neither the notebook nor the network.
    The page is an attribute of the frame, in which escaped quotes cannot end it.
    """
    title = escape(TITLES[trace.kind])
    return (
        f'<iframe title="{title}" sandbox="allow-scripts" srcdoc="{escape(html_of(trace))}" '
        f'style="width: 100%; height: {FRAME_HEIGHT}px; border: 0"></iframe>'
    )


def show(trace: Trace) -> None:
    """Display the page in a notebook, or open it in a browser from a temporary file."""
    if Console().is_jupyter:
        from IPython.display import display

        display(trace)
        return
    path = Path(mkdtemp(prefix="glassformer-")) / "inspect.html"
    write_report(trace, path)
    if not webbrowser.open(path.as_uri()):
        say(f"No browser could be opened. The view is in {path}.")


def write_report(trace: Trace, path: Path) -> None:
    save_text(path, html_of(trace))
