"""A file translated in parts: in any order, stopped and begun again, the lines are the same."""

from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import DataError
from glassformer.pipeline.parts import Part, join, missing, parts_of, translate_part

TEXT = "a\n\nthe é cat\r\nlast\u2028one\nno end"


class Shouting:
    """Stands in for a translator."""

    def translate(self, texts: list[str], **search: Any) -> list[str]:
        return [text.upper() + "!" * search.get("beam_size", 0) for text in texts]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_bytes(TEXT.encode())
    return path


@pytest.mark.parametrize("lines", [1, 2, 3, 5, 99])
def test_parts_are_whole_lines_and_together_the_file(source: Path, lines: int) -> None:
    parts, content = parts_of(source, lines), source.read_bytes()
    assert [part.number for part in parts] == list(range(-(-5 // lines)))
    assert b"".join(content[part.begin : part.end] for part in parts) == content
    assert all(content[part.begin : part.end].count(b"\n") == lines for part in parts[:-1])


@pytest.mark.parametrize("lines", [1, 2, 99])
def test_the_joined_lines_are_those_of_one_process(source: Path, lines: int) -> None:
    folder, target = source.parent / "parts", source.parent / "out.txt"
    parts: list[Part] = parts_of(source, lines)
    counts = [translate_part(Shouting(), source, p, folder) for p in reversed(parts)]  # type: ignore[arg-type]
    assert sum(counts) == 5
    join(parts, folder, target)
    assert target.read_text("utf-8") == "A\n\nTHE É CAT\nLAST\u2028ONE\nNO END\n"
    assert {path.name for path in folder.iterdir()} == {part.path(folder).name for part in parts}


def test_work_goes_on_with_the_parts_that_are_missing(source: Path) -> None:
    folder, target = source.parent / "parts", source.parent / "out.txt"
    parts = parts_of(source, 2)
    assert missing(parts, folder) == parts
    translate_part(Shouting(), source, parts[1], folder, beam_size=2)  # type: ignore[arg-type]
    assert missing(parts, folder) == [parts[0], parts[2]]
    with pytest.raises(DataError, match="2 of 3 parts are not translated yet"):
        join(parts, folder, target)
    assert not target.exists()


def test_a_translator_that_fails_leaves_no_part(source: Path) -> None:
    class Failing:
        def translate(self, texts: list[str]) -> list[str]:
            raise KeyboardInterrupt

    folder, (part,) = source.parent / "parts", parts_of(source)
    with pytest.raises(KeyboardInterrupt):
        translate_part(Failing(), source, part, folder)  # type: ignore[arg-type]
    assert missing([part], folder) == [part]


def test_a_source_that_became_shorter_is_refused(source: Path) -> None:
    (part,) = parts_of(source)
    source.write_text("a\n")
    with pytest.raises(DataError, match="ends before part 0"):
        translate_part(Shouting(), source, part, source.parent)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="A part of 0 lines is none"):
        parts_of(source, 0)
