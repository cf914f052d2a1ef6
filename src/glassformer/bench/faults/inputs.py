"""Campaign `inputs`: damaged and odd text for every reader, and for the models."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from glassformer import pretrained
from glassformer.bench.faults.campaign import Campaign, Result, Trial
from glassformer.bench.faults.threads import MODEL
from glassformer.config import RunSettings, parse_changes
from glassformer.data import grammar
from glassformer.data.corpus import Corpus, TextFiles
from glassformer.errors import GlassformerError
from glassformer.pipeline import load_classifier, load_translator

ROWS = 12
# Pieces of bytes that parsers stumble over.
PIECES = (
    b"\n", b"\r", b"\r\n", b"\t", b'"', b'""', b",", b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80",
    b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xf0\x9f\x98\x80", b"\\", b"\\ud800", b"{", b"}", b"[",
    b"]", b"[" * 5_000, b'{"a":' * 5_000, b"NaN", b"1e999", b"9" * 5_000, b"null", b"=", b"'''",
    b'"""', b"#", b"x" * 200_000, b" " * 2_000, b"\x1f\x8b", b"\x85", b"nan", b"inf", b"-1",
)  # fmt: skip
# Characters that text handling stumbles over: marks, joiners, surrogates, other scripts.
CHARACTERS = (
    "e", "A", " ", "\u0301", "\u200b", "\u200d", "\u202e", "\ufeff", "\ufffc", "\ufffe", "\x1b",
    "\U0010ffff", "\ud800", "\udfff", "\0", "\n", "\r", "\t", "\x85", "\u2028", "\u00a0", "\u2009",
    "▁", "\ufb01", "²", "\uff21", "\U0001f600", "👩\u200d👩\u200d👧", "中", "한", "ا", "ह", "ß",
    "<unk>", "<s>", "</s>", "<2fr>", "<0x41>", "https://a.b/c?d=e", "a@b.c", "1,000.5", "%s", "{}",
    "İ", "|||", '"', "«", "»", "'", "…",
)  # fmt: skip


def begin(folder: Path) -> Trial:
    """Read one damaged input of each kind in turn."""
    pairs = [(pair.source, pair.target) for pair in grammar.pairs("test", ROWS)]
    translator = load_translator(MODEL)
    classifier = load_classifier(pretrained.CLASSIFIER)
    recipe = RunSettings().to_toml().encode()

    def table(random: Random) -> str | None:
        return read_table(random, folder, pairs)

    def toml(random: Random) -> str | None:
        settings = RunSettings.from_toml(damaged(recipe, random))
        again = RunSettings.from_toml(settings.to_toml())
        return None if again == settings else "settings changed on their way through TOML"

    def changes(random: Random) -> str | None:
        RunSettings().replace(**parse_changes([change(random) for _ in range(3)]))
        return None

    def translate(random: Random) -> str | None:
        text = odd_text(random)
        found = translator.translate(text, beam_size=random.choice((1, 3)), max_length=30)
        found.encode()
        return None if found.count("\n") <= text.count("\n") else "a translation has more lines"

    def classify(random: Random) -> str | None:
        found = classifier.classify(odd_text(random), truncate=True)
        total = sum(found.probabilities.values())
        return None if abs(total - 1) < 1e-9 else f"probabilities add up to {total}"

    readers: tuple[Callable[[Random], str | None], ...] = (
        table, table, table, toml, changes, translate, classify
    )  # fmt: skip

    def trial(seed: int) -> Result:
        reader = readers[seed % len(readers)]
        try:
            problem = reader(Random(seed))
        except GlassformerError as error:
            problem = None if error.what and error.why and error.remedy else "an error without text"
            problem = "an error of many pages" if len(str(error)) > 5_000 else problem
        return Result(lost=(f"{reader.__name__}: {problem}",) if problem else ())

    return trial


def damaged(content: bytes, random: Random) -> bytes:
    """Return content with a few pieces put in, taken out, doubled or exchanged."""
    for _ in range(random.choice((1, 1, 2, 4))):
        one, other = sorted(random.randrange(len(content) + 1) for _ in range(2))
        match random.randrange(5):
            case 0:
                content = content[:one] + content[min(other, one + 40) :]
            case 1:
                content = content[:one] + content[one:other] * 2 + content[other:]
            case 2:
                content = content[:one] + random.randbytes(random.randrange(1, 9)) + content[one:]
            case _:
                content = content[:one] + random.choice(PIECES) + content[one:]
    return content


def read_table(random: Random, folder: Path, pairs: list[tuple[str, str]]) -> str | None:
    """Read a damaged file in any format; return what is wrong with its rows."""
    form, content = random.choice(tuple(written(pairs).items()))
    is_packed = random.random() < 0.3
    content = gzip.compress(damaged(content, random)) if is_packed else damaged(content, random)
    if is_packed and random.random() < 0.5:
        content = damaged(content, random)
    path = folder / f"text.{form}"
    path.write_bytes(content)
    columns: tuple[str | int, ...] = {"txt": (), "jsonl": ("en", "fr")}.get(form, (1, 2))
    if form in ("tsv", "csv") and random.random() < 0.5:
        columns = ("en", "fr")
    corpus = Corpus(TextFiles((path,), columns), skip_bad=random.random() < 0.7)
    rows = list(corpus)
    report = corpus.report
    if len(rows) != report.rows - report.bad.total():
        return f"{len(rows)} rows came, the report has {report}"
    return next((f"a row of {row!r}"[:99] for row in rows if not all(map(is_text, row))), None)


def written(pairs: list[tuple[str, str]]) -> dict[str, bytes]:
    """Return the pairs in each format, with the header of a table."""
    named: list[dict[str, Any]] = [{"en": one, "fr": other} for one, other in pairs]
    quoted = [",".join(json.dumps(cell, ensure_ascii=False) for cell in pair) for pair in pairs]
    lines = {
        "txt": [source for source, _ in pairs],
        "tsv": ["en\tfr", *("\t".join(pair) for pair in pairs)],
        "csv": ["en,fr", *quoted],
        "jsonl": [json.dumps(row, ensure_ascii=False) for row in named],
    }
    return {form: "".join(f"{line}\n" for line in all_).encode() for form, all_ in lines.items()}


def is_text(cell: str) -> bool:
    return not cell.isspace() and bool(cell.encode())


def change(random: Random) -> str:
    """Return an argument that may change a setting."""
    sections = RunSettings().model_dump()
    section = random.choice(tuple(sections))
    name = f"{section}.{random.choice(tuple(sections[section]))}"
    value = random.choice(PIECES).decode(errors="surrogateescape")
    text = f"{random.choice((name, name, section, odd_text(random)))}={value}"
    return text if random.random() < 0.8 else odd_text(random)


def odd_text(random: Random) -> str:
    return "".join(random.choices(CHARACTERS, k=random.choice((0, 1, 5, 20, 60))))


CAMPAIGN = Campaign("inputs", begin, trials=4_000, quick=100, seconds=60.0, memory=2 << 30)
