"""Traces: numbers of the search, attention of the model, and JSON."""

import base64
import json
import re
from itertools import pairwise
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.options import SearchOptions
from glassformer.errors import DataError, InputError
from glassformer.inspect.trace import Trace, trace_of
from glassformer.inspect.trace_json import LEVELS, quantised, rounded, to_dict
from glassformer.inspect.tree import FATES
from glassformer.model.attention import record_attention

TEXT = "two old cats, a dog"
DOCUMENT = Path(__file__).parents[2] / "docs" / "trace.md"
WAYS = [{"beam_size": 4}, {"beam_size": 3, "n_best": 3}, {"beam_size": 1}]


def steps(trace: Trace) -> list[float]:
    """Return the log-probability of each output token by the tree."""
    totals = [0.0, *(trace.nodes[i].log_probability for i in trace.answer_path)]
    return [b - a for a, b in pairwise(totals)]


# Content


@pytest.mark.parametrize("sides", [("joint",), ("source", "target")], ids=" ".join)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_trace_has_the_translation_of_the_pipeline(untrained, way, sides) -> None:
    translator = untrained(sides=sides)
    trace = trace_of(translator, TEXT, max_length=8, **way)
    ((answer, *others),) = translator.n_best([TEXT], SearchOptions(max_length=8, **way))
    assert trace.target.text == answer.text
    assert [i for i in trace.target.ids if i != EOS] == answer.ids
    last = trace.nodes[trace.answer]
    assert last.log_probability == answer.log_probability and last.score == answer.score
    finished = sorted((n.score for n in trace.nodes if n.fate == "finished"), reverse=True)
    assert finished == [other.score for other in others]
    assert trace.source.text == TEXT
    assert list(trace.source.ids) == [*translator.source_tokenizer.encode([TEXT])[0], EOS]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_probabilities_equal_those_of_the_model(untrained, way) -> None:
    """Compare each step with one pass over all tokens."""
    translator = untrained()
    trace = trace_of(translator, TEXT, top=5, max_length=8, **way)
    source, inputs = torch.tensor([trace.source.ids]), torch.tensor([trace.decoder_input.ids])
    with torch.no_grad():
        log_probs = translator.model(source, inputs)[0].log_softmax(-1)
    expected = log_probs.gather(-1, torch.tensor(trace.target.ids)[:, None]).squeeze(-1)
    assert steps(trace) == pytest.approx(expected.tolist(), abs=1e-5)
    for row, node in zip(log_probs, [0, *trace.answer_path], strict=False):
        values, tokens = row.topk(5)
        assert [token for token, _ in trace.nodes[node].next] == tokens.tolist()
        assert [p for _, p in trace.nodes[node].next] == pytest.approx(values.tolist(), abs=1e-5)
    assert {t for n in trace.nodes for t in (n.token, *dict(n.next))} == set(trace.vocabulary)


def test_attention_equals_that_of_the_model(untrained) -> None:
    translator = untrained()
    trace = trace_of(translator, TEXT, max_length=8)
    with record_attention(translator.model) as maps, torch.no_grad():
        translator.model(torch.tensor([trace.source.ids]), torch.tensor([trace.decoder_input.ids]))
    for kind, name in [
        ("encoder", "encoder.layers.{}.self_attention"),
        ("decoder", "decoder.layers.{}.self_attention"),
        ("cross", "decoder.layers.{}.cross_attention"),
    ]:
        weights = trace.attention[kind]
        rows, columns = trace.sides(kind)
        assert weights.shape == (2, 2, len(rows.ids), len(columns.ids))
        for layer in range(2):
            expected = maps[name.format(layer)][0][0]
            torch.testing.assert_close(weights[layer], expected, atol=1e-6, rtol=1e-5)
    assert {name: rows.shape for name, rows in trace.saliency.items()} == {
        "source": trace.attention["cross"].shape[2:],
        "target": trace.attention["decoder"].shape[2:],
    }


def test_a_forced_target_needs_no_search(untrained) -> None:
    translator = untrained()
    trace = trace_of(translator, TEXT, "un vieux thé")
    assert trace.search is None and {node.fate for node in trace.nodes} == {"given"}
    assert trace.target.text == "un vieux thé" and trace.target.ids[-1] == EOS
    ((log_probability, length),) = translator.score([TEXT], ["un vieux thé"])
    assert trace.nodes[trace.answer].log_probability == pytest.approx(log_probability, abs=1e-5)
    assert len(trace.answer_path) == len(trace.target.ids) == length
    assert all(len(trace.nodes[i].next) == 10 for i in [0, *trace.answer_path[:-1]])
    for node, token in zip([0, *trace.answer_path], trace.target.ids, strict=False):
        if token in dict(trace.nodes[node].next):
            assert dict(trace.nodes[node].next)[token] == pytest.approx(
                steps(trace)[trace.answer_path.index(node) + 1 if node else 0], abs=1e-5
            )


