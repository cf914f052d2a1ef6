"""The data to evaluate on, from the options of a command line."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.cli import options as o
from glassformer.errors import SettingsError

if TYPE_CHECKING:
    from glassformer.evaluate.examples import Data, Selection


@dataclass(frozen=True)
class Choice:
    """Two files, one table, one file of several references, or a named set."""

    source: Path | None = None
    reference: Path | None = None
    table: Path | None = None
    columns: str = ""
    name: str | None = None
    split: str | None = None
    limit: int | None = None
    skip_bad: bool = False
    references: Path | None = None
    tokenised: Path | None = None

    def __post_init__(self) -> None:
        """Refuse to name no data or two kinds of data, and options of another kind."""
        pair = [self.source, self.reference]
        several = self.references is not None
        why = "It holds all references."
        o.not_with("--references", several, why, reference=self.reference)
        ways = [any(pair) or several, self.table is not None, self.name is not None]
        if sum(ways) != 1 or (not several and any(pair) != all(pair)):
            raise SettingsError(
                "Evaluation needs exactly one source of data.",
                "Give --source with --reference, --references, one file by --data, or a --set.",
                "For example: --source valid.en --reference valid.fr, or --set multi30k.",
            )
        o.only_with("--set", self.name is not None, split=self.split)
        own_files = any(pair) or several
        o.only_with("--data or --set", not own_files, columns=self.columns or None)
        two_files = self.reference is not None
        o.only_with("--source with --reference", two_files, tokenised_reference=self.tokenised)

    @property
    def selection(self) -> "Selection":
        from glassformer.evaluate.examples import VALID, Selection

        columns = o.columns_of(self.columns)
        return Selection(self.split or VALID, columns, self.limit, self.skip_bad)

    def data(self) -> "Data":
        """Return the data as `glassformer.evaluate` takes it."""
        from glassformer.evaluate.examples import from_references

        if self.references is not None:
            how = {"skip_bad": self.skip_bad}
            return from_references(self.references, self.source, self.limit, **how)
        if self.source is not None and self.reference is not None:
            paths = (self.source, self.reference, self.tokenised)
            return tuple(path for path in paths if path is not None)
        found = self.table or self.name
        assert found is not None
        return found
