"""LibreTranslate's endpoints, by its own client as well."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from libretranslatepy import LibreTranslateAPI
from starlette.testclient import TestClient

from cli.models import TEXTS
from glassformer.serve.server import Server

ITEMS = "a dog {x} sees https://a.b/c and two children. A CAT SEES TEA."  # a toy loses them
LONG = "a dog. The old cat sees a dog.\n\n* two children\n"


def translated(client: TestClient, **body: Any) -> Any:
    answer = client.post("/translate", json={"source": "en", "target": "fr"} | body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_translation_is_that_of_python(client: TestClient, pipelines: dict[str, Any]) -> None:
    python = pipelines["toy-translator"]
    for text in (*TEXTS, LONG, ITEMS, "", "  ", "https://a.b/c"):
        assert translated(client, q=text) == {"translatedText": python.translate(text, to="fr")}


def test_a_list_gives_a_list(client: TestClient, pipelines: dict[str, Any]) -> None:
    expected = pipelines["toy-translator"].translate(TEXTS, to="fr")
    assert translated(client, q=TEXTS) == {"translatedText": expected}
    assert translated(client, q=[]) == {"translatedText": []}


def test_alternatives_are_the_next_best(client: TestClient, pipelines: dict[str, Any]) -> None:
    python = pipelines["toy-translator"]
    (ranked,) = python.n_best([TEXTS[0]], python.options(n_best=4), to="fr")
    assert translated(client, q=TEXTS[0], alternatives=3) == {
        "translatedText": ranked[0].text,
        "alternatives": [one.text for one in ranked[1:]],
    }
    many = translated(client, q=TEXTS[:2], alternatives=9)
    assert [len(one) for one in many["alternatives"]] <= [9, 9]


def test_auto_detects_the_language_and_leaves_the_target_s(client: TestClient) -> None:
    english, french = "the dog is here", "le chien est ici et là"
    found = translated(client, q=[english, french], source="auto")
    assert found["translatedText"][1] == french
    assert [one["language"] for one in found["detectedLanguage"]] == ["en", "fr"]
    assert client.post("/detect", json={"q": french}).json() == [
        {"language": "fr", "confidence": 100.0}
    ]
    assert client.post("/detect", json={"q": "xyz"}).json()[0]["confidence"] == 0


def streamed(client: TestClient, **body: Any) -> list[Any]:
    how = {"source": "en", "target": "fr", "stream": True}
    answer = client.post("/translate", json=how | body)
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    *events, done = answer.text.removesuffix("\n\n").split("\n\n")
    assert done == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


def test_streamed_sentences_join_to_the_whole_answer(client: TestClient) -> None:
    texts = [
        LONG,
        ITEMS,
        "",
        "  ",
        "https://a.b/c",
        " ".join(f"{one.capitalize()}." for one in TEXTS * 3),
    ]
    *pieces, last = streamed(client, q=texts)
    assert last == translated(client, q=texts)
    joined = [""] * len(texts)
    for piece in pieces:
        joined[piece["index"]] += piece["text"]
    assert joined == last["translatedText"]
    assert sum(piece["index"] == 0 for piece in pieces) == 3  # the sentences of LONG


def test_the_first_sentence_is_translated_before_the_others(
    client: TestClient, server: Server
) -> None:
    streamed(client, q=" ".join(f"{one.capitalize()}." for one in TEXTS * 3))
    assert server.batcher.sizes == [1, 2, 4, 5]


def test_a_stream_detects_the_language(client: TestClient) -> None:
    *_, last = streamed(client, q=["the dog is here", "le chien est ici et là"], source="auto")
    assert [one["language"] for one in last["detectedLanguage"]] == ["en", "fr"]
    assert last["translatedText"][1] == "le chien est ici et là"


@pytest.mark.parametrize(
    ("change", "problem"),
    [({"format": "html"}, "format = 'html'"), ({"alternatives": 2}, "alternatives = 2")],
)
def test_what_is_known_at_the_end_only_is_not_streamed(
    client: TestClient, change: dict[str, Any], problem: str
) -> None:
    body = {"q": "a dog", "source": "en", "target": "fr", "stream": True} | change
    answer = client.post("/translate", json=body)
    assert answer.status_code == 422 and problem in answer.json()["error"]


def test_an_error_within_a_stream_is_its_last_event(client: TestClient) -> None:
    body = {"q": "A dog. Dog " + "dog " * 100, "source": "en", "target": "fr", "stream": True}
    events = client.post("/translate", json=body).text.removesuffix("\n\n").split("\n\n")
    assert '"index": 0' in events[0] and "subwords" in events[-1] and '"next"' in events[-1]


def test_html_keeps_its_tags(client: TestClient, pipelines: dict[str, Any]) -> None:
    python = pipelines["toy-translator"]
    html = "<p>a dog</p>\n<script>let x = '<p>a dog</p>'</script><p>a &amp; <b>cat</b></p>"
    found = translated(client, q=html, format="html")["translatedText"]
    assert found.startswith(f"<p>{python.translate('a dog', to='fr')}</p>\n<script>let x")
    assert found.count("<b>") == found.count("</b>") == 1


def test_a_direction_that_no_model_has_is_refused_by_name(client: TestClient) -> None:
    answer = client.post("/translate", json={"q": "a", "source": "fr", "target": "en"})
    assert answer.status_code == 422
    assert answer.json() == {
        "error": "There is no translator from 'fr' to 'en'.",
        "why": "This server translates en to fr.",
        "next": "Choose one of these directions: GET /languages lists them.",
    }


def test_a_text_that_is_too_long_fails_alone(client: TestClient, server: Server) -> None:
    answer = client.post("/translate", json={"q": "dog " * 100, "source": "en", "target": "fr"})
    assert answer.status_code == 422 and "subwords" in answer.json()["error"]
    assert translated(client, q="a dog")["translatedText"]


def test_the_real_client_translates_detects_and_lists(server: Server, serving: Any) -> None:
    python = server.models.named("toy-translator").pipeline
    with serving(server) as address:
        remote = LibreTranslateAPI(address)
        assert remote.translate("a dog & a cat", "en", "fr") == python.translate(
            "a dog & a cat", to="fr"
        )
        assert remote.detect("the cat is here")[0]["language"] == "en"
        assert remote.languages() == [{"code": "en", "name": "English", "targets": ["fr"]}]


def test_answers_under_load_equal_those_one_at_a_time(server: Server, serving: Any) -> None:
    """Requests share batches, and each gets the bits that it gets alone."""
    texts = [f"{one} {number % 7}" for number in range(48) for one in TEXTS[number % 4 :][:1]]
    python = server.models.named("toy-translator").pipeline
    expected = [python.translate(text, to="fr") for text in texts]
    with serving(server) as address, ThreadPoolExecutor(16) as clients:
        remote = LibreTranslateAPI(address)
        found = list(clients.map(lambda text: remote.translate(text, "en", "fr"), texts))
    assert found == expected
    assert max(server.batcher.sizes) > 1


@pytest.mark.parametrize("path", ["/languages", "/health"])
def test_status_needs_no_body(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 200