def test_an_output_at_the_length_limit_is_incomplete(untrained) -> None:
    trace = trace_of(untrained(), TEXT, max_length=3, min_length=3)
    assert trace.nodes[trace.answer].complete is False
    assert len(trace.target.ids) == 3 and EOS not in trace.target.ids
    assert trace.decoder_input.ids == (BOS, *trace.target.ids[:2])


def test_a_language_model_continues_its_text(untrained) -> None:
    generator = untrained("language-model")
    trace = trace_of(generator, "the old", max_length=9, beam_size=3)
    ((answer,),) = generator.n_best(["the old"], SearchOptions(max_length=9, beam_size=3))
    assert trace.source is None and trace.target.text == answer.text
    assert list(trace.attention) == ["decoder"] and list(trace.saliency) == ["target"]
    found = trace.nodes[trace.answer].log_probability
    assert found == pytest.approx(answer.log_probability, abs=1e-5)
    assert trace_of(generator, "", max_length=4).target is not None


def test_a_classifier_trace_has_its_probabilities(untrained) -> None:
    classifier = untrained("classifier")
    trace = trace_of(classifier, TEXT)
    found = classifier.classify(TEXT)
    assert trace.probabilities == pytest.approx(found.probabilities, abs=1e-6)
    assert trace.source.tokens[0] == "<s>" and trace.source.marks == {0}
    assert trace.target is None and trace.nodes == () and trace.answer_path == []
    assert list(trace.attention) == ["encoder"]
    (ids,) = classifier.tokenizer.encode([TEXT])
    with record_attention(classifier.model) as maps, torch.no_grad():
        classifier.model(torch.tensor([[BOS, *ids]]))
    for layer in range(2):
        (expected,) = maps[f"encoder.layers.{layer}.self_attention"]
        torch.testing.assert_close(trace.attention["encoder"][layer], expected[0])
    assert trace.saliency["left_out"].shape == (3, len(trace.source.words))


# Refused inputs


def test_inputs_that_cannot_be_traced_are_errors(untrained) -> None:
    with pytest.raises(DataError, match="The text '  ' has no tokens"):
        trace_of(untrained(), "  ")
    with pytest.raises(DataError, match=r"subwords: 'tea tea(?s:.)*up to 30(?s:.)*--truncate"):
        trace_of(untrained(), "tea " * 40)
    assert len(trace_of(untrained(), "tea " * 40, truncate=True, max_length=3).source.ids) == 31
    with pytest.raises(InputError, match="classifier was given target"):
        trace_of(untrained("classifier"), TEXT, "un")
    with pytest.raises(InputError, match="classifier was given beam_size"):
        trace_of(untrained("classifier"), TEXT, beam_size=2)


# JSON


@pytest.fixture(params=["translator", "given", "language-model", "classifier"])
def trace(request, untrained) -> Trace:
    if request.param == "given":
        return trace_of(untrained(), TEXT, "un vieux thé", name="a run")
    options = {} if request.param == "classifier" else {"max_length": 8, "beam_size": 3}
    return trace_of(untrained(request.param), TEXT, name="a run", **options)


def test_json_keeps_attention_to_1_65535_and_row_sums(trace: Trace) -> None:
    content = json.loads(trace.to_json())
    for kind, weights in trace.attention.items():
        packed = content["attention"][kind]
        levels = np.frombuffer(base64.b64decode(packed["data"]), "<u2").reshape(packed["shape"])
        assert (levels.sum(-1, dtype=np.int64) == LEVELS).all()
        assert np.abs(levels / LEVELS - weights.double().numpy()).max() <= 1 / LEVELS
        masked = weights.numpy() == 0
        assert not levels[masked].any()
        if kind == "decoder":
            assert masked[..., np.triu(np.ones(masked.shape[2:], bool), 1)].all()


