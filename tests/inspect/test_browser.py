"""The report in a real browser: pixels, keyboard, contrast, no network."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.inspect.report import write_report
from glassformer.inspect.trace import Trace, trace_of

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
TEXT = "two old cats, a dog"
NASTY = '</script><img src=x onerror="alert(1)"> {{data}} <b>'
# The opacity of each cell, sampled off its centre, away from the row marker.
OPACITY = """([rows, columns]) => {
  const grid = document.getElementById("grid"), context = grid.getContext("2d");
  const [left, top, w, h] = grid.dataset.place.split(" ").map(Number);
  const at = (x, y) => context.getImageData(left + (x + 0.5) * w, top + (y + 0.25) * h, 1, 1);
  return Array.from({ length: rows }, (_, y) =>
    Array.from({ length: columns }, (_, x) => at(x, y).data[3] / 255));
}"""
CONTRAST = """(selector) => {
  const luminance = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
      const c = part / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ink = luminance(getComputedStyle(document.querySelector(selector)).color);
  const page = luminance(getComputedStyle(document.body).backgroundColor);
  return (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05);
}"""

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and "CI" not in os.environ, reason="no Chromium here"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "CI installs Chromium: .ci/run"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield started
        started.close()


class Shown:
    """Open a report in the browser; record its errors and requests."""

    def __init__(self, browser: Any, path: Path, scheme: str) -> None:
        self.page = browser.new_page(color_scheme=scheme)
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("dialog", lambda dialog: self.problems.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def _note(self, message: Any) -> None:
        """Record violations of the content policy as errors."""
        if message.type == "error":
            self.problems.append(message.text)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def label(self) -> str:
        return str(self.page.get_attribute("#grid", "aria-label"))

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Shown]]:
    shown: list[Shown] = []

    def open_page(trace: Trace, scheme: str = "light") -> Shown:
        path = tmp_path / f"{len(shown)}.html"
        write_report(trace, path)
        shown.append(Shown(browser, path, scheme))
        return shown[-1]

    yield open_page
    for one in shown:
        assert not one.problems
        assert len(one.requests) == 1 and one.requests[0].startswith("file://")
        one.page.close()


@pytest.fixture
def translation(untrained) -> Trace:
    return trace_of(untrained(), TEXT, beam_size=3, max_length=6, name="a run")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pixels_equal_the_attention(show, translation: Trace, scheme: str) -> None:
    """A cell has one colour, with the weight as opacity."""
    page = show(translation, scheme).page
    weights = translation.attention["cross"][0, 0]
    seen = page.evaluate(OPACITY, [*weights.shape])
    torch.testing.assert_close(torch.tensor(seen), weights, atol=1.5 / 255, rtol=0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast_in_light_and_dark(show, translation: Trace, scheme: str) -> None:
    page = show(translation, scheme).page
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")
    for selector in ("body", ".hint", "dt", "#steps .p", "#cell"):
        assert page.evaluate(CONTRAST, selector) >= 4.5, selector


def test_the_page_works_by_keyboard_alone(show, translation: Trace) -> None:
    shown = show(translation)
    assert shown.label() == "cross attention, layer 1, head 1"
    shown.press("ArrowRight", "ArrowDown")
    assert shown.label() == "cross attention, layer 2, head 2"
    shown.press("k")
    assert shown.label().startswith("encoder attention")
    shown.press("w", "m")
    assert shown.page.is_checked("#words") and not shown.page.is_checked("#marks")
    first = shown.text("#top caption")
    shown.page.focus("#steps button[tabindex='0']")
    shown.press("ArrowDown")
    assert "step 1" in first and "step 2" in shown.text("#top caption")
    shown.page.focus("#tree")
    before = shown.text("#node")
    shown.press("ArrowLeft")
    assert shown.text("#node") != before
    ids = set()
    shown.page.focus("#grid")
    for _ in range(60):  # Tab reaches every control and never gets stuck
        shown.press("Tab")
        ids.add(shown.page.evaluate("document.activeElement.id"))
    assert {"linked", "share", "pruned", "tree", "kind", "layer", "head", "words", "marks"} <= ids


def test_links_are_drawn_and_select_their_steps(show, translation: Trace) -> None:
    shown = show(translation)
    words = len(translation.target.words)
    assert shown.page.locator("#links path").count() == words
    shown.page.select_option("#linked", "2")
    shown.page.uncheck("#share")
    assert shown.page.locator("#links path").count() == words
    last = shown.page.locator("#links .word").last
    last.click()
    assert "chosen" in str(last.get_attribute("class"))
    assert f"step {translation.target.words[-1].start + 1};" in shown.text("#top caption")


@pytest.mark.parametrize("kind", ["translator", "classifier"])
def test_markup_in_a_text_is_shown_as_text(show, untrained, kind: str) -> None:
    options = {} if kind == "classifier" else {"max_length": 4}
    trace = trace_of(untrained(kind), NASTY, truncate=True, name=NASTY, **options)
    page = show(trace).page
    assert page.locator("img").count() == 0 and page.locator("b").count() == 0
    assert NASTY in page.inner_text("header")
    assert page.is_visible("#s-saliency")
    assert page.is_visible("#s-links") == (kind == "translator")
