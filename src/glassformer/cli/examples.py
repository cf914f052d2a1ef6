"""Which examples a verb is to judge a model on, by the options of its command line."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.cli import options as o
from glassformer.cli.progress import fetching
from glassformer.cli.train import say
from glassformer.errors import SettingsError

if TYPE_CHECKING:
    from glassformer.evaluate.examples import Examples

VALID = "valid"  # which part of a set, where none is named


@dataclass(frozen=True)
class Data:
    """What to evaluate on: two files, one of several columns, one of references, a named set."""

    source: Path | None
    reference: Path | None
    tokenised: Path | None
    file: Path | None
    columns: tuple[str, ...]
    name: str | None
    split: str | None  # None: the one to validate on
    limit: int | None
    skip_bad: bool
    references: Path | None = None  # several of each text


def check_data(about: Data) -> None:
    """Exactly one way to name the data, and no option that is another's."""
    pair = [about.source, about.reference]
    several = about.references is not None
    o.not_with("--references", several, "It holds all references.", reference=about.reference)
    ways = [any(pair) or several, about.file is not None, about.name is not None]
    if sum(ways) != 1 or (not several and any(pair) != all(pair)):
        raise SettingsError(
            "It is not clear what to evaluate on.",
            "That is --source with --reference, --references, one file by --data, or a --set.",
            "For example: --source valid.en --reference valid.fr, or --set multi30k.",
        )
    o.only_with("--set", about.name is not None, split=about.split)
    o.only_with("--data or --set", not any(pair) and not several, columns=about.columns or None)


def read(
    about: Data,
    languages: Sequence[str],
    labels: Collection[str] | None = None,
    *,
    tokenised: bool = False,
    several: bool = False,
) -> "Examples":
    """The rows; of a translator these are the texts in its two languages, and tokenised ones.

    Of a named set, tokenised ones or several references come if they are asked for. Of a file,
    columns that are not named are called by the languages, or text and label.
    """
    from glassformer.data.corpus import TextFiles
    from glassformer.evaluate.examples import from_files, from_references, from_set

    own = ("text", "label") if labels and about.file else tuple(languages)
    columns = about.columns or own
    if about.columns:
        check_columns(columns, 3 if about.file and not labels else 2)
    elif about.file:
        say(f"columns of {about.file}: {','.join(columns)} (others: --columns)")
    if about.name:
        with watched_fetching() as watch:
            examples = from_set(
                about.name,
                about.split or VALID,
                columns,
                about.limit,
                tokenised=tokenised,
                several=several,
                skip_bad=about.skip_bad,
                labels=labels,
                progress=watch,
            )
    elif about.references:
        examples = from_references(
            about.references, about.source, about.limit, skip_bad=about.skip_bad
        )
    else:
        if about.file:
            numbered = tuple(int(c) if c.isdecimal() else c for c in columns)
            files = TextFiles((about.file,), numbered)
        else:
            paths = (about.source, about.reference, about.tokenised)
            files = TextFiles(tuple(path for path in paths if path), format="lines")
        examples = from_files(files, about.limit, skip_bad=about.skip_bad, labels=labels)
    if examples.skipped:
        say(f"bad rows skipped: {examples.skipped}")
    return examples


def check_columns(columns: Sequence[str], most: int) -> None:
    if not 2 <= len(columns) <= most:
        raise SettingsError(
            f"{len(columns)} columns are named, and {' or '.join(map(str, range(2, most + 1)))} "
            "can be used.",
            "A translator has a source and a reference, in a file perhaps a tokenised one as well; "
            "a classifier has a text and a label.",
            "For example: --columns en,fr for a translator, --columns text,label for a classifier.",
        )


@contextmanager
def watched_fetching() -> Iterator[Callable[[str, int, int | None], None]]:
    """`fetching`, with nothing on the screen unless something is fetched."""
    with ExitStack() as stack:
        bars: list[Callable[[str, int, int | None], None]] = []

        def watch(what: str, done: int, total: int | None) -> None:
            if not bars:
                bars.append(stack.enter_context(fetching()))
            bars[0](what, done, total)

        yield watch
