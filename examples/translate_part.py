"""Translate one share of a large text file: a task of a Slurm array, or of any other scheduler.

python examples/translate_part.py corpus.txt parts 0 4             # share 0 of 4; then 1, 2 and 3
python examples/translate_part.py corpus.txt parts corpus.fr.txt   # join them when all are done

Share i has the parts i, i + 4, i + 8, …. A share that is started again goes on where it stopped.
"""

import sys
from pathlib import Path

import glassformer as gf
from glassformer.pipeline.parts import LINES, join, missing, parts_of, translate_part


def translate(
    source: str, folder: str, share: int, shares: int, model: str = "en-fr", lines: int = LINES
) -> None:
    """Translate every part of a share that is not there yet."""
    todo = missing(parts_of(Path(source), lines)[share::shares], Path(folder))
    translator = gf.load(model) if todo else None
    for part in todo:
        n = translate_part(translator, Path(source), part, Path(folder))
        print(f"{part.path(Path(folder))}: {n:,} lines", file=sys.stderr)


def main(source: str, folder: str, *rest: str) -> None:
    if len(rest) == 1:
        join(parts_of(Path(source)), Path(folder), Path(rest[0]))
    else:
        translate(source, folder, int(rest[0]), int(rest[1]), *rest[2:])


if __name__ == "__main__":
    main(*sys.argv[1:])
