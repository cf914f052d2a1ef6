"""Named data sets. Each is one manifest in the package: files, checksums, addresses, splits.

Files are looked for in $GLASSFORMER_DATA and then in the user's cache. A missing file is downloaded
or prepared into the cache; $GLASSFORMER_DATA is never written to.
"""

import gzip
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from hashlib import blake2b, sha256
from importlib import import_module, resources
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from glassformer.config import Settings
from glassformer.data.corpus import TextFiles, known
from glassformer.data.download import fetch, part_of, put_in_place, sha256_of
from glassformer.errors import DataError, MissingPackageError

Progress = Callable[[str, int, int | None], None]  # name, amount done, total amount if known

REVIEW = re.compile(r"aclImdb/(train|test)/(pos|neg|unsup)/(\d+_\d+)\.txt")
WMT14_PAIRS, WMT14_WORDS = 1_000_000, 40  # size of the training subset; longest English side


def silent(what: str, done: int, total: int | None) -> None:
    """Report no progress."""


class File(Settings):
    """A file by its checksum. One without is made here, out of files that have one."""

    sha256: str | None = None
    size: int | None = None  # in bytes, of a file with a `url`
    url: str | None = None
    prepare: str | None = None  # the part of the set's source that it is made of

    @model_validator(mode="after")
    def _can_be_checked(self) -> Self:
        if self.url and not (self.sha256 and self.size):
            raise ValueError("a file with a url has a size and a sha256, by which it is checked")
        return self

    @property
    def public(self) -> bool:
        return bool(self.url or self.prepare)


class Split(Settings):
    """A split. `files` are alternatives: the first that exists is read, or else the last is made.

    `{column}` in a file's name stands for one file per column; other files hold all columns.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...] = ()  # empty: those of the set
    where: tuple[str, str] | None = None  # a column, and a pattern that it must match
    start: int = 0
    stop: int | None = None
    references: str | None = None  # TSV file: the first column, then all that the second may be


class Manifest(Settings):
    """The description of a set; the package holds none of its data."""

    name: str
    title: str
    home: str
    licence: str
    columns: tuple[str, ...]
    splits: dict[str, Split]
    files: dict[str, File]
    labels: dict[str, str] | None = None  # meaning of each label in the last column


def names() -> list[str]:
    return sorted(file.name.removesuffix(".toml") for file in _manifests().iterdir())


def manifest(name: str) -> Manifest:
    known("set of data", name, names())
    return Manifest.from_toml((_manifests() / f"{name}.toml").read_text("utf-8"))


def find(
    name: str,
    split: str = "train",
    columns: Sequence[str] = (),
    *,
    download: bool = True,
    progress: Progress = silent,
) -> TextFiles:
    """Return the files of a split, checked, and downloaded if missing; by default two columns."""
    sheet = manifest(name)
    part = sheet.splits[known(f"split of {name}", split, sheet.splits)]
    there = part.columns or sheet.columns
    chosen = tuple(known(f"column of {name}", column, there) for column in columns or there[:2])
    paths = tuple(_obtain(sheet, file, download, progress) for file in _choose(part, chosen))
    named = chosen if "{column}" not in part.files[0] else ()
    return TextFiles(paths, named, start=part.start, stop=part.stop, where=part.where)


def find_references(name: str, split: str, *, progress: Progress = silent) -> Path | None:
    """Return the file of all references of a split, checked; None if the set has one of each."""
    sheet = manifest(name)
    file = sheet.splits[known(f"split of {name}", split, sheet.splits)].references
    return _obtain(sheet, file, True, progress) if file else None


def get(name: str, progress: Progress = silent) -> dict[str, TextFiles]:
    """Return every split that exists or can be downloaded, with all its columns."""
    sheet = manifest(name)
    found = {}
    for split, part in sheet.splits.items():
        columns = part.columns or sheet.columns
        if all(_locate(file) or sheet.files[file].public for file in _choose(part, columns)):
            found[split] = find(name, split, columns, progress=progress)
    return found


def cache() -> Path:
    """Return the folder of this user's downloads."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glassformer" / "data"


def _manifests() -> Any:
    return resources.files("glassformer.data") / "manifests"


