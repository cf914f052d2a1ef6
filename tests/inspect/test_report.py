"""The HTML report: self-contained, with the numbers of the trace, and safe for any text."""

import json
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from math import exp
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.errors import DataError
from glassformer.inspect import report
from glassformer.inspect.heads import distance, entropy
from glassformer.inspect.links import by_share, links
from glassformer.inspect.pictures import PLAIN_WORDS, View, by_row, decision, shown
from glassformer.inspect.report import data_of, html_of, write_report
from glassformer.inspect.rollout import rollout
from glassformer.inspect.trace import Trace, trace_of
from glassformer.inspect.trace_json import LEVELS
from glassformer.inspect.tree import FATES

TEXT = "two old cats, a dog"
NASTY = [
    '</script><img src=x onerror="alert(1)">',
    "<!--<script>alert('1')</script>--> & &lt; \"' {{data}} {{script}}",
    "שלום \u202eעולם\u202c \u2028\u2029 مرحبا",
]
NODE = shutil.which("node")
PAGE = Path(__file__).with_name("page.js")
needs_node = pytest.mark.skipif(NODE is None, reason="no node here")


class Page(HTMLParser):
    """Collect elements with their attributes, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._at = ""  # the open element
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        self._at = f"{tag}#{dict(attributes).get('id', '')}"

    def handle_endtag(self, tag: str) -> None:
        self._at = ""

    def handle_data(self, text: str) -> None:
        self.texts[self._at] = self.texts.get(self._at, "") + text

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.texts["script#data"])

    def tags(self) -> list[str]:
        return [tag for tag, _ in self.elements]


@pytest.fixture
def translation(untrained) -> Trace:
    return trace_of(untrained(), TEXT, beam_size=3, max_length=6, name="a run")


@pytest.fixture(params=["translator", "given", "language-model", "classifier"])
def trace(request, untrained) -> Trace:
    if request.param == "given":
        return trace_of(untrained(), TEXT, "l'un voit", name="a run")
    options = {} if request.param == "classifier" else {"max_length": 14, "beam_size": 3}
    return trace_of(untrained(request.param), TEXT, name="a run", **options)


# The data


def test_the_embedded_data_equal_the_trace(trace: Trace) -> None:
    data = Page(html_of(trace)).data
    again = Trace.from_json(json.dumps(data["trace"]))
    assert again.to_json() == trace.to_json()
    for kind, weights in trace.attention.items():
        cells = again.attention[kind]
        torch.testing.assert_close(cells, weights, atol=1 / LEVELS, rtol=0)
        torch.testing.assert_close(cells.sum(-1), torch.ones(weights.shape[:3]))
        assert not cells[weights == 0].any()
        if kind == "decoder":
            assert not cells.triu(1).any()
        told = data["heads"][kind]
        for name, measure in (("entropy", entropy), ("distance", distance)):
            expected = measure(weights).mean(-1)
            torch.testing.assert_close(torch.tensor(told[name]), expected, atol=1e-5, rtol=1e-5)
    for name, rows in rollout(trace.attention).items():
        torch.testing.assert_close(torch.tensor(data["rollout"][name]), rows)


# The file


def test_the_report_loads_nothing(trace: Trace) -> None:
    text = html_of(trace)
    page = Page(text)
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "base", "form", "a")
        assert not {"src", "href", "style", "action"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text and "url(" not in text and "@import" not in text
    for word in ("fetch(", "XMLHttpRequest", "import(", "innerHTML", "eval(", "document.write"):
        assert word not in text
    assert page.tags().count("script") == 2 and page.tags().count("style") == 1


def test_the_content_policy_allows_its_own_script_only(translation: Trace) -> None:
    page = Page(html_of(translation))
    (policy,) = [a["content"] for t, a in page.elements if t == "meta" and "http-equiv" in a]

    def digest(text: str) -> str:
        return b64encode(sha256(text.encode()).digest()).decode()

    assert policy is not None and policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest(page.texts['script#'])}'" in policy
    assert f"style-src 'sha256-{digest(page.texts['style#'])}'" in policy
    assert "unsafe" not in policy
    assert "</" not in page.texts["style#"] and "</" not in page.texts["script#"]


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("kind", ["translator", "classifier"])
def test_any_text_stays_text(untrained, kind: str, text: str) -> None:
    options = {} if kind == "classifier" else {"max_length": 4}
    model = untrained(kind)
    plain = Page(html_of(trace_of(model, "a dog", name="x", **options)))
    trace = trace_of(model, text, truncate=True, name=text, **options)
    page = Page(html_of(trace))
    assert [e for e in page.tags() if e not in ("dt", "dd", "bdi")] == [
        e for e in plain.tags() if e not in ("dt", "dd", "bdi")
    ]
    assert page.data["trace"]["source"]["text"] == text and page.data["trace"]["model"] == text
    assert page.texts["script#"] == plain.texts["script#"]
    assert text in page.texts["title#"]
    raw = html_of(trace).split('id="data">')[1].split("</script>")[0]
    assert not set("<>&\u2028\u2029") & set(raw)


def test_labels_of_a_classifier_stay_text(untrained) -> None:
    classifier = untrained("classifier")
    classifier.labels = ("<b>", "</script>", '"')
    page = Page(html_of(trace_of(classifier, TEXT)))
    assert list(page.data["trace"]["probabilities"]) == ["<b>", "</script>", '"']
    assert "b" not in page.tags()


def test_the_summary_names_text_output_and_search(translation: Trace, untrained) -> None:
    facts = report.summary(translation)
    assert facts["text"] == TEXT and facts["output"] == translation.target.text
    assert "beam_size 3" in facts["search"] and facts["model"] == "a run"
    assert facts["score"] == f"{translation.nodes[translation.answer].score:.4f}"
    given = report.summary(trace_of(untrained(), TEXT, "l'un"))
    assert given["forced output"] == "l'un" and "search" not in given and "model" not in given
    cut = report.summary(trace_of(untrained(), TEXT, max_length=2, min_length=2))
    assert "cut off" in cut["note"]
    decided = report.summary(trace_of(untrained("classifier"), TEXT))
    assert {"sad", "glad", "neither"} <= set(decided)


def test_the_page_has_light_and_dark_styles_and_keys(translation: Trace) -> None:
    page = Page(html_of(translation))
    assert "prefers-color-scheme: dark" in page.texts["style#"]
    assert "color-scheme: light dark" in page.texts["style#"]
    focusable = {a["id"] for _, a in page.elements if a.get("tabindex") == "0"}
    assert focusable == {"grid", "tree"}
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))


def test_the_page_explains_every_fate() -> None:
    script = report.script_of_report()
    for fate in FATES:
        assert script.count(f'"{fate}": "') == 2, fate  # its explanation and its sign


def test_the_report_is_written_to_its_path(translation: Trace, tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    write_report(translation, path)
    assert path.read_text("utf-8") == html_of(translation)
    with pytest.raises(DataError, match="cannot be written"):
        write_report(translation, path / "report.html")


# The script in node, on a fake page that records


def run(trace: Trace, folder: Path, *events: tuple[str, str, dict[str, Any]]) -> list[Any]:
    """Return the state of the page at first and after each event."""
    path = folder / "report.html"
    write_report(trace, path)
    assert NODE is not None
    script = folder / "report.js"
    script.write_text(report.script_of_report(), "utf-8")
    command = [NODE, str(PAGE), str(path), str(script), json.dumps(events)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def key(name: str, where: str = "grid") -> tuple[str, str, dict[str, Any]]:
    return where, "keydown", {"key": name}


def drawn(cells: list[list[float]], shape: torch.Size) -> torch.Tensor:
    """Return the opacity of each cell by its position."""
    found = torch.zeros(shape)
    if cells:
        width, height = cells[0][2:4]
        left, top = (min(cell[i] for cell in cells) for i in (0, 1))
        for x, y, *_, alpha in cells:
            found[round((y - top) / height), round((x - left) / width)] = alpha
    return found


def assert_drawn(cells: list[list[float]], expected: torch.Tensor, atol: float = 2e-5) -> None:
    full = expected.nonzero()
    assert full[:, 0].min() == 0 and full[:, 1].min() == 0, "the corner is where it is looked for"
    torch.testing.assert_close(drawn(cells, expected.shape), expected, atol=atol, rtol=0)


@needs_node
def test_the_script_parses_as_javascript(tmp_path: Path) -> None:
    assert NODE is not None
    script = tmp_path / "report.js"
    script.write_text(report.script_of_report(), "utf-8")
    subprocess.run([NODE, "--check", str(script)], check=True)


@needs_node
def test_the_grid_equals_the_attention_and_arrow_keys_change_heads(
    translation: Trace, tmp_path: Path
) -> None:
    keys = ["ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowUp", "k", "k", "k", "x"]
    told = run(translation, tmp_path, *map(key, keys))
    places = [
        ("cross", 0, 0), ("cross", 0, 1), ("cross", 1, 1), ("cross", 1, 1), ("cross", 1, 0),
        ("cross", 0, 0), ("encoder", 0, 0), ("decoder", 0, 0), ("cross", 0, 0), ("cross", 0, 0),
    ]  # fmt: skip
    for seen, (kind, layer, head) in zip(told, places, strict=True):
        weights = translation.attention[kind]
        assert seen["label"] == f"{kind} attention, layer {layer + 1}, head {head + 1}"
        assert_drawn(seen["grid"], weights[layer, head])
        assert seen["pressed"] == layer * 2 + head
        for n, cells in enumerate(seen["overview"]):
            assert_drawn(cells, weights[n // 2, n % 2])
        rows, columns, _ = shown(translation, kind, View())
        assert seen["names"] == [*rows, *columns] and seen["reading"] == columns
    assert [seen["prevented"] for seen in told[1:]] == [True] * 8 + [False]
    assert told[0]["focus"] == "grid"


@needs_node
def test_words_and_marks_are_shown_as_in_the_figures(translation: Trace, tmp_path: Path) -> None:
    told = run(translation, tmp_path, key("w"), key("m"), ("words", "change", {"checked": False}))
    for seen, view in zip(
        told,
        [View(), View(True), PLAIN_WORDS, View(False, False)],
        strict=True,
    ):
        rows, columns, weights = shown(translation, "cross", view)
        assert_drawn(seen["grid"], weights[0, 0], atol=1e-4)
        assert seen["names"] == [*rows, *columns]


@needs_node
def test_long_words_are_cut_as_in_the_figures(untrained, tmp_path: Path) -> None:
    trace = trace_of(untrained(), "dogcatteadogcatteadogcattea", "le")
    (told,) = run(trace, tmp_path, ("words", "change", {"checked": True}))[1:]
    rows, columns, _ = shown(trace, "cross", View(words=True))
    assert told["names"] == [*rows, *columns] and columns[0].endswith("…")


@needs_node
def test_links_equal_those_of_the_package(translation: Trace, tmp_path: Path) -> None:
    told = run(
        translation, tmp_path, ("share", "change", {"checked": False}), key("ArrowDown"),
        ("linked", "change", {"value": "1"}), key("ArrowRight"),
        ("linked", "change", {"value": "2"}), ("share", "change", {"checked": True}),
    )  # fmt: skip
    in_the_file = Trace.from_json(translation.to_json())  # to 1/65,535
    rows, columns, weights = shown(in_the_file, "cross", PLAIN_WORDS)
    every, layer, one = weights.mean((0, 1)), weights[1].mean(0), weights[1, 1]
    ways = [by_share(every), every, every, layer, layer, one, by_share(one)]
    for seen, attention in zip(told, ways, strict=True):
        found = sorted(links(attention), key=lambda link: link[1])
        assert seen["links"] == ", ".join(f"{rows[t]} – {columns[s]}" for s, t in found)
        assert seen["lines"] == len(found) == len(rows)
    assert "s-links" not in told[0]["hidden"]


@needs_node
def test_steps_show_the_most_likely_tokens(translation: Trace, tmp_path: Path) -> None:
    down = key("ArrowDown", "steps")
    keys = [key("."), down, key("End"), down, key("Home"), key("k"), key("End")]
    told = run(translation, tmp_path, *keys, ("layer", "change", {"value": "1"}))
    last = len(translation.answer_path) - 1
    assert [seen["step"] for seen in told] == [0, 1, 2, last, last, 0, 0, 0, 0]
    for seen in told:
        before = 0 if seen["step"] == 0 else translation.answer_path[seen["step"] - 1]
        following = translation.nodes[before].next
        assert len(seen["top"]) == len(following)
        for row, (token, value) in zip(seen["top"], following, strict=True):
            assert row.startswith(translation.vocabulary[token].removeprefix("▁"))
            assert exp(value) < 0.1 or f"{100 * exp(value):.0f}%" in row
    assert len(told[0]["steps"]) == last + 1
    row = translation.attention["cross"][0, 0, 1]
    assert f"{100 * row.max():.0f}%" in told[1]["cell"]
    assert told[-1]["label"] == "encoder attention, layer 2, head 1"


@needs_node
def test_the_tree_has_every_node_and_is_navigable_by_keyboard(
    translation: Trace, tmp_path: Path
) -> None:
    told = run(
        translation, tmp_path, ("pruned", "change", {"checked": True}), key("ArrowLeft", "tree"),
        key("ArrowRight", "tree"), key("ArrowUp", "tree"), *[key("ArrowLeft", "tree")] * 20,
    )  # fmt: skip
    pruned = sum(node.fate == "pruned" for node in translation.nodes)
    assert pruned and len(told[0]["nodes"]) == len(translation.nodes) - pruned
    assert len(told[1]["nodes"]) == len(translation.nodes)
    assert all(seen["edges"] == len(seen["nodes"]) - 1 for seen in told)
    answer = translation.nodes[translation.answer]
    assert f"log-probability {answer.log_probability:.3f}" in told[0]["node"]
    assert "best: finished as the answer" in told[0]["node"]
    assert "went on" in told[2]["node"] and told[3]["node"] == told[1]["node"]
    assert told[-1]["node"].startswith("the beginning") and not told[-1]["prevented"]
    shown_fates = {name.split(" ", 1)[1] for name in told[0]["fates"]}
    assert shown_fates == {node.fate for node in translation.nodes}


@needs_node
def test_saliency_and_rollout_are_drawn(translation: Trace, tmp_path: Path) -> None:
    told = run(translation, tmp_path)
    flow, gradient = rollout(translation.attention), translation.saliency
    ways = [by_row(way["source"], way["target"]) for way in (flow, gradient)]
    expected = [way[side] for side in (0, 1) for way in ways]
    for cells, rows in zip(told[0]["saliency"], expected, strict=True):
        assert_drawn(cells, rows)


@needs_node
def test_a_classifier_shows_the_influence_of_words(untrained, tmp_path: Path) -> None:
    trace = trace_of(untrained("classifier"), TEXT)
    told = run(trace, tmp_path, key("."), key("End"), key("ArrowRight"), ("media", "change", {}))
    _, columns = decision(trace)
    rows = told[0]["decision"][1:]
    order = columns["left out"].abs().argsort(descending=True).tolist()
    assert [row[0] for row in rows] == [trace.source.words[i].text for i in order]
    for row, i in zip(rows, order, strict=True):
        assert float(row[1]) == pytest.approx(float(columns["left out"][i]), abs=6e-4)
        assert float(row[3]) == pytest.approx(float(columns["gradient"][i]), abs=6e-4)
    assert {"s-links", "s-steps", "s-tree"} <= set(told[0]["hidden"]) and "s-saliency" not in told[
        0
    ]["hidden"]
    assert told[2]["cell"].startswith(f"“{trace.source.tokens[-1].removeprefix('▁')}” looks at")


@needs_node
def test_language_models_and_forced_targets_are_shown(untrained, tmp_path: Path) -> None:
    trace = trace_of(untrained("language-model"), "a dog", max_length=8)
    told = run(trace, tmp_path, key("k"), key("."), key("w"))
    assert_drawn(told[0]["grid"], trace.attention["decoder"][0, 0])
    assert len(told[0]["saliency"]) == 2
    given = trace_of(untrained(), TEXT, "l'un voit")
    told = run(given, tmp_path, key("ArrowLeft", "tree"), key("."))
    assert len(told[0]["nodes"]) == len(given.nodes) and "forced target" in told[0]["node"]


@needs_node
@pytest.mark.parametrize("text", NASTY)
def test_the_script_never_parses_text_as_markup(untrained, tmp_path: Path, text: str) -> None:
    """The fake page in `page.js` refuses such calls."""
    trace = trace_of(untrained(), text, truncate=True, max_length=4)
    told = run(trace, tmp_path, key("w"), key("k"), key("."))
    assert not {"\u202e", "\u202c"} & set("".join(told[0]["names"]))


def test_the_page_data_has_trace_input_rollout_and_heads(trace: Trace) -> None:
    assert list(data_of(trace)) == ["trace", "read", "rollout", "heads"]
