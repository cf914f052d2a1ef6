"""Names of other libraries, sections left out, and what a wrong name most likely means."""

import pytest

from glassformer.aliases import ALIASES, OTHER_UNIT, resolve, suggestion
from glassformer.config import ModelSettings, RunSettings, parse_run_changes
from glassformer.errors import SettingsError
from glassformer.settings_base import names_of

NAMES = names_of(RunSettings)


def test_every_alias_is_of_a_setting_and_hides_none() -> None:
    assert {*ALIASES.values(), *(meant for meant, _ in OTHER_UNIT.values())} <= set(NAMES)
    assert not {*ALIASES, *OTHER_UNIT} & {name.rpartition(".")[2] for name in NAMES}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("lr", "train.learning_rate"),
        ("train.lr", "train.learning_rate"),
        ("seed", "train.seed"),
        ("epochs", "train.epochs"),
        ("max_minutes", "train.max_minutes"),
        ("num_heads", "model.n_heads"),
        ("upper", "data.noise.upper"),
        ("model.lr", "model.lr"),  # another section: refused later
        ("name", "name"),  # of several sections
        ("batch_size", "batch_size"),  # another unit
        ("train.seed", "train.seed"),
    ],
)
def test_a_name_on_the_command_line_is_taken_for_what_it_means(written: str, meant: str) -> None:
    assert resolve(written, NAMES) == meant


def test_changes_of_a_recipe_may_leave_sections_out() -> None:
    changes = parse_run_changes(["lr=0.1", "n_heads=2", "train.ema=0.5", "data.noise.upper=0.1"])
    assert changes == {
        "train": {"learning_rate": 0.1, "ema": 0.5},
        "model": {"n_heads": 2},
        "data": {"noise": {"upper": 0.1}},
    }


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("train.wamup", "did you mean 'train.warmup'?"),
        ("model.max_steps", "did you mean 'train.max_steps'?"),
        ("model.dropuot", "did you mean 'model.dropout'?"),
        ("train.lr", "did you mean 'train.learning_rate'?"),
        ("batch_size", "did you mean 'data.batch_tokens' (in tokens, not in sentences)?"),
        ("trian.seed", "did you mean 'train.seed'?"),
        ("trian", "did you mean 'train'?"),
        ("xyzzy", "list all settings: glassformer settings"),
        ("train.plugh", "list all settings: glassformer settings"),
    ],
)
def test_a_wrong_name_is_answered_with_one_that_is_near_or_with_none(
    written: str, told: str
) -> None:
    assert suggestion(written, NAMES) == told


def test_settings_without_sections_have_aliases_too() -> None:
    with pytest.raises(SettingsError, match="did you mean 'n_heads'"):
        ModelSettings.of(heads=2)
