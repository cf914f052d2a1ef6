"""Traces over HTTP equal those of Python, with forced tokens and with heads switched off."""

from math import log
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

from glassformer.decode.options import SearchOptions
from glassformer.inspect.trace import Trace, trace_of
from glassformer.inspect.why import why
from glassformer.pipeline import load
from glassformer.serve.tracing import aligned
from serve.conftest import CHAT

TEXT = "the old cat sees a dog"


@pytest.fixture(scope="module")
def torch_model(folders: dict[str, Any]) -> Any:
    return load(folders["toy-translator"], engine="torch").towards("fr")


def traced(client: TestClient, **body: Any) -> Any:
    answer = client.post("/api/trace", json={"model": "toy-translator", "text": TEXT} | body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def same(found: Any, expected: Trace) -> None:
    import json

    one = Trace.from_json(json.dumps(found["trace"]))
    assert one.target == expected.target and one.answer == expected.answer
    for kind, weights in expected.attention.items():
        torch.testing.assert_close(one.attention[kind], weights, atol=2 / 65_535, rtol=0)
    logs = [node.log_probability for node in expected.nodes]
    assert [node.log_probability for node in one.nodes] == pytest.approx(logs, rel=1e-6)


def test_a_trace_equals_that_of_python(client: TestClient, torch_model: Any) -> None:
    found = traced(client, beam_size=3)
    expected = trace_of(torch_model, TEXT, beam_size=3)
    same(found, expected)
    assert found["aligned"] == aligned(expected) and found["caution"]


def test_a_forced_token_is_gone_on_from(client: TestClient, torch_model: Any) -> None:
    free = trace_of(torch_model, TEXT, beam_size=2)
    first = free.target.ids[0]
    other = next(token for token, _ in free.nodes[0].next if token not in (first, 2, 3))
    found = traced(client, beam_size=2, prefix=[other])
    assert found["trace"]["target"]["ids"][0] == other
    same(found, trace_of(torch_model, TEXT, beam_size=2, prefix=[other]))
    answer = client.post(
        "/api/trace", json={"model": "toy-translator", "text": TEXT, "prefix": [3]}
    )
    assert answer.status_code == 422 and "end mark" in answer.json()["error"]


def test_heads_that_are_off_change_the_answer_as_zeros_in_the_output_projection(
    client: TestClient, torch_model: Any
) -> None:
    off = [("cross", 0, 1), ("encoder", 0, 0)]
    found = traced(client, beam_size=2, heads_off=off)
    attention = torch_model.model.decoder.layers[0].cross_attention
    encoder = torch_model.model.encoder.layers[0].self_attention
    kept = [one.output.weight.data.clone() for one in (attention, encoder)]
    attention.output.weight.data[:, attention.d_k :] = 0
    encoder.output.weight.data[:, : encoder.d_k] = 0
    same(found, trace_of(torch_model, TEXT, beam_size=2))
    for one, weights in zip((attention, encoder), kept, strict=True):
        one.output.weight.data = weights
    with_all = trace_of(torch_model, TEXT, beam_size=2)
    assert found["log_probability"] != pytest.approx(with_all.nodes[with_all.answer or 0])


def test_the_lens_ends_with_the_probabilities_of_the_answer(
    client: TestClient, torch_model: Any
) -> None:
    found = traced(client, beam_size=1)
    trace = trace_of(torch_model, TEXT, beam_size=1)
    total = sum(log(own) for _, _, own in found["lens"][-1])
    assert total == pytest.approx(trace.nodes[trace.answer or 0].log_probability, rel=1e-4)
    assert [token for token, *_ in found["lens"][-1]] == list(trace.target.tokens)
    assert traced(client, model="toy-labels")["lens"] == []


def test_an_imported_language_model_is_traced_with_its_own_marks(
    client: TestClient, folders: dict[str, Any]
) -> None:
    found = traced(client, model=CHAT, text="a b", max_length=9, beam_size=2)
    model = load(folders[CHAT], engine="torch")
    ((best,),) = model.n_best(["a b"], SearchOptions(beam_size=2, max_length=9))
    assert found["trace"]["target"]["text"].startswith("a b")
    assert [i for i in found["trace"]["target"]["ids"] if i != model.tokenizer.eos_id] == best.ids
    assert found["log_probability"] == pytest.approx(best.log_probability, rel=1e-5)
    assert model.tokenizer.eos_id in found["marks"]


def test_bleu_is_against_the_reference(client: TestClient) -> None:
    text = traced(client)["trace"]["target"]["text"]
    assert traced(client, reference=f"{text} and more words")["bleu"] < 100
    assert "bleu" not in traced(client)  # without a reference there is none


def test_classifiers_and_language_models_are_traced(client: TestClient) -> None:
    labels = traced(client, model="toy-labels")
    assert set(labels["trace"]["probabilities"]) == {"sad", "glad"}
    assert labels["trace"]["kind"] == "classifier"
    made = traced(client, model="toy-text", max_length=9)
    assert made["trace"]["kind"] == "language-model"


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        ({"heads_off": [["cross", 9, 0]]}, 422, "no head 0 in layer 9"),
        ({"model": "nothing"}, 404, "No model is served"),
        ({"to": "xx"}, 422, "does not translate into 'xx'"),
        ({"text": ""}, 422, "has no tokens"),
        ({"prefix": [10**6]}, 422, "outside the vocabulary"),
        ({"model": "toy-labels", "target": "a"}, 422, "A classifier was given target"),
    ],
)
def test_what_cannot_be_traced_is_refused(
    client: TestClient, body: dict[str, Any], status: int, problem: str
) -> None:
    answer = client.post("/api/trace", json={"model": "toy-translator", "text": TEXT} | body)
    assert answer.status_code == status and problem in answer.text


