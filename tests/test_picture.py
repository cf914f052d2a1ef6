"""Figure files: early errors, and equal bytes for equal figures."""

import sys
from pathlib import Path

import pytest

from glassformer import picture
from glassformer.errors import DataError, InputError, MissingPackageError


def draw(path: Path, text: str = "x") -> bytes:
    figure = picture.new_figure(2, 2)
    figure.subplots().set_title(text, parse_math=False)
    picture.save(figure, path)
    return path.read_bytes()


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_equal_figures_are_equal_files(tmp_path: Path, suffix: str, start: bytes) -> None:
    first, again = (draw(tmp_path / "new" / f"{name}.{suffix}") for name in ("one", "two"))
    assert first.startswith(start) and first == again


def test_text_is_saved_as_text_not_as_markup_or_math(tmp_path: Path) -> None:
    text = "$a$ <b> ☃ 漢"
    assert "$a$ &lt;b&gt; ☃ 漢</text>" in draw(tmp_path / "x.svg", text).decode()
    draw(tmp_path / "x.png", text)


def test_no_figure_is_left_open(tmp_path: Path) -> None:
    draw(tmp_path / "x.png")
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


def test_bad_suffix_bad_folder_and_missing_matplotlib_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture.check(tmp_path / "x.svg")
    with pytest.raises(InputError, match=r"x\.gif is not the name of a figure"):
        picture.check(tmp_path / "x.gif")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        draw(tmp_path / "file" / "x.svg")
    for name in ("matplotlib", "matplotlib.figure"):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, name, None)
            with pytest.raises(MissingPackageError, match="'matplotlib' is not installed"):
                picture.check()
