"""The command line as a newcomer meets it: run for real, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer
from glassformer.cli.app import VERBS
from glassformer.config import PRESETS, ModelSettings
from train.runs import Command


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "glassformer", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120)


def test_without_arguments_it_shows_worked_examples() -> None:
    result = run()
    assert result.returncode == 0
    assert "glassformer describe tiny" in result.stdout
    assert "glassformer bench model" in result.stdout


def test_help_lists_every_verb_with_what_it_does_and_imports_nothing_heavy() -> None:
    result = run("--help")
    assert result.returncode == 0
    width = max(map(len, VERBS))
    for verb, what in VERBS.items():
        assert f"  {verb:<{width}}  {what}\n" in result.stdout
    heavy = {"torch", "numba", "numpy", "pydantic", "sentencepiece"}
    told = [sys.executable, "-X", "importtime", "-m", "glassformer", "--help"]
    imported = subprocess.run(told, capture_output=True, text=True).stderr.splitlines()
    assert not heavy & {line.rpartition("|")[2].strip() for line in imported}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    code, out, _ = Command(monkeypatch, capsys)(verb, "--help")
    assert code == 0 and out.startswith(f"Usage: glassformer {verb} [OPTIONS]")


def test_it_tells_its_version() -> None:
    assert run("--version").stdout.strip() == glassformer.__version__


def test_describe_prints_the_table_of_the_built_model() -> None:
    result = run("describe", "tiny", "n_kv_heads=1", "--length", "7")
    expected = glassformer.describe(glassformer.build("tiny", n_kv_heads=1), 7)
    assert result.stdout.strip() == str(expected)


def test_describe_tells_of_kinds_that_no_preset_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command(monkeypatch, capsys)
    code, out, _ = command("describe", "tiny", "kind=masked-language-model", "vocab_size=50")
    model = glassformer.build("tiny", kind="masked-language-model", vocab_size=50)
    assert code == 0 and out.strip() == str(glassformer.describe(model))
    assert "50×128 (tied)" in out and "decoder" not in out


@pytest.mark.parametrize("name", PRESETS)
def test_describe_prints_settings_that_read_back(name: str) -> None:
    result = run("describe", name, "--toml")
    assert ModelSettings.from_toml(result.stdout) == PRESETS[name]


@pytest.mark.parametrize(
    ("arguments", "err"),
    [
        (["describe", "tinny"], "Did you mean 'tiny'?"),
        (["describe", "tiny", "n_head=8"], "did you mean 'n_heads'?"),
        (["describe", "tiny", "n_heads"], "name=value"),
        (["describe", "tiny", "n_heads=3"], "n_heads = 3 does not go with d_model = 128"),
        (["describe", "tiny", "n_heads=many"], "n_heads = 'many'"),
        (["descr"], "No such command"),
        (["describe", "tiny", "--length", "0"], "--length"),
        (["bench", "model", "--rounds", "0"], "--rounds"),
    ],
)
def test_a_wrong_command_line_gets_one_block_and_exit_code_2(
    arguments: list[str], err: str
) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert err in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_debug_shows_the_traceback() -> None:
    result = run("--debug", "describe", "tinny")
    assert "Traceback" in result.stderr


def test_bench_model_ends_with_its_worst_ratio_and_writes_its_figures(tmp_path: Path) -> None:
    result = run("bench", "model", "--quick", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "results/quick/bench_model.json").read_text())
    assert result.stdout.splitlines()[-1] == f"worst ratio: {report['worst_ratio']:.2f}"
    assert report["worst_ratio"] == min(report["ratios"].values())
    assert report["command"].startswith("glassformer bench model")
    assert report["machine"]["torch"]
    assert str(tmp_path) not in json.dumps(report)


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_the_short_option_shows_the_same_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    command = Command(monkeypatch, capsys)
    arguments = [verb] if verb else []
    assert command(*arguments, "-h") == command(*arguments, "--help")


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_eighty_columns_and_names_no_python_types(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = Command(monkeypatch, capsys)(verb, "-h")
    assert max(map(len, out.splitlines())) <= 80
    assert not any(mark in out for mark in ("<", "list[", "int range", "x>="))
    cut_off = [line for line in out.splitlines() if line.endswith("...") and "Usage" not in line]
    assert cut_off == []


@pytest.mark.parametrize(
    ("arguments", "what", "remedy"),
    [
        (["translate", "--bem", "3"], "No such option: --bem", "glassformer translate -h"),
        (["descr"], "No such command 'descr'", "glassformer -h"),
        (["describe"], "Missing argument 'PRESET'", "glassformer describe -h"),
        (["data", "get"], "Missing argument 'NAME'", "glassformer data get -h"),
        (["describe", "tiny", "--length", "0"], "'--length'", "glassformer describe -h"),
    ],
)
def test_an_error_of_the_parser_has_the_form_of_all_errors(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    what: str,
    remedy: str,
) -> None:
    code, out, err = Command(monkeypatch, capsys)(*arguments)
    first, why, last = err.splitlines()
    assert (code, out) == (2, "") and first.startswith("error: ") and what in first
    assert why.startswith("  why:  The command is: glassformer")
    assert last == f"  next: {remedy}"


def test_a_group_without_a_command_shows_its_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = Command(monkeypatch, capsys)("data")
    assert code == 2 and err.startswith("Usage: glassformer data") and "error" not in err


# Standard streams that are closed, full, or a pipe without a reader


def shell(line: str) -> tuple[int, str, str]:
    """Run a line of bash; `$G` is the command. Return its exit code, output and errors."""
    command = f"G='{sys.executable} -m glassformer'; {line}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


PRINTING = ["", "--help", "models"]  # by print, click and rich


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("verb", PRINTING)
@pytest.mark.parametrize(
    ("output", "why"),
    [("> /dev/full", "No space left on device"), (">&-", "Bad file descriptor")],
    ids=["full", "closed"],
)
def test_output_that_cannot_be_written_is_one_error(verb: str, output: str, why: str) -> None:
    code, _, err = shell(f"$G {verb} {output}")
    assert code == 1
    assert err.startswith(f"error: Standard output cannot be written: {why}.\n")
    assert err.count("\n") == 3


@pytest.mark.parametrize("verb", ["--help", "models"])
def test_a_reader_that_is_gone_ends_a_command_as_it_ends_unix_tools(verb: str) -> None:
    code, out, err = shell(f"$G {verb} | true; exit ${{PIPESTATUS[0]}}")
    assert (code, out, err) == (141, "", "")


def test_closed_streams_leave_the_exit_code_and_receive_no_errors() -> None:
    assert shell("$G describe no-such-preset 2>&-")[:2] == (2, "")
    assert shell("$G describe no-such-preset <&- >&- 2>&-") == (2, "", "")
    assert shell("$G describe no-such-preset 2> /dev/full")[:2] == (2, "")


def test_input_that_cannot_be_read_is_a_data_error(tmp_path: Path) -> None:
    code, out, err = shell(f"$G classify 0> {tmp_path / 'file'}")
    assert (code, out) == (3, "")
    assert "error: standard input cannot be read: Bad file descriptor.\n" in err


def test_memory_that_runs_out_is_one_error(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe(*_: object) -> None:
        raise MemoryError("Unable to allocate 560. GiB")

    monkeypatch.setattr("glassformer.cli.describe.preset", describe)
    code, _, err = glassformer("describe", "tiny")
    assert code == 1 and err.startswith("error: Memory ran out. Unable to allocate 560. GiB\n")


@pytest.mark.parametrize(
    "recipe",
    [f"[model]\nx = {'[' * 3_000}{']' * 3_000}", f"[train]\nseed = {'{a=' * 3_000}1{'}' * 3_000}"],
    ids=["lists", "tables"],
)
def test_a_recipe_that_is_nested_too_deeply_is_refused(
    glassformer: Command, tmp_path: Path, recipe: str
) -> None:
    (tmp_path / "deep.toml").write_text(recipe)
    code, _, err = glassformer("train", "deep.toml")
    assert code == 2 and err.startswith("error: The settings are nested too deeply.\n")
