"""Ragged arrays: rows go in, the same rows come out, from memory and from a file."""

from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.ragged import Ragged, RaggedWriter

ROWS = st.lists(st.lists(st.integers(0, 2**16 - 1), max_size=5), max_size=12)
DTYPES = ["uint16", "int32"]


def stored(folder, chunks, dtype="uint16") -> Ragged:
    path = folder / f"rows.{dtype}"
    with closing(RaggedWriter(path)) as writer:
        for chunk in chunks:
            writer.append(chunk)
    return Ragged.open(path)


def as_lists(ragged: Ragged) -> list[list[int]]:
    return [ragged[i].tolist() for i in range(len(ragged))]


@given(rows=ROWS)
@settings(max_examples=40, deadline=None)
def test_rows_in_memory_are_those_given(rows):
    ragged = Ragged.of(rows)
    assert as_lists(ragged) == rows
    assert ragged.lengths.tolist() == [len(row) for row in rows]


@pytest.mark.parametrize("dtype", DTYPES)
@given(rows=ROWS, cut=st.integers(0, 12))
@settings(max_examples=30, deadline=None)
def test_rows_written_in_any_chunks_are_those_read(tmp_path_factory, dtype, rows, cut):
    ragged = stored(tmp_path_factory.mktemp("rows"), [rows[:cut], rows[cut:]], dtype)
    assert as_lists(ragged) == rows
    assert ragged.lengths.tolist() == [len(row) for row in rows]
    assert ragged.flat.dtype == dtype


@pytest.mark.parametrize("chunks", [[], [[]], [[[], []]]], ids=["nothing", "no rows", "empty rows"])
def test_a_file_without_a_number_in_it_opens(tmp_path, chunks):
    ragged = stored(tmp_path, chunks)
    assert as_lists(ragged) == [row for chunk in chunks for row in chunk]
    assert ragged.flat.dtype == "uint16"


def test_rows_may_come_from_a_generator(tmp_path):
    assert as_lists(stored(tmp_path, [([i] * i for i in range(4))])) == [[], [1], [2, 2], [3] * 3]


def test_an_opened_file_is_mapped_not_read(tmp_path):
    ragged = stored(tmp_path, [[[1, 2], [3]]])
    assert isinstance(ragged.flat, np.memmap)
    assert ragged.flat.mode == "r"
    with (tmp_path / "rows.uint16").open("r+b") as file:
        file.write(np.array([7], "uint16").tobytes())
    assert as_lists(ragged) == [[7, 2], [3]]


@pytest.mark.parametrize("bad", [-1, 2**16])
def test_a_number_that_does_not_fit_is_refused_not_wrapped(tmp_path, bad):
    with pytest.raises(OverflowError):
        stored(tmp_path, [[[1, bad]]])
