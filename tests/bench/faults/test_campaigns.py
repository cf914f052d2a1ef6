"""A small version of each campaign, and proof that a campaign counts what goes wrong."""

import re
from pathlib import Path

import pytest

from bench.faults.toys import GREEDY, TOY
from bench.toys import write_translator
from glassformer.bench.faults import (
    clock,
    inputs,
    kills,
    memory,
    requests,
    servers,
    table,
    threads,
)
from glassformer.bench.faults.campaign import Trial, conduct
from glassformer.bench.faults.kills import differences
from glassformer.checkpoint import RunFolder
from train.runs import Command

TRIALS = range(6)


def test_a_campaign_counts_what_is_lost_raises_and_hangs() -> None:
    ticks: list[int] = []
    tally = conduct(TOY, TRIALS, lambda: ticks.append(1))
    assert len(ticks) == len(TRIALS)
    assert (tally.tried, tally.held) == (8, 4)
    assert tally.lost == ["seed 1: one of three"]
    assert tally.tracebacks[0] == "seed 2: KeyError: 'an unexpected key'"
    assert len(tally.tracebacks) == 2 and tally.tracebacks[1].startswith("seed 3: ")
    assert tally.hangs == ["seed 4: no end after 3 s"]
    assert tally.figures == {"things": 4}


def test_a_trial_that_takes_too_much_memory_is_a_traceback() -> None:
    tally = conduct(GREEDY, range(1))
    assert tally.tracebacks == ["seed 0: MemoryError"]


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "CAMPAIGNS", {"toy": TOY})


@pytest.mark.usefixtures("toys")
def test_the_command_prints_a_table_and_fails_if_anything_is_lost(
    glassformer: Command, tmp_path: Path
) -> None:
    code, out, _ = glassformer("bench", "faults", "--quick")
    assert code == 1
    assert re.search(r"toy +4 +3 +1 +0 +0 +\d+", out)
    assert "toy: 3 things." in out and "toy, seed 1: one of three" in out
    assert (tmp_path / "results/quick/bench_faults.json").is_file()


@pytest.mark.usefixtures("toys")
def test_another_seed_makes_other_faults_and_unknown_campaigns_are_refused(
    glassformer: Command,
) -> None:
    assert TOY.seeds(quick=False, seed=3) == range(3_000_000, 3_000_006)
    code, _, error = glassformer("bench", "faults", "--campaign", "toi")
    assert code == 2 and "Did you mean 'toy'?" in error


def test_every_campaign_has_a_row_in_the_table() -> None:
    names = ("kills", "checkpoints", "imports", "inputs", "servers", "threads", "memory", "clock")
    names += ("requests",)
    assert tuple(table.CAMPAIGNS) == names


# Small versions: the campaigns' own trials, in this process where they do not need another


def lost(trial: Trial, seeds: range) -> list[str]:
    return [problem for seed in seeds for problem in trial(seed).lost]


def test_a_killed_and_resumed_run_ends_as_one_that_nothing_interrupted() -> None:
    """Real processes take seconds: one imports torch and forks the others, one is the reference."""
    tally = conduct(kills.CAMPAIGN, range(1))
    assert tally.failures == [] and tally.tried == tally.held > 0


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_translator(folder / "toy")
    return folder / "toy"


def test_mutated_inputs_are_read_or_refused(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the seven readers ten times."""
    monkeypatch.setattr(inputs, "MODEL", models)
    assert lost(inputs.begin(tmp_path), range(70)) == []


def test_lies_that_are_drawn_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listed lies are told in tests/data/test_download.py."""
    monkeypatch.setenv("no_proxy", "*")
    first = len(servers.HARMLESS) + len(servers.HARMFUL)
    assert lost(servers.begin(tmp_path), range(first, first + 12)) == []


def test_eight_threads_get_what_one_gets(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "MODEL", models)
    monkeypatch.setattr(threads, "AT_ONCE", 10)
    result = threads.begin(tmp_path)(0)
    assert (result.tried, result.lost) == (80, ())


def test_another_score_in_one_thread_is_lost(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(range(1_000))
    monkeypatch.setattr(threads, "MODEL", models)
    monkeypatch.setattr(threads, "AT_ONCE", 1)
    monkeypatch.setattr(threads, "answer", lambda *_: ("same", str(next(answers) // 8)))
    assert len(threads.begin(tmp_path)(0).lost) == 1


def test_memory_does_not_grow_by_sentences_and_loads(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MODEL", models)
    trial = memory.begin(tmp_path, sentences=500, loads=10)
    results = [trial(0), trial(1)]
    assert [result.lost for result in results] == [(), ()]
    assert [result.tried for result in results] == [500, 10]


def test_a_leak_is_found() -> None:
    leaked: list[bytearray] = []
    result = memory.grown("loads", 10, lambda _: leaked.append(bytearray(b"x" * (8 << 20))))
    assert "MiB more after 10 loads" in result.lost[0]


def test_clock_jumps_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert lost(clock.begin(tmp_path), range(len(clock.CASES))) == []


def test_a_budget_by_the_time_of_day_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glassformer.train import meter

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    trial = clock.begin(tmp_path)

    class ByTheDay:
        @staticmethod
        def perf_counter() -> float:
            return clock.time.time()

    monkeypatch.setattr(meter, "time", ByTheDay)
    assert any(trial(seed).lost for seed in (1, 5, 9, 13)), "a jump of years ends an hour's budget"


def test_a_run_that_differs_from_the_reference_is_found(tmp_path: Path) -> None:
    runs = {"reference": 12, "shorter": 10}
    for name, steps in runs.items():
        clock.carry_out(clock.SHORT.replace(train={"max_steps": steps}), tmp_path / name)
    reference, run = (tmp_path / name for name in runs)
    found = list(differences(reference, run))
    assert [one.partition(" ")[2][:7] for one in found][:2] == ["files a", "tensors"]
    assert any(one.startswith("the log has") for one in found)
    (RunFolder(tmp_path / "shorter").steps()[-1] / "model.safetensors").write_bytes(b"")
    assert any(
        "damaged" in one for one in differences(tmp_path / "reference", tmp_path / "shorter")
    )


def test_damaged_requests_are_answered(models: Path) -> None:
    trial = requests.trials([str(models)])
    assert lost(trial, range(60)) == []


def test_a_server_error_and_an_answer_without_json_are_found() -> None:
    assert requests.wrong(500, b"{}") and requests.wrong(200, b"<html>")
    assert requests.wrong(200, b"data: {}\n\n") and requests.wrong(422, b"{}") is None
