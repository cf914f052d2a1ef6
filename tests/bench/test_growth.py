"""Growth: work that is counted, the best of the turns, lengths that the model can take."""

import pytest

from glassformer.bench import growth
from glassformer.bench.growth import (
    Growth,
    Step,
    by_input,
    by_output,
    cached_steps,
    random_sources,
    uncached_steps,
)
from glassformer.evaluate.card import Table
from glassformer.model.build import build
from glassformer.model.transformer import Transformer

QUICK = Growth((4, 8, 16), window=2, rounds=1)


def tiny(**changes: object) -> Transformer:
    sizes = {"vocab_size": 40, "d_model": 16, "n_heads": 2, "d_ff": 32}
    model = build("tiny", **sizes, encoder_layers=1, decoder_layers=2, **changes).eval()
    assert isinstance(model, Transformer)
    return model


def test_a_step_reads_one_token_with_the_cache_and_all_without() -> None:
    model = tiny()
    source = random_sources(model, 1, 5)
    assert [step.tokens for step in cached_steps(model, source, 16)] == [1] * 16
    assert [step.tokens for step in uncached_steps(model, source, (4, 8, 16))] == [4, 8, 16]


def test_growth_has_a_row_for_every_length_and_ticks() -> None:
    ticks: list[int] = []
    tables: list[Table] = [
        table(tiny(), QUICK, lambda: ticks.append(1)) for table in (by_output, by_input)
    ]
    assert len(ticks) == QUICK.steps
    output, source = tables
    for table in tables:
        assert [row[0] for row in table.rows] == [*QUICK.lengths, "grows as n^"]
    assert output.rows[-1][2] == pytest.approx(0, abs=1e-9), "tokens read with the cache"
    assert output.rows[-1][4] == pytest.approx(1), "and without"
    assert source.rows[-1][4] == pytest.approx(1), "keys and values of the source"


def test_the_cost_is_of_the_best_round_and_the_last_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slowness = iter([1, 1, 3, 2])  # of cached and uncached by turns
    cost = [5.0, 1.0, 2.0, 4.0]

    def cached(*_: object) -> list[Step]:
        factor = next(slowness)
        return [Step(factor * seconds, 1) for seconds in cost]

    def uncached(*_: object) -> list[Step]:
        factor = next(slowness)
        return [Step(factor * 7.0, 2), Step(factor * 9.0, 4)]

    monkeypatch.setattr(growth, "cached_steps", cached)
    monkeypatch.setattr(growth, "uncached_steps", uncached)
    *rows, _ = by_output(tiny(), Growth((2, 4), window=3, rounds=1), lambda: None).rows
    assert rows == [[2, 3_000.0, 1, 7_000.0, 2], [4, 2_000.0, 1, 9_000.0, 4]]


def test_learned_positions_bound_the_lengths() -> None:
    model = tiny(positions="learned", max_positions=40)
    fitting = Growth().fitting(model)
    assert fitting.lengths == (16, 32, 40)
    cached_steps(model, random_sources(model, 1, 40), 40)
    assert Growth().fitting(tiny()) == Growth()
