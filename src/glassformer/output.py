"""Results on the disk: text in UTF-8, and in one block why a file cannot be written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glassformer.errors import DataError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A block that writes `path`, whose folder is made first."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror}.",
            "A result goes to a file in a folder that may be written to.",
            "Name another place.",
        ) from None


def save_text(path: Path, content: str) -> None:
    with writing(path):
        path.write_text(content, "utf-8", newline="\n")
