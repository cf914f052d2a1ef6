"""Completion in bash, zsh and fish: the scripts, and what they are answered."""

import os
import subprocess
import sys

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