def test_a_trace_that_no_page_can_hold_is_refused(client: TestClient, server: Any) -> None:
    traced(client)
    server.looker._made().limit = 1_000
    answer = client.post("/api/trace", json={"model": "toy-translator", "text": TEXT})
    assert answer.status_code == 413 and "attention weights" in answer.json()["error"]


def looked(client: TestClient, path: str, **body: Any) -> Any:
    answer = client.post(path, json={"model": "toy-translator", "text": TEXT} | body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_step_is_that_of_python_and_its_weights_are_the_cells_of_the_trace(
    client: TestClient, torch_model: Any
) -> None:
    ids = traced(client, beam_size=1)["trace"]["target"]["ids"]
    trace = trace_of(torch_model, TEXT, beam_size=1)
    found = looked(client, "/api/step", output=ids, head=["cross", 0, 1], row=2)
    (weights,) = [s["rows"]["weight"] for s in found["stages"] if "weight" in s["rows"]]
    torch.testing.assert_close(
        torch.tensor(weights), trace.attention["cross"][0, 1, 2], atol=1e-5, rtol=1e-4
    )
    assert found["likely"][0] == trace.target.tokens[2]
    assert all(code["text"].startswith("def ") for s in found["stages"] for code in s["code"])


def test_reasons_are_those_of_python(client: TestClient, torch_model: Any) -> None:
    trace = trace_of(torch_model, TEXT, beam_size=1)
    ids = list(trace.target.ids)
    other = trace.nodes[trace.nodes[trace.answer_path[1]].parent].next[1][0]
    found = looked(client, "/api/why", output=ids, step=1, against=other)
    expected = why(torch_model.model, trace.source, trace.decoder_input, 1, ids[1], other)
    assert found["value"] == pytest.approx(expected.value, abs=1e-5)
    assert found["left_out"]["source"] == pytest.approx(expected.left_out["source"], abs=1e-4)
    assert found["words"]["source"] == [word.text for word in trace.source.words]
    lm = traced(client, model=CHAT, text="a b", max_length=9)["trace"]["target"]["ids"]
    assert looked(client, "/api/why", model=CHAT, text="a b", output=lm, step=3)["gradient"]


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("/api/step", {"head": ["cross", 9, 0], "output": [4]}, "no head 0 in layer 9"),
        ("/api/step", {"head": ["cross", 0, 0], "output": [4], "row": 5}, "Row 5 is asked for"),
        ("/api/step", {"head": ["cross", 0, 0], "output": [10**6]}, "outside the vocabulary"),
        ("/api/why", {"output": [4], "step": 3}, "Step 3 is asked for"),
        ("/api/why", {"output": [4], "step": 0, "against": 10**6}, "outside the vocabulary"),
        ("/api/why", {"model": "toy-labels", "step": 0}, "writes no tokens"),
        ("/api/why", {"model": "toy-vectors", "step": 0}, "model of embeddings"),
    ],
)
def test_a_closer_look_at_what_is_not_there_is_refused(
    client: TestClient, path: str, body: dict[str, Any], problem: str
) -> None:
    answer = client.post(path, json={"model": "toy-translator", "text": TEXT} | body)
    assert answer.status_code == 422 and problem in answer.text
