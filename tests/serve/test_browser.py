"""The page in a real browser: numbers, forced tokens, switches, keyboard, phone, hostile text."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
import torch

from glassformer.inspect.trace import Trace, trace_of
from glassformer.inspect.why import why
from glassformer.pipeline import load
from glassformer.serve.models import Models
from glassformer.serve.server import Server
from glassformer.serve.tracing import aligned
from serve.conftest import CHAT

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")
TEXT = "the old cat sees a dog"
NASTY = "<img src=x> <b>a"  # short: the toy reads 30 subwords
WAIT = 60_000  # milliseconds: the machine of the tests may be busy
# The opacity of each cell, sampled off its centre, away from the row marker.
OPACITY = """([rows, columns]) => {
  const grid = document.getElementById("grid"), context = grid.getContext("2d");
  const [left, top, w, h] = grid.dataset.place.split(" ").map(Number);
  const at = (x, y) => context.getImageData(left + (x + 0.5) * w, top + (y + 0.25) * h, 1, 1);
  return Array.from({ length: rows }, (_, y) =>
    Array.from({ length: columns }, (_, x) => at(x, y).data[3] / 255));
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


@pytest.fixture(scope="module")
def address(models: Models, serving: Any) -> Iterator[str]:
    with serving(Server(models)) as found:
        yield found


@pytest.fixture(scope="module")
def torch_model(folders: dict[str, Any]) -> Any:
    return load(folders["toy-translator"], engine="torch").towards("fr")


class Page:
    """A page that was looked at; its errors and its requests to other places are recorded."""

    def __init__(self, browser: Any, address: str, scheme: str, width: int) -> None:
        self.address = address
        size = {"width": width, "height": 900}
        self.page = browser.new_page(color_scheme=scheme, viewport=size)
        self.page.set_default_timeout(WAIT)
        self.problems: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: self.problems.append(dialog.message))
        self.page.on("console", self._note)
        self.page.on("request", self._asked)

    def _note(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(f"{message.text} {message.location.get('url', '')}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.address, "blob:", "data:")):
            self.problems.append(request.url)

    def look(self, **view: Any) -> Any:
        """Open the page with this view, and wait for its trace."""
        known = {"model": "toy-translator", "text": TEXT, "words": 0, "marks": 1}
        self.page.goto(f"{self.address}/#{urlencode(known | view)}")
        self.page.wait_for_selector("#inside:not([hidden])[aria-busy=false]")
        return self.page

    def traced(self, action: Callable[[], Any]) -> Any:
        """Do something that asks for a trace, and wait for it."""
        with self.page.expect_response("**/api/trace"):
            action()
        self.page.wait_for_selector("#inside[aria-busy=false]")


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Callable[..., Page]]:
    pages: list[Page] = []

    def make(scheme: str = "light", width: int = 1_280) -> Page:
        pages.append(Page(browser, address, scheme, width))
        return pages[-1]

    yield make
    for one in pages:
        assert one.problems == []
        one.page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_cells_equal_the_tensor_and_it_opens_on_the_best_head(
    opened: Callable[..., Page], torch_model: Any, scheme: str
) -> None:
    page = opened(scheme).look()
    trace = trace_of(torch_model, TEXT, beam_size=5)
    layer, head = aligned(trace) or [0, 0]
    label = page.get_attribute("#grid", "aria-label")
    assert label.startswith(f"cross attention, layer {layer + 1}, head {head + 1}")
    weights = trace.attention["cross"][layer, head]
    seen = torch.tensor(page.evaluate(OPACITY, [*weights.shape]))
    torch.testing.assert_close(seen, weights, atol=1.5 / 255, rtol=0)


def test_a_forced_token_and_a_head_that_is_off_give_what_python_gives(
    opened: Callable[..., Page], torch_model: Any
) -> None:
    page = opened()
    page.look(reference="un chat voit")
    page.page.locator("#tree [data-node='0']").click()
    chosen = page.page.locator("#next [data-force]:not([disabled])").nth(1)
    token = int(str(chosen.get_attribute("data-force")))
    page.traced(chosen.click)
    forced = trace_of(torch_model, TEXT, beam_size=5, prefix=[token])
    assert outcome(page) == told(forced)
    page.traced(lambda: page.page.locator("#free").click())
    page.traced(lambda: page.page.locator("[data-switch='cross-0-1']").uncheck())
    off = trace_of(torch_model, TEXT, beam_size=5, heads_off=[("cross", 0, 1)])
    assert outcome(page) == told(off)
    assert page.page.locator("#changes tbody tr").count() == 2


def outcome(page: Page) -> tuple[str, str]:
    cells = page.page.locator("#changes tbody tr").last.locator("td").all_text_contents()
    return cells[0], cells[1]


def told(trace: Trace) -> tuple[str, str]:
    assert trace.target and trace.answer is not None
    return trace.target.text, f"{trace.nodes[trace.answer].log_probability:.3f}"


def test_the_page_works_by_keyboard_alone(opened: Callable[..., Page]) -> None:
    one = opened()
    page = one.look()
    reached: list[str] = []
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
        if "compare" in reached:
            break
    assert {"model", "text", "beam", "words", "marks", "shift", "grid", "tree"} <= {*reached}
    page.focus("#grid")
    page.keyboard.press("k")
    assert "encoder attention" in page.get_attribute("#grid", "aria-label")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("w")
    assert page.is_checked("#words")
    before = page.inner_text("#cell")
    page.keyboard.press(".")
    assert page.inner_text("#cell") != before
    one.traced(lambda: page.keyboard.press("o"))
    assert "switched off" in page.inner_text("#head-name")
    page.focus("#tree")
    told_before = page.inner_text("#node")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#node") != told_before


@pytest.mark.parametrize("model", ["toy-translator", "toy-labels"])
def test_a_phone_shows_everything_without_scrolling_sideways(
    opened: Callable[..., Page], model: str
) -> None:
    page = opened("dark", 400).look(model=model)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"


def test_hostile_text_is_shown_as_text(opened: Callable[..., Page]) -> None:
    page = opened().look(text=NASTY, reference=NASTY)
    assert page.locator("img").count() == 0 and page.locator("b").count() == 0
    assert page.input_value("#text") == NASTY


def test_the_address_restores_the_view(opened: Callable[..., Page]) -> None:
    one = opened()
    page = one.look()
    page.get_by_role("button", name="decoder").click()
    page.check("#shift")
    label, rows = page.get_attribute("#grid", "aria-label"), page.inner_text("#row-tokens")
    page.reload()
    page.wait_for_selector("#inside:not([hidden])")
    assert page.get_attribute("#grid", "aria-label") == label
    assert page.inner_text("#row-tokens") == rows and rows.startswith("<s>")


def test_other_kinds_of_models_answer_without_a_reload(opened: Callable[..., Page]) -> None:
    one = opened()
    page = one.look()
    one.traced(lambda: page.select_option("#model", "toy-labels"))
    assert page.locator("#saliency table tbody tr").count() > 0 and page.is_hidden("#s-search")
    assert "sad" in page.inner_text("#answer") or "glad" in page.inner_text("#answer")
    one.traced(lambda: page.select_option("#model", "toy-text"))
    page.fill("#text", "a dog")
    page.click("#continue")
    from playwright.sync_api import expect

    expect(page.locator("#answer")).to_contain_text(re.compile(r"a dog.{7,}"))


def test_the_tour_has_eight_steps_and_ends_where_it_began(opened: Callable[..., Page]) -> None:
    page = opened().look()
    page.click("#tour-start")
    kinds = []
    for step in range(1, 9):
        assert f"step {step} of 8" in page.inner_text("#tour-text")
        kinds.append(str(page.get_attribute("#grid", "aria-label")).split()[0])
        page.keyboard.press("Enter")
    assert kinds == ["cross", "encoder", "encoder", "decoder", "cross", "cross", "cross", "cross"]
    assert page.is_hidden("#tour")
    assert page.evaluate("document.activeElement.id") == "tour-start"
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert page.is_hidden("#tour")


def test_a_step_opens_its_stages_and_the_lines_that_compute_them(
    opened: Callable[..., Page], torch_model: Any
) -> None:
    page = opened().look(kind="cross", layer=0, head=1, chosenHead=1, step=2, inside=1)
    page.wait_for_selector("#step .stage canvas")
    headings = page.locator("#step .stage h3").all_inner_texts()
    assert len(headings) == 10 and headings[4].startswith("5. mask and softmax")
    weights = trace_of(torch_model, TEXT, beam_size=5).attention["cross"][0, 1, 2]
    told = page.locator("#step .stage").nth(4).locator("output").inner_text()
    shown = float(told.rpartition(" to ")[2])
    assert shown == pytest.approx(float(weights.max()), abs=0.005)
    code = page.locator("#step .stage").nth(4).locator("details.code").first
    code.locator("summary").click()
    marked = code.locator("mark").all_inner_texts()
    assert any("scores.softmax(dim=-1)" in line for line in marked)
    assert "model/attention.py" in code.locator("summary").inner_text()


def test_a_word_is_explained_alone_and_against_another(
    opened: Callable[..., Page], torch_model: Any
) -> None:
    page = opened().look()
    page.click("#s-why summary")
    page.wait_for_selector("#reasons table")
    trace = trace_of(torch_model, TEXT, beam_size=5)
    reasons = why(torch_model.model, trace.source, trace.decoder_input, 0, trace.target.ids[0])
    assert f"{reasons.value:.3f}" in page.inner_text("#why-value")
    rows = page.locator("#reasons table").first.locator("tbody tr")
    assert rows.count() == len(trace.source.words)
    with page.expect_response("**/api/why"):
        page.select_option("#why-against", index=1)
    page.wait_for_selector("#reasons[aria-busy=false]")
    assert "times as likely as" in page.inner_text("#why-value")


def test_a_chat_model_answers_a_message(opened: Callable[..., Page]) -> None:
    one = opened()
    page = one.look(model=CHAT, text="a b")
    assert page.is_visible("#reply")
    with page.expect_response("**/v1/chat/completions") as answer:
        page.click("#reply")
    assert answer.value.status == 200
    assert answer.value.request.post_data_json["messages"] == [{"role": "user", "content": "a b"}]
    from playwright.sync_api import expect

    expect(page.locator("#status")).to_have_text("")
    assert page.is_hidden("#problem")


def test_the_same_head_in_int8_is_shown_beside_it(
    opened: Callable[..., Page], folders: dict[str, Any]
) -> None:
    one = opened()
    page = one.look()
    page.check("#compare")
    page.wait_for_selector("#other canvas")
    rounded = load(folders["toy-translator"], int8=True, engine="torch").towards("fr")
    assert outcome(one) == told(trace_of(rounded, TEXT, beam_size=5))


def test_every_export_is_a_file(opened: Callable[..., Page]) -> None:
    page = opened().look()
    endings = {"SVG": "</svg>", "CSV": "", "PNG": "", "trace": "}", "HTML": "</html>"}
    for name, ending in endings.items():
        with page.expect_download() as found:
            page.locator("#exports").get_by_role("button", name=name).click()
        content = found.value.path().read_bytes()
        assert len(content) > 100 and content.decode(errors="replace").rstrip().endswith(ending)


@pytest.mark.parametrize("cut", ["before", "within"])
def test_a_server_that_stops_gives_a_readable_message(
    browser: Any, models: Models, serving: Any, cut: str
) -> None:
    with serving(Server(models)) as address:
        one = Page(browser, address, "light", 1_280)
        page = one.look(model="toy-text", text="a dog")
        if cut == "within":  # an answer that ends before its end
            piece = 'data: {"choices": [{"text": " sees"}]}\n\n'
            page.route("**/v1/completions", lambda route: route.fulfill(body=piece))
            page.click("#continue")
            page.wait_for_selector("#problem:not([hidden])")
            assert page.inner_text("#answer") == "a dog sees"
    if cut == "before":
        page.click("#continue")
        page.wait_for_selector("#problem:not([hidden])")
    text = page.inner_text("#problem")
    assert text.startswith("The server does not answer.") and "glassformer serve" in text
    page.close()
