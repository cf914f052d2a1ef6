"""One loaded model used by many threads, after a fork, through Ctrl-C, and for a long time."""

import json
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import monotonic

import pytest

from engine.child import answer, command, save, variables
from engine.toys import answers, arrays, engine, sentences, toy
from glassformer.engine.model import CompiledModel

QUESTIONS = sentences(*[4, 1, 17, 2, 20, 3, 7, 16] * 2)
each_precision = pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])


@each_precision
def test_eight_threads_get_from_one_model_what_one_thread_gets(int8: bool) -> None:
    model = engine(toy(), int8=int8, threads=2)
    classifier = engine(toy(kind="classifier"), int8=int8, threads=2)
    ways = [{"beam_size": 1}, {"beam_size": 3}, {"beam_size": 2, "max_length": 40}]
    expected = [answers(model, QUESTIONS, **way) for way in ways]
    labels = classifier.classify(QUESTIONS)
    start = threading.Barrier(8)

    def ask(i: int) -> bool:
        start.wait(60)
        same = True
        for turn in range(6):
            n = (i + turn) % 3
            same &= answers(model, QUESTIONS, **ways[n]) == expected[n]
            same &= bool((classifier.classify(QUESTIONS) == labels).all())
        return same

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(8)))


def test_no_more_memory_is_kept_than_threads_can_use_at_once() -> None:
    model = engine(toy(), threads=2)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: answers(model, QUESTIONS), range(16)))
    assert all(len(spare) <= 2 for spare in model.pool._spare.values())


TEAMS = """
from concurrent.futures import ThreadPoolExecutor
from glassformer.engine import model as engine_model
folder, threads, questions = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
alone = load(folder, threads=1)
expected = [found(alone, [one])[0] for one in questions]
engine_model.SHARED_FROM = 0  # a tiny model, and threads work together inside each step
engine_model.is_machine_busy = lambda: False
model = load(folder, threads=threads)
same = [found(model, questions) == expected]  # more rows than a team takes: in parts
with ThreadPoolExecutor(4) as pool:
    several = list(pool.map(lambda one: found(model, [one])[0], questions))
print(json.dumps([*same, several == expected]))
"""


@pytest.mark.parametrize("threads", [2, 3])
def test_teams_of_several_callers_do_not_wait_for_each_other_for_ever(
    threads: int, tmp_path: Path
) -> None:
    model = toy()
    folder = save(tmp_path, model.settings, arrays(model))
    questions = [question[:4] for question in QUESTIONS]
    assert answer(TEAMS, folder, threads, questions, timeout=120) == [True, True]


def answered_in_a_fork(model: CompiledModel, questions: list[list[int]]) -> bool:
    expected = answers(model, questions)
    context = get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=lambda: queue.put(answers(model, questions) == expected))
    child.start()
    child.join(120)
    if child.exitcode is None:
        child.kill()
    return child.exitcode == 0 and queue.get()


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
@pytest.mark.parametrize("threads", [1, 3])
def test_a_model_that_was_used_works_after_a_fork(threads: int) -> None:
    assert answered_in_a_fork(engine(toy(), threads=threads), QUESTIONS)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_a_team_of_threads_works_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.engine.model.SHARED_FROM", 0)
    monkeypatch.setattr("glassformer.engine.model.is_machine_busy", lambda: False)
    model = engine(toy(decoder_layers=1), threads=2)
    assert model.team_size(1) == 2
    assert answered_in_a_fork(model, QUESTIONS[:1])


def test_threads_do_not_share_a_sentence_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("glassformer.engine.model.SHARED_FROM", 0)
    model = engine(toy(decoder_layers=1), threads=2)
    loads = []
    for load in (0.0, os.cpu_count(), os.cpu_count() + 1):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        loads.append(model.team_size(1))
    assert loads == [2, 2, 1]


INTERRUPTED = """
from time import monotonic
folder, threads = sys.argv[1], int(sys.argv[2])
if len(sys.argv) > 3:
    from glassformer.engine import model as engine_model
    engine_model.SHARED_FROM = 0
    engine_model.is_machine_busy = lambda: False
model = load(folder, threads=threads)
question = [[5, 6, 7, EOS]]
before = found(model, question)
print("ready", flush=True)
interrupted = None
try:
    for _ in range(1000):  # for minutes, unless interrupted
        found(model, question * 16, beam_size=4, max_length=2000, min_length=1900)
except KeyboardInterrupt:
    interrupted = monotonic()
print(json.dumps([interrupted, found(model, question) == before]))
"""


def interrupted(folder: Path, *arguments: str) -> tuple[float, bool]:
    """Return the seconds from Ctrl-C to KeyboardInterrupt, and whether the model still works."""
    process = subprocess.Popen(
        command(INTERRUPTED, folder, *arguments),
        env=variables(),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        threading.Event().wait(0.7)
        pressed = monotonic()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    raised, works = json.loads(output.splitlines()[-1])
    assert raised is not None, "it ended before it was interrupted"
    return raised - pressed, works


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("arguments", [("1",), ("2",), ("2", "team")], ids=["one", "parts", "team"])
def test_ctrl_c_ends_a_long_search_soon_and_leaves_the_model_usable(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    model = toy(decoder_layers=1)
    seconds, works = interrupted(save(tmp_path, model.settings, arrays(model)), *arguments)
    assert works
    assert seconds < 2 * max(1.0, os.getloadavg()[0]), "1 s on an idle machine"


GROWTH = """
import gc
def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
folder, sources = sys.argv[1], json.loads(sys.argv[2])
def use(loads, rounds):
    for _ in range(loads):
        model = load(folder, threads=2)
        for _ in range(rounds):
            found(model, sources, beam_size=2, max_length=8)
use(5, 2)
before = resident()
use(50, 2)
print(json.dumps(resident() - before))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_fifty_loads_and_two_thousand_sentences_do_not_grow_memory(tmp_path: Path) -> None:
    model = toy()
    folder = save(tmp_path, model.settings, arrays(model))
    assert answer(GROWTH, folder, QUESTIONS + QUESTIONS[:4]) < 8, "MiB"
