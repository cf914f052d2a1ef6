"""`bench decode` races engines that hold the same weights, and says what it measured."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from glassformer import checkpoint
from glassformer.bench import decode, engines
from glassformer.bench.decode import Plan, bench_decode, bench_trained, random_checkpoint
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
    Engine,
    Ids,
    Lengths,
)
from glassformer.bench.harness import Report
from glassformer.bench.lively import lively
from glassformer.bench.peak import Memory, memory_of
from glassformer.bench.race import Cell, Turn, check_same_text, goal_table, race, ratios_of, spread
from glassformer.checkpoint import Checkpoint, weights_of
from glassformer.config import RunSettings
from glassformer.data import tokenizer
from glassformer.data.corpus import TextFiles
from glassformer.data.tokenizer import Tokenizer
from glassformer.errors import CheckpointError
from glassformer.model.build import build
from glassformer.model.transformer import Transformer
from train.runs import Command

QUICK = Plan.quick()
EXACTLY = Lengths(QUICK.length, QUICK.length)
SOURCES = [[5, 6, 7, EOS], [8, 9, EOS], [10, 11, 12, 13, EOS]]
ENGLISH = ["two children want some tea", "a dog", "the old cat sees a dog"]
EVERYBODY = [*OURS, *CTRANSLATE2, *WITH_WORKERS, MARIAN]


@pytest.fixture(scope="module")
def saved() -> Checkpoint:
    return random_checkpoint(QUICK)


@pytest.fixture(scope="module")
def folder(saved: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines")
    engines.write(saved, engines.able(saved), folder, max_length=12)
    return folder


def no_memory(name: str, *_: object) -> Memory:
    """For tests of what is made of the figures."""
    return Memory(*(2**20 * n for n in ((200, 300, 400) if name in OURS else (20, 100, 250))))


def translator(folder: Path, **changes: object) -> Checkpoint:
    """A run that was never trained, with subwords, and says this and that."""
    subwords = Tokenizer.train(ENGLISH * 5, 40)
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1}
    settings = RunSettings.of(model={"vocab_size": 40, **sizes, **changes})
    model = build(settings.model).eval()
    assert isinstance(model, Transformer)
    weights = weights_of(lively(model, unsayable=[PAD, BOS]))
    content = Checkpoint(settings, weights, {"joint": subwords})
    checkpoint.write(content, folder)
    return content


# ------------------------------------------------------------------------------ the engines


def test_the_marks_are_the_tokenizer_s() -> None:
    marks = (tokenizer.PAD, tokenizer.UNK, tokenizer.BOS, tokenizer.EOS)
    assert marks == (PAD, UNK, BOS, EOS)


@pytest.mark.parametrize("beam", [1, 2])
def test_all_engines_in_fp32_say_the_same(saved: Checkpoint, folder: Path, beam: int) -> None:
    assert engines.able(saved) == EVERYBODY
    contenders = {name: engines.load(name, folder, threads=1) for name in PRECISE}
    for lengths in (EXACTLY, Lengths(0, 7)):
        said = [engine(SOURCES, beam, lengths) for engine in contenders.values()]
        assert said[0] == said[1] == said[2]
    check_same_text(saved, contenders, SOURCES, EXACTLY)


@pytest.mark.parametrize("name", EVERYBODY)
@pytest.mark.parametrize("beam", [1, 3])
def test_every_engine_says_as_much_as_is_asked(folder: Path, name: str, beam: int) -> None:
    said = engines.load(name, folder, threads=2)(SOURCES, beam, EXACTLY)
    assert [len(ids) for ids in said] == [QUICK.length] * len(SOURCES)


@pytest.mark.parametrize("beam", [1, 3])
def test_workers_say_what_is_said_together(folder: Path, beam: int) -> None:
    together, parted = (engines.load(n, folder, 2) for n in (THEIR_FP32, WITH_WORKERS[0]))
    assert parted(SOURCES, beam, EXACTLY) == together(SOURCES, beam, EXACTLY)


def test_int8_is_int8(folder: Path) -> None:
    sizes = {
        name: sum(file.stat().st_size for file in (folder / name).iterdir())
        for name in (*OURS, *CTRANSLATE2)
    }
    assert sizes[INT8] < 0.4 * sizes[FP32]
    assert sizes[THEIR_INT8] < 0.4 * sizes[THEIR_FP32]


def test_only_the_paper_s_architecture_is_given_to_marian(tmp_path: Path) -> None:
    content = translator(tmp_path / "run", residual="pre-norm")
    assert engines.able(content) == [*OURS, *CTRANSLATE2, *WITH_WORKERS]
    engines.write(content, engines.able(content), tmp_path, 12)
    assert not (tmp_path / MARIAN).exists()


def test_the_random_weights_say_many_things(folder: Path) -> None:
    sources = [[*row, EOS] for row in torch.randint(4, QUICK.vocabulary, (16, 5)).tolist()]
    engine = engines.load(FP32, folder, threads=1)
    greedy, beam = (engine(sources, width, EXACTLY) for width in (1, 4))
    assert len(set(map(tuple, greedy))) > 5
    assert sum(one != other for one, other in zip(greedy, beam, strict=True)) > 1


# ------------------------------------------------------------------------------ the check


def saying(*answers: list[int]) -> Engine:
    return lambda sources, beam, lengths: list(answers)


def test_engines_that_say_something_else_are_found_out(saved: Checkpoint, folder: Path) -> None:
    honest = engines.load(FP32, folder, threads=1)
    said = honest(SOURCES, 1, EXACTLY)
    check = partial(check_same_text, saved, sources=SOURCES, lengths=EXACTLY)
    check(contenders={FP32: honest, THEIR_FP32: saying(*said)})
    for wrong in ([*said[0][:3], 199, *said[0][4:]], said[0][:2], said[0] + [77]):
        with pytest.raises(AssertionError, match="CTranslate2 fp32 says"):
            check(contenders={FP32: honest, THEIR_FP32: saying(wrong, *said[1:])})


def test_a_tie_may_go_either_way(saved: Checkpoint) -> None:
    table = "encoder.embedding.weight"
    twins = {**saved.weights, table: saved.weights[table].copy()}
    twins[table][6] = twins[table][5]
    check = partial(
        check_same_text, replace(saved, weights=twins), sources=SOURCES[:1], lengths=EXACTLY
    )
    check(contenders={FP32: saying([4, 5, 9]), MARIAN: saying([4, 6, 8])})
    with pytest.raises(AssertionError, match="Hugging Face fp32 says"):
        check(contenders={FP32: saying([4, 5, 9]), MARIAN: saying([4, 7, 9])})


# ------------------------------------------------------------------------------ the race


def turn(speed: float) -> Turn:
    return Turn(saying(), [], 1, EXACTLY, said=[[4] * 10, [4] * 10], seconds=20 / speed)


def test_a_race_gives_each_its_sentences_and_the_slow_one_fewer() -> None:
    asked: dict[str, list[Ids]] = {FP32: [], MARIAN: []}

    def watched(name: str) -> Engine:
        def engine(sources: Ids, beam: int, lengths: Lengths) -> Ids:
            asked[name].append(sources)
            return [[beam] * len(source) for source in sources]

        return engine

    sources = [[i] * i for i in range(1, 11)]
    contenders = {name: watched(name) for name in asked}
    ticks: list[int] = []
    turns = race(contenders, sources, Cell(4, 3), EXACTLY, 2, 4, lambda: ticks.append(1))
    assert [len(batch) for batch in asked[FP32]] == [4, 4, 2] * 3
    assert asked[MARIAN] == [sources[4:8]] * 3
    assert turns[FP32].said == [[3] * i for i in range(1, 11)]
    assert len(ticks) == 2 * 3
    assert turns[FP32].speed == 55 / turns[FP32].seconds


def test_a_spread_is_even() -> None:
    assert spread(list(range(10)), 2) == [2, 7]
    assert spread(list(range(3)), 5) == [0, 1, 2]


def test_the_goals_are_the_project_s() -> None:
    fast, slow = Cell(1, 1), Cell(32, 4)
    speeds = {
        fast: {FP32: 110, INT8: 300, THEIR_FP32: 100, THEIR_INT8: 150, MARIAN: 50},
        slow: {FP32: 100, INT8: 140, THEIR_FP32: 100, THEIR_INT8: 70},
    }
    races = {c: {n: turn(v) for n, v in speed.items()} for c, speed in speeds.items()}
    rows = goal_table(races).rows
    assert [row[2] for row in rows] == pytest.approx([2.0, 1.1, 6.0, 1.4, 1.0])
    assert [row[4] for row in rows] == ["yes", "yes", "yes", "no", "no"]
    assert ratios_of(races) == pytest.approx({"batch 1, greedy": 2.0, "batch 32, beam 4": 1.4})


# ------------------------------------------------------------------------------ memory


def test_memory_is_that_of_one_engine_alone(folder: Path) -> None:
    held = torch.ones(2**28, dtype=torch.uint8)  # a quarter of a GiB that is not the child's
    ours, theirs = (memory_of(name, folder, 1, SOURCES, 2, EXACTLY) for name in (FP32, THEIR_FP32))
    assert len(held) > theirs.peak, "a child does not count what its parent has"
    assert ours.interpreter > 2 * theirs.interpreter, "CTranslate2 does without torch"
    for memory in (ours, theirs):
        assert memory.interpreter < memory.loaded <= memory.peak
        assert memory.own == memory.peak - memory.interpreter


# ------------------------------------------------------------------------------ the reports


@pytest.fixture
def quick_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "memory_of", no_memory)


@pytest.mark.usefixtures("quick_memory")
def test_the_quick_plan_gives_all_tables() -> None:
    ticks: list[int] = []
    report = bench_decode(QUICK, "command", lambda: ticks.append(1))
    speed, goals, memory = report.tables
    assert len(ticks) == QUICK.steps
    cells = [str(cell) for cell in QUICK.cells]
    alone = [name for name in EVERYBODY if name not in WITH_WORKERS]
    asked = dict(zip(cells, (alone, EVERYBODY), strict=True))  # a sentence has no parts
    assert [row[:2] for row in speed.rows] == [[c, name] for c in cells for name in asked[c]]
    for first in (0, len(alone)):
        best_of_ours = min(row[3] for row in speed.rows[first : first + len(OURS)])
        assert best_of_ours == 1.0
    assert [row[0] for row in goals.rows] == [cells[0]] * 3 + [cells[1]] * 4
    assert list(report.ratios) == cells
    assert [row[0] for row in memory.rows] == alone
    assert memory.rows[0][1:] == [200, 300, 400, 200, "< 450", "yes"]
    assert memory.rows[2][1:] == [20, 100, 250, 230, "–", "–"]
    assert any("same weights" in note for note in report.notes)


@pytest.fixture
def text(tmp_path: Path) -> Callable[[list[str]], TextFiles]:
    def write(references: list[str]) -> TextFiles:
        for name, lines in (("en", ENGLISH), ("fr", references)):
            (tmp_path / f"text.{name}").write_text("".join(f"{line}\n" for line in lines))
        return TextFiles((tmp_path / "text.en", tmp_path / "text.fr"))

    return write


def trained_report(content: Checkpoint, run: Path, text: Callable[..., TextFiles]) -> Report:
    """Of a run whose references are what it says itself."""
    (subwords,) = content.tokenizers.values()
    sources = [[*ids, EOS] for ids in subwords.encode(ENGLISH)]
    lengths = Lengths(0, max(map(len, sources)) + 50)
    engines.write(content, engines.able(content), run.parent / "mine", lengths.longest + 1)
    said = engines.load(FP32, run.parent / "mine", 1)(sources, 1, lengths)
    ticks: list[int] = []
    own = text(list(map(subwords.decode, said)))
    report = bench_trained(run, own, QUICK, "command", lambda: ticks.append(1))
    assert len(ticks) == QUICK.steps
    return report


@pytest.mark.usefixtures("quick_memory")
@pytest.mark.parametrize("residual", ["post-norm", "pre-norm"])
def test_a_trained_model_has_its_bleu_beside_its_speed(
    residual: str,
    text: Callable[..., TextFiles],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # such short texts have no four words in a row, and so no BLEU
    monkeypatch.setattr(decode, "bleu", lambda said, references: 100.0 * (said == references))
    content = translator(tmp_path / "run", residual=residual)
    report = trained_report(content, tmp_path / "run", text)
    table = report.tables[0]
    scores = {(row[0], row[1]): row[-1] for row in table.rows}
    assert table.columns[-1] == "BLEU"
    assert scores["batch 1, greedy", FP32] == scores["batch 1, greedy", THEIR_FP32] == "100.00"
    assert (MARIAN in {name for _, name in scores}) == (residual == "post-norm")
    if residual == "post-norm":
        assert scores["batch 1, greedy", MARIAN] == "–", "it was not asked for all of the text"
    else:
        assert any("Hugging Face is left out" in note for note in report.notes)


def test_what_says_no_text_is_refused(tmp_path: Path) -> None:
    content = translator(tmp_path / "run")
    checkpoint.write(replace(content, tokenizers={}), tmp_path / "run")
    with pytest.raises(CheckpointError, match="holds a translator for 'grammar'") as error:
        bench_trained(tmp_path / "run", TextFiles((tmp_path / "a", tmp_path / "b")), QUICK, "")
    assert "translators of text" in error.value.why


# ------------------------------------------------------------------------------ the command


@pytest.fixture
def glassformer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(monkeypatch, capsys)


@pytest.mark.usefixtures("quick_memory")
def test_the_command_prints_and_writes_what_it_measured(
    glassformer: Command, text: Callable[..., TextFiles], tmp_path: Path
) -> None:
    code, said, _ = glassformer("bench", "decode", "--quick", "--threads", 1)
    assert code == 0
    written = json.loads(Path("results/quick/bench_decode.json").read_text())
    assert f"worst ratio: {written['worst_ratio']:.2f}" in said
    assert written["command"].endswith("--quick --threads 1")

    translator(tmp_path / "run")
    source, reference = text(ENGLISH).paths
    code, said, _ = glassformer(
        "bench", "decode", "--quick", "--threads", 1,
        "--model", "run", "--source", source, "--reference", reference, "--limit", 2,
    )  # fmt: skip
    assert code == 0 and "BLEU" in said and "run, 2 sentences" in said
    written = json.loads(Path("results/quick/bench_decode_trained.json").read_text())
    assert written["command"].endswith("--limit 2")


def test_a_model_without_its_text_is_refused(glassformer: Command) -> None:
    code, _, error = glassformer("bench", "decode", "--model", "run")
    assert code == 2
    assert "--model, --source and --reference go together" in error
    code, _, error = glassformer("bench", "decode", "--limit", 3)
    assert code == 2 and "--limit goes with --model only" in error
