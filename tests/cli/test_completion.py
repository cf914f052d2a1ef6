"""Completion in bash, zsh and fish: the scripts, their answers, and the shells themselves."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest

from train.runs import Command


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(glassformer: Command, shell: str) -> None:
    code, out, _ = glassformer("completion", shell)
    assert code == 0 and "_GLASSFORMER_COMPLETE" in out and f"complete_{shell}" in out


def test_without_a_shell_it_tells_how_to_load_one(glassformer: Command) -> None:
    code, out, _ = glassformer("completion")
    assert code == 0 and out.count("glassformer completion ") == 3
    code, _, msg = glassformer("completion", "tcsh")
    assert code == 2 and "There is no completion for 'tcsh'" in msg


@pytest.mark.parametrize(
    ("line", "expected"),
    [("glassformer tra", {"train", "translate"}), ("glassformer train --tr", {"--translate"})],
)
def test_bash_is_answered_with_verbs_and_options(line: str, expected: set[str]) -> None:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "glassformer"],
        env={**os.environ, **words, "_GLASSFORMER_COMPLETE": "complete_bash"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert {word.partition(",")[2] or word for word in done.stdout.split()} == expected


def answer(shell: str, line: str) -> list[str]:
    """Return the lines that a shell's script is answered with."""
    asks = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(
        [sys.executable, "-m", "glassformer"],
        env=os.environ | asks | {"_GLASSFORMER_COMPLETE": f"complete_{shell}", "COLUMNS": "40"},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_fish_is_answered_with_a_line_for_each_option() -> None:
    lines = answer("fish", "glassformer train --")
    assert all(re.match(r"--[a-z-]+\t\S", line) for line in lines), lines
    assert max(map(len, lines)) > 80, "a long help text stays on one line"


def test_zsh_is_answered_with_one_command() -> None:
    (line,) = answer("zsh", "glassformer train --tr")
    assert line.startswith('_arguments \'*: :(("--translate":"Train a translator')


# The shells

TIMEOUT = 120.0  # seconds for an answer, on a busy machine


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a command `glassformer` of this package on the PATH, and the home folder aside."""
    command = tmp_path / "bin/glassformer"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m glassformer "$@"\n')
    command.chmod(0o755)
    for name, value in {
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "HOME": str(tmp_path), "TERM": "xterm", "PS1": "> ",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)


def shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.mark.usefixtures("path")
def test_fish_completes_verbs_options_and_files(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("")
    script = (
        "glassformer completion fish | source\n"
        'complete -C "glassformer tra"\n'
        'complete -C "glassformer train --dev"\n'
        'complete -C "glassformer train --translate pai"\n'
    )
    done = subprocess.run(
        [shell("fish"), "--no-config", "-c", script],
        capture_output=True, text=True, timeout=5 * TIMEOUT, check=True,
    )  # fmt: skip
    found = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert found == ["train", "translate", "--device", "pairs.tsv"]


@pytest.fixture
def terminal(path: None) -> Iterator[Callable[[str, str], str]]:
    """Yield zsh on a terminal: keys are typed, and read is what it shows up to a pattern."""
    leader, follower = pty.openpty()
    zsh = subprocess.Popen(
        [shell("zsh"), "-f", "-i"], stdin=follower, stdout=follower, stderr=follower,
        start_new_session=True,
    )  # fmt: skip
    os.close(follower)

    def typed(keys: str, pattern: str) -> str:
        os.write(leader, keys.encode())
        shown, end = "", monotonic() + TIMEOUT
        while not re.search(pattern, shown, re.DOTALL):
            assert monotonic() < end, f"{pattern} is not in {shown!r}"
            if select.select([leader], [], [], 1.0)[0]:
                shown += os.read(leader, 4096).decode(errors="replace")
                shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\x08", "", shown)
        return shown

    yield typed
    zsh.kill()
    zsh.wait()
    os.close(leader)


def test_zsh_completes_verbs_and_options(terminal: Callable[[str, str], str]) -> None:
    terminal("autoload -Uz compinit; compinit -u -D; echo load''ed\n", "loaded")
    terminal('eval "$(glassformer completion zsh)"; echo defi""ned\n', "defined")
    listed = terminal("glassformer tra\t\t", r"train +-- .*translate +-- ")
    assert "Translate texts, a file or standard input." in listed
    terminal("\x15glassformer train --dev\t", "train --device ")
