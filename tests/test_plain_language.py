"""Plain language: docstrings, retired words and commit subjects."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COVERED = (
    "CONTRIBUTING.md",
    "README.md",
    "docs",
    "examples",
    "src",
    "tests",
)
# Lines of these files hold English sentences and words as data.
ENGLISH = (
    "src/glassformer/data/direction.py",
    "src/glassformer/data/grammar/lexicon.py",
    "src/glassformer/data/sentences.py",
    "src/glassformer/evaluate/rules.py",
    "tests/data/test_grammar.py",
    "tests/data/test_sentences.py",
    "tests/evaluate/test_labels.py",
    "tests/evaluate/test_moses.py",
    "tests/evaluate/test_rules.py",
    "tests/pipeline/test_protect.py",
)
SUFFIXES = (".py", ".md", ".html", ".js", ".css")

# First words that do not name a thing and are no imperative.
OPENINGS = ("What", "Whatever", "Whether", "Of", "Those", "Who", "Whoever")

# Words that the literature does not use, each with the word that it uses.
RETIRED = {
    "heard": "attended to",
    "heir": "child process",
    "is worth": "importance, change of the score",
    "made to say": "forced",
    "mend": "fix, correct",
    "nobody": "no user, no process",
    "of two minds": "disagree",
    "said": "output, predicted, decoded",
    "somebody": "hooks, another process",
    "speaks": "is for, is against",
    "telling": "mutual information, informative",
    "voice": "decoder",
}
LONGEST_SUBJECT = 72  # characters of a commit subject, as `git log --oneline` shows them uncut


def covered_files() -> list[Path]:
    found = [path for name in COVERED for path in _files(ROOT / name)]
    assert all((ROOT / name).exists() for name in COVERED), "COVERED names existing paths"
    return sorted(found)


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    yield from (p for p in path.rglob("*") if p.suffix in SUFFIXES)


def bad_openings(source: str) -> list[str]:
    """Return the docstrings that begin with one of OPENINGS."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    docstrings = [ast.get_docstring(node) or "" for node in nodes]
    return [text for text in docstrings if re.match(rf"({'|'.join(OPENINGS)})\b", text)]


def retired_words(text: str) -> list[str]:
    """Return the lines with one of the RETIRED words, also inside names."""
    pattern = re.compile(rf"(?<![a-zA-Z])({'|'.join(RETIRED)})(?![a-zA-Z])", re.IGNORECASE)
    return [line.strip() for line in text.splitlines() if pattern.search(line)]


@pytest.mark.parametrize("path", covered_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_is_plain(path: Path) -> None:
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        assert not bad_openings(text), "a docstring starts with an imperative or a noun"
    names = [ROOT / name for name in ENGLISH]
    if path not in (Path(__file__), *names):  # the list of retired words is here
        assert not retired_words(text), f"use the words of the literature: {RETIRED}"


def test_bad_docstrings_and_words_are_found() -> None:
    assert bad_openings('def f():\n    """What it gives."""') == ["What it gives."]
    assert bad_openings('class A:\n    """Of a row, its sum."""') == ["Of a row, its sum."]
    assert not bad_openings('"""Return the sum."""\n# What a comment asks is free.')
    assert retired_words("tokens_said = 1\nit SAID so\nfine") == ["tokens_said = 1", "it SAID so"]
    assert not retired_words("a recommendation, the unsaid, rooms")


def git(*arguments: str) -> str | None:
    """Return the output of a git command in this checkout; None if it fails or git is missing."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def test_commit_subjects_since_the_last_tag_are_short() -> None:
    tag = git("describe", "--tags", "--abbrev=0")
    if tag is None:
        pytest.skip("no git, or no tag")
    subjects = git("log", "--no-merges", "--format=%s", f"{tag}..HEAD")
    assert subjects is not None
    long = [subject for subject in subjects.splitlines() if len(subject) > LONGEST_SUBJECT]
    assert not long
