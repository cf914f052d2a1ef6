"""Translate a text file line by line, and report progress every hundred lines.

python examples/translate_file.py letter.txt letter.fr.txt
python examples/translate_file.py letter.txt letter.fr.txt runs/mine     # a model of your own
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import glassformer as gf


def translated(translator: gf.Translator, source: Path) -> Iterator[str]:
    """Yield one translated line for each line of `source`; blank lines stay blank."""
    lines = source.read_text("utf-8").splitlines()
    for start in range(0, len(lines), 100):
        yield from translator.translate(lines[start : start + 100])


def main(source: str, target: str, model: str = "en-fr") -> None:
    translator = gf.load(model)
    with Path(target).open("w", encoding="utf-8") as output:
        for number, line in enumerate(translated(translator, Path(source)), start=1):
            print(line, file=output)
            if number % 100 == 0:
                print(f"{number:,} lines", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
