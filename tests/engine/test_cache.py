"""The cache of compiled code: whatever state its folder is in, the answer is right.

Most tests use one small function, `decode.beam.advance`, instead of the whole engine.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.child import TESTS, answer, save
from engine.child import found as answers_of
from engine.toys import arrays, engine, sentences, toy
from glassformer.compiled import KERNELS, cache_folder, kernel_name
from glassformer.compiled.cache import SOURCES

# A greedy step over three tokens, twice: prints what it found, where the code is kept, how many
# functions came from there, and whether Numba was imported.
SEARCH = """
import json
import sys
import numpy as np
from glassformer.compiled import cache_folder
from glassformer.decode import beam as b
state = b.start(np.array([2]), 1, 1, np.array([0]), np.zeros((1, 0), np.int64), np.zeros(1))
for values, ids in ((-1.5, 4), (-0.25, 2)):
    b.advance(state, np.full((1, 1, 1), values, np.float32), np.full((1, 1, 1), ids), 2, 0.0,
              b.scratch(1, 1))
(found,) = b.answers(state, 2)
hits = sum([b.ADVANCE.was_cached, b.FOLLOW.was_cached])
print(json.dumps([found[0].ids, found[0].score, str(cache_folder()), hits, "numba" in sys.modules]))
"""
RIGHT = [[4], -1.75]


def environment(folder: Path, **changes: str) -> dict[str, str]:
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GLASSFORMER")}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(paths),
        "GLASSFORMER_CACHE": str(folder),
        **changes,
    }


def started(folder: Path, **changes: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SEARCH],
        env=environment(folder, **changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: "subprocess.Popen[str]") -> tuple[Path, int]:
    """Check the answer; return the folder of the code and the number of functions found there."""
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    *found, folder, hits, imported = json.loads(output.splitlines()[-1])
    assert found == RIGHT
    assert imported == (hits < 2), "Numba is imported only to compile"
    return Path(folder), hits


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.rglob(f"*{suffix}"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that two processes filled at the same time."""
    folder = tmp_path_factory.mktemp("cache")
    for process in [started(folder) for _ in range(2)]:
        used, _ = finished(process)
        assert used.is_relative_to(folder)
    return folder


@pytest.fixture
def copied(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "copy"))


def test_two_processes_may_fill_the_cache_at_once_and_a_third_finds_the_code(filled: Path) -> None:
    assert [path.name for path in files(filled, ".code")] == [
        "loops.advance_entry.code",
        "loops.follow.code",
    ]
    _, hits = finished(started(filled))
    assert hits == 2


DAMAGE = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 8),
    "absent": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_of_the_cache_is_compiled_anew(copied: Path, damage: str) -> None:
    for path in files(copied, ".code"):
        DAMAGE[damage](path)
    _, hits = finished(started(copied))
    assert hits == 0
    _, hits = finished(started(copied))
    assert hits == 2, "the cache is whole again"


def test_a_cache_folder_that_cannot_be_made_is_replaced(tmp_path: Path) -> None:
    """As with a read-only home, whoever runs the test."""
    (tmp_path / "file").write_text("no folder")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    used, _ = finished(started(tmp_path / "file" / "cache", TMPDIR=str(temporary)))
    assert used.is_relative_to(temporary)


def test_neither_a_cache_folder_nor_a_temporary_one_of_the_user_is_needed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    (tmp_path / f"glassformer-{os.getuid()}").write_text("no folder either")
    used, _ = finished(started(tmp_path / "file" / "cache", TMPDIR=str(tmp_path)))
    assert used.parent == tmp_path


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache_folder_is_not_written_to(copied: Path, tmp_path: Path) -> None:
    folders = [copied, *(path for path in copied.rglob("*") if path.is_dir())]
    before = files(copied, "")
    for folder in folders:
        folder.chmod(0o555)
    try:
        finished(started(copied, TMPDIR=str(tmp_path)))
        assert files(copied, "") == before
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_an_unknown_set_of_instructions_is_refused_by_name(tmp_path: Path) -> None:
    process = started(tmp_path, GLASSFORMER_KERNEL="avx3")
    _, errors = process.communicate(timeout=300)
    assert process.returncode != 0
    assert "GLASSFORMER_KERNEL = 'avx3'" in errors
    assert all(name in errors for name in KERNELS)


def test_code_of_different_sources_and_instructions_is_kept_apart() -> None:
    assert cache_folder().name.endswith(f"-{kernel_name()}")
    assert len(cache_folder().name.removesuffix(f"-{kernel_name()}")) == 16


SHARED = """
import sys
from glassformer.engine import steps
print(json.dumps(sorted(n for n in sys.modules if n.startswith("glassformer."))))
"""
# Modules that compiled code imports and takes types or nothing from.
WITHOUT_EFFECT = {
    *(
        "callable_module",
        "compiled",
        "compiled.cache",
        "compiled.entry",
        "compiled.host",
        "config",
        "decode",
    ),
    *("decode.decoder", "decode.options", "engine", "errors"),
}


def test_every_source_of_compiled_code_decides_its_folder() -> None:
    command = [sys.executable, "-c", "import json" + SHARED]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    modules = {name.removeprefix("glassformer.") for name in json.loads(done.stdout)}
    hashed = {source.removesuffix(".py").replace("/", ".") for source in SOURCES}
    assert modules - WITHOUT_EFFECT == hashed


DAMAGED = """
folder, sources = sys.argv[1], json.loads(sys.argv[2])
print(json.dumps(found(load(folder, threads=1), sources, beam_size=2)))
"""


def test_the_engine_answers_with_a_damaged_cache(tmp_path: Path) -> None:
    """One file of the engine's own code is damaged; the others are found."""
    model: Any = toy()
    folder, sources = save(tmp_path, model.settings, arrays(model)), sentences(3, 9)
    expected = answers_of(engine(model, threads=1), sources, beam_size=2)
    cache = tmp_path / "cache"
    shutil.copytree(cache_folder(), cache / "compiled" / cache_folder().name)
    DAMAGE["cut"](cache / "compiled" / cache_folder().name / "loops.follow.code")
    found = answer(DAMAGED, folder, sources, GLASSFORMER_CACHE=str(cache))
    assert found == expected