def test_a_trace_survives_a_round_trip_through_json(trace: Trace) -> None:
    text = trace.to_json()
    again = Trace.from_json(text)
    assert again.to_json() == text
    for name in ("kind", "model", "source", "target", "search", "answer", "vocabulary"):
        assert getattr(again, name) == getattr(trace, name)
    assert again.decoder_input == trace.decoder_input and again.answer_path == trace.answer_path
    assert again.probabilities == pytest.approx(trace.probabilities, rel=1e-6)
    for kind, weights in trace.attention.items():
        torch.testing.assert_close(again.attention[kind], weights, atol=1 / LEVELS, rtol=0)
        torch.testing.assert_close(again.attention[kind].sum(-1), torch.ones(weights.shape[:3]))
    for name, rows in trace.saliency.items():
        torch.testing.assert_close(again.saliency[name], rows, atol=1e-9, rtol=1e-6)
    for one, other in zip(again.nodes, trace.nodes, strict=True):
        assert (one.parent, one.token, one.fate) == (other.parent, other.token, other.fate)
        assert one.complete == other.complete
        assert one.log_probability == pytest.approx(other.log_probability, rel=1e-6)
        assert list(dict(one.next)) == list(dict(other.next))


def test_any_text_survives_json(untrained) -> None:
    for text in ('</script><img src=x onerror="alert(1)">', "שלום \u202e מה", "\u2028 a'b\\"):
        trace = trace_of(untrained(), text, max_length=3)
        assert Trace.from_json(trace.to_json()).source.text == text


def test_rounding_by_largest_remainders_keeps_sums_and_zeros() -> None:
    rows = torch.randn(200, 37).mul(4).softmax(-1)
    rows = rows.masked_fill(torch.rand(200, 37) < 0.3, 0.0)
    rows = rows / rows.sum(-1, keepdim=True)
    rows[0], rows[1] = 0.0, torch.eye(37)[5]
    levels = quantised(rows)
    assert levels.dtype == np.uint16
    assert levels.sum(-1).tolist() == [0] + [LEVELS] * 199
    assert not levels[rows.numpy() == 0].any()
    assert np.abs(levels - rows.double().numpy() * LEVELS).max() < 1
    again = torch.from_numpy(levels / LEVELS).float()
    assert (quantised(again) == levels).all()


def test_numbers_have_seven_digits() -> None:
    assert rounded([1 / 3, [123456.789, 2], 1e-9 / 3]) == [0.3333333, [123456.8, 2], 3.333333e-10]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-5], "not JSON"),
        (lambda text: "[1]", "not 'glassformer-trace'"),
        (lambda text: "{}", "not 'glassformer-trace'"),
        (lambda text: text.replace('"version":1', '"version":9'), r"version 9(?s:.)*version 1"),
        (lambda text: text.replace('"nodes"', '"knots"'), "damaged(?s:.)*'nodes'"),
        (lambda text: text.replace('"version":1,', ""), "version None"),
        (lambda text: text.replace('"data":"', '"data":"AA'), "damaged"),
        (lambda text: re.sub('"data":"........', '"data":"', text), "damaged"),
        (lambda text: re.sub('"attention":{', '"attention":[1],"was":{', text), "damaged"),
    ],
    ids=[
        "cut",
        "list",
        "other",
        "version",
        "field",
        "no version",
        "base64",
        "short",
        "list within",
    ],
)
def test_json_that_is_no_trace_is_refused(untrained, change, message) -> None:
    text = trace_of(untrained(), "a dog", max_length=3).to_json()
    with pytest.raises(DataError, match=message):
        Trace.from_json(change(text))


def test_unknown_fields_are_ignored(untrained) -> None:
    trace = trace_of(untrained(), "a dog", max_length=3)
    more = (
        trace.to_json()
        .replace('"fate":', '"later":[1],"fate":')
        .replace('{"format"', '{"x":1,"format"')
    )
    assert Trace.from_json(more).to_json() == trace.to_json()


def test_the_document_names_every_field_and_fate(untrained) -> None:
    document = DOCUMENT.read_text("utf-8")
    content = to_dict(trace_of(untrained(), TEXT, max_length=4))
    classified = to_dict(trace_of(untrained("classifier"), TEXT))
    names = [*content, *content["attention"], *content["saliency"], *content["nodes"][0]]
    names += [*content["source"], *content["attention"]["cross"], *classified["saliency"], *FATES]
    assert [name for name in names if f"`{name}`" not in document] == []
    assert f"| `version` | {content['version']}." in document


def test_log_probabilities_are_natural(untrained) -> None:
    trace = trace_of(untrained(), TEXT, top=100, max_length=4)
    assert sum(exp(p) for _, p in trace.nodes[0].next) == pytest.approx(1, abs=1e-5)
    assert log(1) == trace.nodes[0].log_probability == 0.0
