"""Curves read from logs: the loop's own counts are the oracle, its clock is set by hand."""

import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.bench.curves import read_curve
from glassformer.checkpoint import RunFolder
from glassformer.errors import DataError
from glassformer.train import loop, meter
from glassformer.train.distributed import World
from glassformer.train.run import Run
from glassformer.train.start import start
from train.runs import tiny, trained, unexpected

UPDATE, VALIDATION = 1.0, 5.0  # seconds


class Clock:
    """Time passes in updates and validations only: two looks at it in a row see the same."""

    def __init__(self) -> None:
        self.now = 100.0

    def update(self, *_: object) -> None:
        self.now += UPDATE

    def validation(self, model: object) -> dict[str, float]:
        self.now += VALIDATION
        return {"bleu": self.now}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(meter, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def run(clock: Clock, folder: Path, *stops: int, **settings: Any) -> None:
    """A run of 12 updates, stopped and resumed, whose clock is ours."""
    data = tiny(train={"max_steps": 12, **settings})
    for part, stop in enumerate([*stops, None]):
        started = start(data, folder, World(), part > 0, unexpected)
        started.optimizers[-1].register_step_post_hook(clock.update)
        if stop is None:
            loop.train(started, clock.validation)
        else:
            stopped(started, clock, stop)


def stopped(started: Run, clock: Clock, stop: int) -> None:
    def interrupt(*_: object) -> None:
        if started.position.step == stop:
            signal.raise_signal(signal.SIGTERM)

    started.optimizers[-1].register_step_post_hook(interrupt)
    loop.train(started, clock.validation)


def counted(folder: Path) -> dict[int, int]:
    """Labels until each checkpoint, as the run counted them."""
    states = {p: json.loads((p / "training.json").read_text()) for p in RunFolder(folder).steps()}
    return {s["position"]["step"]: s["position"]["labels"] for s in states.values()}


def forget_counts(folder: Path) -> None:
    """Logs did not always hold them."""
    path = folder / "log.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [{k: v for k, v in record.items() if k != "labels"} for record in records]
    path.write_text("".join(json.dumps(record) + "\n" for record in kept))


def test_seconds_include_earlier_validations_only(tmp_path: Path, clock: Clock) -> None:
    run(clock, tmp_path)
    points = read_curve(tmp_path).points
    assert [p.step for p in points] == [4, 8, 12]
    assert [p.seconds for p in points] == [4 * UPDATE, 8 * UPDATE + VALIDATION, 12 + 2 * VALIDATION]
    assert [p.scores["bleu"] for p in points] == [100 + p.seconds + VALIDATION for p in points]
    assert points[0].minutes == 4 / 60 and points[0].scores.keys() > {"loss", "accuracy", "bleu"}


def test_target_tokens_are_those_counted_by_the_run(tmp_path: Path, clock: Clock) -> None:
    run(clock, tmp_path)
    curve = read_curve(tmp_path)
    assert curve.counted
    assert {p.step: p.labels for p in curve.points} == counted(tmp_path)


@pytest.mark.parametrize("every", [1, 2, 4])
def test_without_a_count_target_tokens_are_computed_from_the_speed(
    tmp_path: Path, clock: Clock, every: int
) -> None:
    run(clock, tmp_path, log_every=every)
    forget_counts(tmp_path)
    curve = read_curve(tmp_path)
    assert not curve.counted
    assert {p.step: p.labels for p in curve.points} == counted(tmp_path)


def test_target_tokens_are_interpolated_between_records(tmp_path: Path, clock: Clock) -> None:
    run(clock, tmp_path / "run", log_every=5)  # validations after 4, 8 and 12 updates
    run(clock, tmp_path / "each", validate_every=1)
    forget_counts(tmp_path / "run")
    truth = counted(tmp_path / "each")
    four, eight, twelve = (p.labels for p in read_curve(tmp_path / "run").points)
    assert four is not None and eight is not None and twelve is not None
    assert 0 < four < truth[5] < eight < truth[10]
    assert twelve == round(truth[10] + 2 * (truth[10] - truth[5]) / 5)


@pytest.mark.parametrize("stops", [(4,), (5,), (6,), (3, 9)])
def test_a_resumed_run_is_one_curve(tmp_path: Path, clock: Clock, stops: tuple[int, ...]) -> None:
    run(clock, tmp_path / "whole")
    run(clock, tmp_path / "resumed", *stops)
    whole, resumed = read_curve(tmp_path / "whole").points, read_curve(tmp_path / "resumed").points
    assert [(p.step, p.labels) for p in resumed] == [(p.step, p.labels) for p in whole]
    # SIGTERM in update 4 puts its validation off to the resumed run; no update is lost
    assert [p.seconds for p in resumed] == [p.seconds for p in whole]


@pytest.mark.parametrize("stops", [(5,), (7, 11)])
def test_the_error_of_a_resumed_runs_estimate_is_bounded_by_its_stops(
    tmp_path: Path, clock: Clock, stops: tuple[int, ...]
) -> None:
    run(clock, tmp_path / "run", *stops, log_every=2)
    truth = counted(tmp_path / "run")
    forget_counts(tmp_path / "run")
    most = 64 / UPDATE  # labels a second: a batch has so many cells
    for point in read_curve(tmp_path / "run").points:
        assert point.labels is not None
        off = abs(point.labels - truth[point.step])
        assert off <= most * (UPDATE + VALIDATION) * sum(stop < point.step for stop in stops)


def test_updates_lost_by_a_killed_run_are_not_in_the_curve(tmp_path: Path) -> None:
    data = tiny()
    trained(data, tmp_path)
    before = (tmp_path / "log.jsonl").read_text()
    for link in ("best", "latest"):
        (tmp_path / link).unlink()
    (tmp_path / "step-00000008").rename(tmp_path / "lost")  # as if killed before it was written
    trained(data, tmp_path, resume=True)
    after = read_curve(tmp_path).points
    assert [p.step for p in after] == [4, 8]
    assert before != (tmp_path / "log.jsonl").read_text()
    assert (tmp_path / "log.jsonl").read_text().startswith(before.partition('{"step": 5')[0])


def test_a_log_can_be_read_by_its_path_while_it_is_written(tmp_path: Path) -> None:
    trained(tiny(), tmp_path)
    log = tmp_path / "log.jsonl"
    log.rename(tmp_path / "kept.jsonl")
    whole = read_curve(tmp_path / "kept.jsonl")
    with (tmp_path / "kept.jsonl").open("a") as file:
        file.write('{"step": 12, "valid_lo')
    assert read_curve(tmp_path / "kept.jsonl") == whole


def test_without_speeds_target_tokens_are_unknown(tmp_path: Path) -> None:
    trained(tiny(train={"log_every": 100}), tmp_path)
    forget_counts(tmp_path)
    assert [p.labels for p in read_curve(tmp_path).points] == [None, None]


@pytest.mark.parametrize("content", ["text\n", "[1, 2]\n", '{"loss": 1}\n', '"step seconds"\n'])
def test_a_file_that_is_no_log_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "log.jsonl"
    with pytest.raises(DataError, match="There is no log"):
        read_curve(tmp_path)
    path.write_text(content)
    with pytest.raises(DataError, match=r"log\.jsonl is not the log of a run"):
        read_curve(tmp_path)
