"""A model of another library that a stranger has changed is read or refused, nothing else."""

from pathlib import Path

from glassformer.bench.faults.imports import WRITERS, begin


def test_every_reader_refuses_or_reads_what_was_changed(tmp_path: Path) -> None:
    trial = begin(tmp_path)
    found = [name for seed in range(40 * len(WRITERS)) for name, _ in trial(seed).figures]
    assert found.count("refused") > len(found) // 2
