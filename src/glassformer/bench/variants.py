"""Variants of a recipe: one setting changed at a time, or all combinations, with seeds."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from operator import attrgetter
from pathlib import Path
from urllib.parse import quote

from glassformer.bench.trials import check_claim
from glassformer.config import RunSettings, check_together, parse_changes
from glassformer.data.check import check as check_data
from glassformer.errors import SettingsError

BASELINE = "baseline"
SAME_FOR_ALL = {
    "train.seed": "Differences are compared with the variance over seeds, set by --seeds.",
    "train.max_steps": "All variants get the same budget.",
    "train.max_minutes": "All variants get the same budget.",
    "train.patience": "All variants get the same budget.",
    "train.target": "All variants get the same budget.",
    "train.metric": "All variants are compared by the same score.",
    "train.validate_every": "The best of more validations is higher by chance.",
} | dict.fromkeys(
    (
        "data.name",
        "data.valid",
        "data.valid_examples",
        "data.source_language",
        "data.target_language",
    ),
    "All variants are compared on the same text.",
)
SUBWORDS = ("model.vocab_size", "data.subwords", "data.joint_vocabulary", "data.fold_case")


@dataclass(frozen=True)
class Variant:
    name: str  # the changes as typed
    settings: RunSettings


@dataclass(frozen=True)
class Trial:
    """A variant with one seed, in its own folder."""

    variant: Variant
    seed: int
    folder: Path

    @property
    def settings(self) -> RunSettings:
        return self.variant.settings.replace(train={"seed": self.seed})

    def __str__(self) -> str:
        return f"{self.variant.name}, seed {self.seed}"


def factors(texts: Sequence[str]) -> dict[str, list[str]]:
    """Parse `name=value,value`; a comma within brackets or quotes is part of a value."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        split = re.findall(r"(?:\[[^\]]*\]|\"[^\"]*\"|'[^']*'|[^,])+", values)
        if not split:
            raise SettingsError(
                f"{text!r} has no values to try.",
                "A varied setting has values separated by commas, without spaces.",
                "For example --vary model.dropout=0.1,0.2,0.3.",
            )
        found.setdefault(name, []).extend(split)
    return found


def variants(base: RunSettings, tried: dict[str, list[str]], grid: bool) -> list[Variant]:
    """Return the baseline, then the other variants, checked and without duplicates."""
    choices = [[f"{name}={value}" for value in values] for name, values in tried.items()]
    combinations = product(*choices) if grid else ((one,) for some in choices for one in some)
    found = [Variant(BASELINE, base)]
    for changes in combinations:
        settings = base.replace(**parse_changes(changes))
        if all(settings != variant.settings for variant in found):
            found.append(Variant(",".join(changes), settings))
    for variant in found:
        _check(variant.settings, base)
    return found


def _check(settings: RunSettings, base: RunSettings) -> None:
    """Refuse settings that cannot be trained, or cannot be compared with the baseline."""
    for name, why in SAME_FOR_ALL.items():
        if attrgetter(name)(settings) != attrgetter(name)(base):
            remedy = f"Change it for all of them, without --vary: {name}=…"
            raise SettingsError(f"{name} cannot be varied.", why, remedy)
    for name in SUBWORDS if base.train.metric == "loss" else ():
        if attrgetter(name)(settings) != attrgetter(name)(base):
            raise SettingsError(
                f"{name} cannot be varied with train.metric = 'loss'.",
                "The loss is per subword, and other subwords make it incomparable.",
                "Set train.metric=bleu for all of them.",
            )
    check_together(settings.model)
    check_data(settings)


def trials(some: Sequence[Variant], seeds: int, folder: Path) -> list[Trial]:
    """Return every variant with the first seed, then with the next, to be compared early.

    Folders that hold other runs are refused before anything is trained.
    """
    first = some[0].settings.train.seed
    found = [
        Trial(variant, seed, folder / quote(variant.name, safe="=,+") / f"seed-{seed}")
        for seed in range(first, first + seeds)
        for variant in some
    ]
    for trial in found:
        check_claim(trial.folder, trial.settings)
    return found


def describe_baseline(base: RunSettings, names: Iterable[str]) -> str:
    """Return the values of the varied settings in the baseline."""
    return f"{BASELINE}: {', '.join(f'{name}={attrgetter(name)(base)}' for name in names)}"
