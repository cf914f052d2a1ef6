"""Result files: UTF-8 text, and one clear error if a file cannot be written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glassformer.errors import DataError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Create the folder of `path`, and turn an error of the block into a DataError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror}.",
            "The result needs a file in a folder with write permission.",
            "Name another file.",
        ) from None


def save_text(path: Path, content: str) -> None:
    with writing(path):
        path.write_text(content, "utf-8", newline="\n")