def _choose(part: Split, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the files of the first alternative that exists completely, or else of the last."""
    choices = [
        tuple(dict.fromkeys(file.format(column=column) for column in columns))
        for file in part.files
    ]
    return next((choice for choice in choices if all(map(_locate, choice))), choices[-1])


def _locate(file: str) -> Path | None:
    """Return the path of a file under $GLASSFORMER_DATA or in the cache; None if in neither."""
    folders = [cache()]
    if given := os.environ.get("GLASSFORMER_DATA"):
        folders.insert(0, Path(given).expanduser())
        if not folders[0].is_dir():
            raise DataError(
                f"GLASSFORMER_DATA names no folder: {given}.",
                "It names the folder of the data, and is not ignored.",
                "Correct it, or unset it.",
            )
    return next((folder / file for folder in folders if (folder / file).is_file()), None)


def _obtain(sheet: Manifest, file: str, download: bool, progress: Progress) -> Path:
    """Return the path of a file whose checksum holds, downloading it if `download` allows."""
    source, target, by_hand = sheet.files[file], cache() / file, f"$GLASSFORMER_DATA/{file}"
    if there := _locate(file):
        if source.sha256:
            _check(there, source.sha256)
        return there
    if not (source.public and download):
        order = f", or run: glassformer data get {sheet.name}" if source.public else ""
        raise DataError(
            f"{file} is neither under $GLASSFORMER_DATA nor under {cache()}.",
            "It is not to be fetched now." if source.public else "It has no public address.",
            f"Put it at {by_hand}{order}.",
        )
    if source.url and source.sha256 and source.size:
        watch = partial(progress, file)
        fetch(source.url, target, source.sha256, source.size, by_hand=by_hand, progress=watch)
    elif source.prepare:
        _prepare(sheet, source.prepare, progress)
    return target


def _check(path: Path, expected: str) -> None:
    """Compare checksums, once for each path, size and time of modification."""
    state = path.stat()
    seen = f"{path.resolve()} {state.st_size} {state.st_mtime_ns} {expected}"
    stamp = cache() / "checked" / sha256(seen.encode()).hexdigest()
    if stamp.exists():
        return
    got = sha256_of(path)
    if got != expected:
        raise DataError(
            f"{path} is not the file it should be.",
            f"Its SHA-256 should be {expected} and is {got}.",
            "Replace it, or remove it to have it downloaded again.",
        )
    with suppress(OSError):  # where nothing can be written, each run checks again
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.touch()


def _prepare(sheet: Manifest, part: str, progress: Progress) -> None:
    try:
        PREPARE[sheet.name](sheet, part, progress)
    except OSError as error:
        raise DataError(
            f"{sheet.name} could not be prepared: {error}.",
            f"It needs its source, {sheet.home}, and space in {cache()}.",
            f"Run it again, or put the files of {sheet.name} under $GLASSFORMER_DATA.",
        ) from None


def _prepare_imdb(sheet: Manifest, part: str, progress: Progress) -> None:
    """Write all parts at once: the archive must be read to its end for any of them."""
    archive = _obtain(sheet, "imdb/aclImdb_v1.tar.gz", True, progress)
    parts: dict[str, dict[str, str]] = {"train": {}, "test": {}, "unsup": {}}
    for done, (belongs_to, review) in enumerate(_reviews(archive), 1):
        parts[belongs_to][review["id"]] = json.dumps(review, ensure_ascii=False)
        progress("imdb: reviews", done, 100_000)
    for name, reviews in parts.items():
        # the archive is sorted by label; sorted by a hash, any slice is a random sample
        order = sorted(reviews, key=lambda review: sha256(review.encode()).digest())
        _write(_made_of(sheet, name), ((reviews[review],) for review in order))


def _reviews(archive: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (part, review), read member by member: no name in the archive becomes a path."""
    with tarfile.open(archive, "r|gz") as members:
        for member in members:
            match = REVIEW.fullmatch(member.name)
            content = members.extractfile(member) if match and member.isfile() else None
            if match is None or content is None:
                continue
            half, kind, number = match.groups()
            review = {"id": f"{half}/{kind}/{number}", "text": content.read().decode()}
            if kind == "unsup":
                yield kind, review
            else:
                yield half, {**review, "label": int(kind == "pos")}


def _prepare_wmt14(sheet: Manifest, part: str, progress: Progress) -> None:
    """Write one part of `wmt/wmt14` of Hugging Face; train is reduced to a subset."""
    try:
        hub = import_module("datasets")
    except ImportError:
        raise MissingPackageError("datasets", "Preparing wmt14", "hf") from None
    rows = hub.load_dataset("wmt/wmt14", "fr-en", split=part, streaming=True)
    pairs = ([" ".join(row["translation"][c].split()) for c in sheet.columns] for row in rows)
    _write(_made_of(sheet, part), _subset(pairs, progress) if part == "train" else pairs)


def _subset(pairs: Iterable[list[str]], progress: Progress) -> Iterator[list[str]]:
    seen: set[bytes] = set()
    for en, fr in pairs:
        key = blake2b(f"{en}\n{fr}".encode(), digest_size=8).digest()
        if en and fr and len(en.split()) <= WMT14_WORDS and key not in seen:
            yield [en, fr]
            seen.add(key)
            progress("wmt14: pairs", len(seen), WMT14_PAIRS)
        if len(seen) == WMT14_PAIRS:
            return


PREPARE = {"imdb": _prepare_imdb, "wmt14": _prepare_wmt14}


def _made_of(sheet: Manifest, part: str) -> list[Path]:
    return [cache() / file for file, source in sheet.files.items() if source.prepare == part]


def _write(paths: Sequence[Path], rows: Iterable[Sequence[str]]) -> None:
    """Write gzipped files, one per column, and rename them when all are complete."""
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    parts = [part_of(path.with_name(f"{path.name}.{os.getpid()}")) for path in paths]
    with ExitStack() as stack:
        for part in parts:
            stack.callback(part.unlink, missing_ok=True)
        with ExitStack() as opened:
            files = [opened.enter_context(gzip.open(part, "wb", 6)) for part in parts]
            for row in rows:
                for file, text in zip(files, row, strict=True):
                    file.write(f"{text}\n".encode())
        for part, path in zip(parts, paths, strict=True):
            put_in_place(part, path)
