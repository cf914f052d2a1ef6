"""`bench decode` compares engines that hold the same weights, and reports what it measured."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import two_way
from bench.toys import ENGLISH, Here, write_text, write_translator
from glassformer import checkpoint
from glassformer.bench import decode, engines
from glassformer.bench.contender_process import ContenderProcess
from glassformer.bench.decode import Plan, Task, bench_decode, random_task, trained_task
from glassformer.bench.engines import (
    BOS,
    CTRANSLATE2,
    EOS,
    FP32,
    INT8,
    MARIAN,
    OURS,
    PAD,
    PRECISE,
    THEIR_FP32,
    THEIR_INT8,
    UNK,
    WITH_WORKERS,
    WORKERS,
    Contender,
    Ids,
)
from glassformer.bench.peak import Memory, memory_of
from glassformer.bench.race import Cell, Result, check_same_text, race, ratios_of, spread
from glassformer.data import tokenizer
from glassformer.errors import CheckpointError
from train.runs import Command

QUICK = Plan().quick()
SOURCES = [[5, 6, 7, EOS], [8, 9, EOS], [10, 11, 12, 13, EOS]]
ALL = [*OURS, *CTRANSLATE2, *WITH_WORKERS, MARIAN]


def no_memory(name: str, *_: object) -> Memory:
    return Memory(*(2**20 * n for n in ((50, 100, 125) if name in OURS else (20, 100, 250))))


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "ContenderProcess", Here)
    monkeypatch.setattr(decode, "memory_of", no_memory)


@pytest.fixture(scope="module")
def task() -> Task:
    return random_task("tiny", QUICK)


@pytest.fixture(scope="module")
def folder(task: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines")
    engines.write(task.saved, task.contenders, folder, longest=12)
    return folder


# ------------------------------------------------------------------------------ contenders


def test_special_tokens_are_the_tokenizers() -> None:
    special = (tokenizer.PAD, tokenizer.UNK, tokenizer.BOS, tokenizer.EOS)
    assert special == (PAD, UNK, BOS, EOS)


@pytest.mark.parametrize("beam", [1, 2])
def test_all_contenders_in_fp32_give_the_same_output(task: Task, folder: Path, beam: int) -> None:
    assert task.contenders == ALL
    contenders = {name: engines.load(name, folder, threads=1) for name in PRECISE}
    outputs = [run([SOURCES], beam, QUICK.length)[1] for run in contenders.values()]
    assert outputs[0] == outputs[1] == outputs[2]
    check_same_text(task.saved, contenders, SOURCES, QUICK.length)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("beam", [1, 3])
def test_random_weights_never_end_early(folder: Path, name: str, beam: int) -> None:
    seconds, outputs = engines.load(name, folder, 2)([SOURCES[:2], SOURCES[2:]], beam, 6)
    assert seconds > 0
    assert [len(ids) for ids in outputs] == [6] * len(SOURCES)


@pytest.mark.parametrize("beam", [1, 3])
def test_workers_give_the_output_of_one_batch(folder: Path, beam: int) -> None:
    whole, parts = (engines.load(n, folder, 2) for n in (THEIR_FP32, THEIR_FP32 + WORKERS))
    assert parts([SOURCES], beam, 6)[1] == whole([SOURCES], beam, 6)[1]


def test_int8_weights_are_small(folder: Path) -> None:
    sizes = {
        name: sum(file.stat().st_size for file in (folder / name).iterdir())
        for name in (*OURS, *CTRANSLATE2)
    }
    assert sizes[INT8] < 0.4 * sizes[FP32]
    assert sizes[THEIR_INT8] < 0.4 * sizes[THEIR_FP32]


def test_marian_takes_part_only_with_the_papers_architecture(tmp_path: Path) -> None:
    content = write_translator(tmp_path / "run", residual="pre-norm")
    assert engines.capable(content) == [*OURS, *CTRANSLATE2, *WITH_WORKERS]
    engines.write(content, engines.capable(content), tmp_path, 12)
    assert not (tmp_path / MARIAN).exists()


def test_outputs_of_random_weights_vary(folder: Path) -> None:
    ids = np.random.default_rng(0).integers(4, QUICK.vocabulary, (16, 5)).tolist()
    run = engines.load(FP32, folder, threads=1)
    greedy, beam = (run([[[*row, EOS] for row in ids]], width, 6)[1] for width in (1, 4))
    assert len(set(map(tuple, greedy))) > 5
    assert sum(one != other for one, other in zip(greedy, beam, strict=True)) > 1


def test_a_process_of_its_own_gives_the_same_output(folder: Path) -> None:
    here, alone = engines.load(FP32, folder, 1), ContenderProcess(engines.load, FP32, folder, 1)
    assert alone([SOURCES], 2, 6)[1] == here([SOURCES], 2, 6)[1]
    alone.close()


# ------------------------------------------------------------------------------ the check


def giving(*outputs: list[int]) -> Contender:
    return lambda batches, beam, longest: (1.0, list(outputs))


def test_a_different_output_is_detected(task: Task, folder: Path) -> None:
    honest = engines.load(FP32, folder, threads=1)
    _, outputs = honest([SOURCES], 1, 6)
    check = partial(check_same_text, task.saved, sources=SOURCES, longest=6)
    check(contenders={FP32: honest, THEIR_FP32: giving(*outputs)})
    for wrong in ([*outputs[0][:3], 199, *outputs[0][4:]], outputs[0][:2], outputs[0] + [77]):
        with pytest.raises(AssertionError, match="CTranslate2 fp32: "):
            check(contenders={FP32: honest, THEIR_FP32: giving(wrong, *outputs[1:])})


def test_ties_may_be_ranked_either_way(task: Task) -> None:
    table = "encoder.embedding.weight"
    twins = {**task.saved.weights, table: task.saved.weights[table].copy()}
    twins[table][6] = twins[table][5]
    saved = replace(task.saved, weights=twins)
    check = partial(check_same_text, saved, sources=SOURCES[:1], longest=6)
    check(contenders={FP32: giving([4, 5, 9]), MARIAN: giving([4, 6, 8])})
    with pytest.raises(AssertionError, match="Hugging Face fp32: "):
        check(contenders={FP32: giving([4, 5, 9]), MARIAN: giving([4, 7, 9])})


# ------------------------------------------------------------------------------ the race


def test_contenders_take_turns_and_the_best_round_counts() -> None:
    calls: list[tuple[str, list[Ids]]] = []
    clock = iter([9.0, 9.0, 2.0, 4.0, 3.0, 5.0])  # the first round warms up

    def watched(name: str) -> Contender:
        def run(batches: list[Ids], beam: int, longest: int) -> tuple[float, Ids]:
            calls.append((name, batches))
            return next(clock), [[beam] * len(source) for batch in batches for source in batch]

        return run

    sources, ticks = [[i] * i for i in range(1, 11)], list[int]()
    contenders = {name: watched(name) for name in (FP32, MARIAN)}
    results = race(contenders, sources, Cell(4, 3), 6, 2, 4, lambda: ticks.append(1), pause=0)
    assert [name for name, _ in calls] == [FP32, MARIAN] * 3
    assert [len(batch) for batch in calls[0][1]] == [4, 4, 2]
    assert calls[1][1] == [sources[4:8]], "the slow one decodes fewer sentences"
    assert len(ticks) == 6
    assert results[FP32].speed == 55 / 2.0 and results[MARIAN].seconds == 4.0
    assert results[FP32].outputs == [[3] * i for i in range(1, 11)]


def test_items_are_spread_evenly() -> None:
    assert spread(list(range(10)), 2) == [2, 7]
    assert spread(list(range(3)), 5) == [0, 1, 2]


def test_ratios_are_to_the_best_configuration_of_a_peer() -> None:
    speeds = {
        FP32: 110, INT8: 300, THEIR_FP32: 100, THEIR_INT8: 150,
        THEIR_FP32 + WORKERS: 55, THEIR_INT8 + WORKERS: 200, MARIAN: 50,
    }  # fmt: skip
    results = {name: Result([], [[4] * 10] * 2, 20 / speed) for name, speed in speeds.items()}
    assert list(ratios_of(results).values()) == pytest.approx([1.5, 1.1, 6.0])
    del results[MARIAN]
    assert list(ratios_of(results).values()) == pytest.approx([1.5, 1.1])


# ------------------------------------------------------------------------------ memory


def test_memory_is_that_of_a_process_with_one_contender(folder: Path) -> None:
    held = np.ones(2**29, np.uint8)  # half a GiB that is not the child's
    ours, theirs = (memory_of(name, folder, 1, SOURCES, 2, 6) for name in (FP32, THEIR_FP32))
    assert held.nbytes > max(ours.peak, theirs.peak), "a child does not count its parent's memory"
    for memory in (ours, theirs):
        assert memory.libraries < memory.loaded <= memory.peak


# ------------------------------------------------------------------------------ reports


@pytest.mark.usefixtures("in_process")
def test_a_report_has_speed_ratios_memory_and_the_machine(task: Task) -> None:
    ticks: list[int] = []
    report = bench_decode([task], QUICK, "command", lambda: ticks.append(1))
    speed, ratios, memory, machine = report.tables
    assert len(ticks) == task.steps(QUICK)
    single, batched = [name for name in ALL if name not in WITH_WORKERS], ALL
    names = [*single * 2, *batched * 2]
    assert [row[1] for row in speed.rows] == names
    best = [min(row[3] for row in speed.rows if row[0] == str(c)) for c in task.cells(QUICK)]
    assert max(best) <= 1.0
    assert all(row[5] in ("m", "a") and row[6] >= 0 for row in speed.rows)
    assert [row[0] for row in ratios.rows] == [str(cell) for cell in task.cells(QUICK)]
    assert len(report.ratios) == 3 * 4
    assert report.worst_ratio == min(report.ratios.values())
    assert memory.rows[0] == [INT8, 50, 100, 125, "0.50"]
    assert memory.rows[2] == [THEIR_INT8, 20, 100, 250, "–"]
    assert len(machine.rows) == 4


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("residual", ["post-norm", "pre-norm"])
def test_a_trained_model_has_bleu_beside_its_speed(
    residual: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # texts so short have no four words in a row, and so no BLEU
    monkeypatch.setattr(decode, "bleu", lambda found, references: 100.0 * (found == references))
    content = write_translator(tmp_path / "run", residual=residual)
    (subwords,) = content.tokenizers.values()
    plain = trained_task(str(tmp_path / "run"), QUICK, *write_text(tmp_path, ENGLISH))
    engines.write(content, [], tmp_path / "own", plain.longest)
    _, outputs = engines.load(FP32, tmp_path / "own", 1)([plain.sources], 1, plain.longest)
    references = [subwords.decode(ids) for ids in outputs]  # in the order of lengths
    task = replace(plain, references=references)
    report = bench_decode([task], QUICK, "command")
    scores = {(row[0], row[1]): row[-1] for row in report.tables[0].rows}
    assert report.tables[0].columns[-1] == "BLEU"
    assert scores["batch 1, greedy", FP32] == scores["batch 1, greedy", THEIR_FP32] == "100.00"
    assert (("batch 1, greedy", MARIAN) in scores) == (residual == "post-norm")
    if residual == "post-norm":
        assert scores["batch 1, greedy", MARIAN] == "–", "it decoded a part only"


def test_sources_of_a_model_of_two_directions_have_tag_and_plain_typography(tmp_path: Path) -> None:
    content = two_way.two_way()
    checkpoint.write(content, tmp_path / "run")
    (tmp_path / "a.en").write_text("the “dog”\n")
    (tmp_path / "a.fr").write_text("le «\u00a0chien\u00a0»\u202f!\n")
    task = trained_task(str(tmp_path / "run"), QUICK, tmp_path / "a.en", tmp_path / "a.fr")
    subwords = content.tokenizers["joint"]
    (ids,) = subwords.encode(['the "dog"'])
    assert task.sources == [[subwords.tag_id("<2fr>"), *ids, EOS]]
    assert task.references == ['le "chien" !']


def test_a_model_without_text_is_refused(tmp_path: Path) -> None:
    content = write_translator(tmp_path / "run")
    checkpoint.write(replace(content, tokenizers={}), tmp_path / "run")
    with pytest.raises(CheckpointError, match="holds a translator for 'grammar'") as error:
        trained_task(str(tmp_path / "run"), QUICK, None, None)
    assert "a translator of text" in error.value.why


# ------------------------------------------------------------------------------ the command


@pytest.mark.usefixtures("in_process")
def test_the_command_prints_and_saves_its_report(glassformer: Command, tmp_path: Path) -> None:
    write_translator(tmp_path / "run")
    source, reference = write_text(tmp_path, ENGLISH)
    code, out, error = glassformer(
        "bench", "decode", "--quick", "--threads", 1, "--model", "tiny", "--model", "run",
        "--source", source, "--reference", reference, "--beam", 2,
    )  # fmt: skip
    assert code == 0, error
    assert "run: 3 sentences of text.en, 1 threads" in out and "BLEU" in out
    written = json.loads(Path("results/quick/bench_decode.json").read_text())
    assert f"worst ratio: {written['worst_ratio']:.2f}" in out
    assert written["command"].startswith("glassformer bench decode --quick --threads 1")
    assert written["machine"]["threads"] == 1
    assert len(written["tables"]) == 7


def test_references_need_sources(glassformer: Command) -> None:
    code, _, error = glassformer("bench", "decode", "--reference", "text.fr")
    assert code == 2 and "--reference goes with --source only" in error
