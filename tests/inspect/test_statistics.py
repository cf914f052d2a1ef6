"""Head statistics: means, roles, divergences and importance."""

import json

import pytest
import torch

from glassformer.inspect import statistics
from glassformer.inspect.heads import measures
from glassformer.inspect.masking import head_indices
from glassformer.inspect.statistics import head_statistics
from glassformer.inspect.trace import trace_of

TEXTS = [("two old cats, a dog", "l'un voit"), ("a dog", "le thé voit"), ("the old tea", "un")]


def by_name(found, kind: str):
    return {head.name: head for head in found.heads if head.kind == kind}


def test_statistics_are_means_over_all_rows_of_all_texts(untrained) -> None:
    translator = untrained()
    ticks: list[int] = []
    found = head_statistics(translator, TEXTS, tick=lambda: ticks.append(1))
    assert found.texts == len(ticks) == 3
    traces = [trace_of(translator, *text) for text in TEXTS]
    for kind in ("encoder", "decoder", "cross"):
        rows = [measures(trace.attention[kind], kind) for trace in traces]
        for head in by_name(found, kind).values():
            own = head.layer - 1, head.head - 1
            for name in rows[0]:
                values = torch.cat([one[name][own] for one in rows])
                expected = values[~values.isnan()].mean().item()
                told = head.places[name] if name in head.places else getattr(head, name)
                assert told == pytest.approx(expected, abs=1e-5)
    assert len(found.heads) == 12 and found.bleu is None


def planted(weights: dict[int, torch.Tensor], size: int = 6):
    """Return the attention of a classifier whose one layer has these heads."""
    heads = torch.stack(list(weights.values()))
    return {"encoder": heads[None]}


def test_heads_that_attend_to_one_position_have_its_role(untrained, monkeypatch) -> None:
    n = 6
    looks = {
        0: torch.eye(n).roll(1, 0),  # previous, the first row at the last token
        1: torch.eye(n).roll(-1, 0),  # next
        2: torch.eye(n),  # itself
        3: torch.cat([torch.ones(n, 1), torch.zeros(n, n - 1)], 1),
        4: torch.full((n, n), 1 / n),
        5: torch.eye(n) * 0.9 + 0.1 / n,  # nearly as head 2
    }
    monkeypatch.setattr(statistics, "_attention", lambda *_: planted(looks))
    heads = by_name(head_statistics(untrained("classifier"), TEXTS), "encoder")
    assert [head.role for head in heads.values()] == [
        "previous",
        "next",
        "same",
        "first",
        "",
        "same",
    ]
    assert heads["1.1"].places["previous"] == pytest.approx(1)
    assert heads["1.5"].entropy == pytest.approx(torch.tensor(n).log2().item())
    assert heads["1.3"].nearest == "1.6" and heads["1.6"].nearest == "1.3"
    assert heads["1.3"].divergence < 0.1
    assert heads["1.1"].divergence > heads["1.3"].divergence


def test_divergences_are_symmetric_and_zero_on_the_diagonal_only(untrained) -> None:
    found = head_statistics(untrained(), TEXTS)
    assert set(found.divergences) == {"encoder", "decoder", "cross"}
    for kind, rows in found.divergences.items():
        apart = torch.tensor(rows)
        assert apart.shape == (4, 4) and torch.allclose(apart, apart.T)
        assert not apart.diagonal().any() and (apart <= 1).all()
        for n, head in enumerate(by_name(found, kind).values()):
            others = [value for m, value in enumerate(rows[n]) if m != n]
            assert head.divergence == pytest.approx(min(others))
            assert head.mean_divergence == pytest.approx(sum(others) / 3)


def test_only_cross_attention_has_mutual_information(untrained) -> None:
    found = head_statistics(untrained(), TEXTS * 3)
    for head in found.heads:
        assert (head.mutual_information is not None) == (head.kind == "cross")
    assert (
        max(head.mutual_information for head in found.heads if head.mutual_information is not None)
        > 0
    )


@pytest.mark.parametrize("kind", ["classifier", "language-model"])
def test_language_models_and_classifiers_have_statistics(untrained, kind: str) -> None:
    model = untrained(kind)
    found = head_statistics(model, TEXTS)
    only = "encoder" if kind == "classifier" else "decoder"
    assert {head.kind for head in found.heads} == {only}
    assert all(0 <= share <= 1 for head in found.heads for share in head.places.values())


def test_a_single_head_has_zero_divergence(untrained) -> None:
    model = untrained("classifier", n_heads=1, encoder_layers=1)
    (head,) = head_statistics(model, TEXTS).heads
    assert (head.nearest, head.divergence, head.mean_divergence) == ("1.1", 0.0, 0.0)


def test_long_texts_are_cut_with_truncate(untrained) -> None:
    text = ("tea " * 60, "le thé")
    found = head_statistics(untrained(), [text, TEXTS[0]], truncate=True)
    same = head_statistics(untrained(), [("tea " * 30, "le thé"), TEXTS[0]], truncate=True)
    assert [h.entropy for h in found.heads] == pytest.approx([h.entropy for h in same.heads])


def test_importance_is_added_and_saved_as_json(untrained) -> None:
    translator = untrained()
    found = head_statistics(translator, TEXTS)
    worth = {place: (-float(n), n / 100) for n, place in enumerate(head_indices(translator.model))}
    whole = found.with_importance(31.5, worth)
    assert whole.bleu == 31.5 and found.heads[0].importance is None
    head = by_name(whole, "cross")["2.1"]
    assert (head.importance, head.importance_p) == worth["cross", 1, 0]
    content = json.loads(json.dumps(whole.to_json()))
    assert content["texts"] == 3 and len(content["heads"]) == 12
    assert content["heads"][0]["places"].keys() == whole.heads[0].places.keys()


def test_a_decoder_has_no_next_position(untrained) -> None:
    found = head_statistics(untrained("language-model"), TEXTS)
    assert all("next" not in head.places for head in found.heads)
