"""The HTML page of findings."""

from dataclasses import replace
from html.parser import HTMLParser

from glassformer.lab.experiment import Budget, Results, Verdict
from glassformer.lab.page import page
from lab.fakes import runs
from lab.test_finding import found

EVIL = "<script>alert(1)</script> & \"quotes'"


class Reader(HTMLParser):
    """Collect tags and text, and check that every tag closes."""

    VOID = ("meta", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert not reader.open
    return reader


def test_text_of_a_finding_is_escaped() -> None:
    finding = found()
    evil = replace(
        finding,
        stated={**dict.fromkeys(finding.stated, EVIL), "name": 'a"b<c'},
        results=Results(runs(EVIL, {EVIL: EVIL}, [1.0])),
        shown=(),
        verdict=Verdict("not supported", EVIL),
        command=EVIL,
        machine={"cpu": EVIL},
    )
    svg = f"<svg xmlns='http://www.w3.org/2000/svg'>{EVIL}</svg>"
    text = page([(evil, svg)])
    reader = read(text)
    assert "<script" not in text and EVIL in reader.text
    assert 'a"b<c' in [attributes.get("id") for _, attributes in reader.tags]


def test_the_page_is_self_contained_and_names_every_verdict() -> None:
    full = replace(found(), budget=Budget(False, (0, 1, 2), 2), verdict=Verdict("supported", "so"))
    reader = read(page([(found(), None), (full, "<svg/>")]))
    links = [v for _, a in reader.tags for k, v in a.items() if k in ("src", "href")]
    assert all(str(link).startswith(("#", "data:image/svg+xml;base64,")) for link in links)
    assert "depends (quick run)" in reader.text and "supported: so" in reader.text
    assert [a["alt"] for tag, a in reader.tags if tag == "img"] == ["An example: so"]
    assert "color-scheme: light dark" in reader.text
    wide = [attributes for _, attributes in reader.tags if attributes.get("class") == "wide"]
    assert wide and all(a["tabindex"] == "0" for a in wide), "scrolled by the keyboard"
