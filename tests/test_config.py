"""Settings: frozen, exact about what is wrong with them, and the same after a trip through TOML."""

from string import printable
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from glassformer.config import (
    PRESETS,
    DataSettings,
    ModelSettings,
    NoiseSettings,
    RunSettings,
    SearchSettings,
    TrainSettings,
    parse_changes,
    preset,
)
from glassformer.errors import SettingsError
from glassformer.settings_base import RENAMED

FIELDS = ModelSettings.model_fields
COUNTS = st.integers(1, 2**63 - 1)  # TOML promises 64 bits


def values_of(field: FieldInfo) -> st.SearchStrategy:
    if field.annotation is int:
        return COUNTS
    if field.annotation is float:
        names = ("ge", "gt", "le", "lt")
        bounds = {n: getattr(r, n) for r in field.metadata for n in names if hasattr(r, n)}
        low, high = bounds.get("ge", bounds.get("gt")), bounds.get("le", bounds.get("lt"))
        return st.floats(low, high, exclude_min="gt" in bounds, exclude_max="lt" in bounds)
    if type(None) in get_args(field.annotation):
        return st.none() | COUNTS
    return st.from_type(field.annotation)  # a bool or one of some strings


SETTINGS = st.fixed_dictionaries(
    {}, optional={name: values_of(field) for name, field in FIELDS.items()}
).map(lambda values: ModelSettings(**values))


def refusal(**values: object) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        ModelSettings.of(**values)
    return caught.value


def test_settings_are_frozen_and_can_be_a_key():
    s = ModelSettings()
    with pytest.raises(ValidationError, match="frozen"):
        s.d_model = 64
    assert {s: 1}[ModelSettings()] == 1


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("d_modle", "d_model"),
        ("heads", "n_heads"),
        ("droput", "dropout"),
        ("tie-output", "tie_target_output"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_valid_one(misspelt, meant):
    error = refusal(**{misspelt: 1})
    assert error.what == f"Unknown setting {misspelt!r}"
    assert "ignored" in error.why
    assert f"did you mean {meant!r}?" in error.remedy


@given(name=st.text(printable, max_size=12).filter(lambda name: name not in FIELDS))
@example(name="cls")
@example(name="self")
@example(name="")
@settings(max_examples=20, deadline=None)
def test_no_unknown_name_gets_through(name):
    assert repr(name) in refusal(**{name: 1}).what
    with pytest.raises(SettingsError):
        ModelSettings().replace(**{name: 1})


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("d_model", 0, "greater than or equal to 1"),
        ("n_heads", "many", "valid integer"),
        ("encoder_layers", 2.5, "integer"),
        ("max_positions", None, "valid integer"),
        ("pad_id", -2, "greater than or equal to -1"),
        ("n_kv_heads", 0, "greater than or equal to 1"),
        ("dropout", 1.0, "less than 1"),
        ("dropout", -0.1, "greater than or equal to 0"),
        ("attention_dropout", float("nan"), "less than 1"),
        ("residual", "mid-norm", "'post-norm' or 'pre-norm'"),
        ("tie_source_target", "perhaps", "boolean"),
    ],
)
def test_a_wrong_value_is_named_with_its_setting_and_the_rule(name, value, rule):
    error = refusal(**{name: value})
    assert error.what == f"{name} = {value!r}"
    assert rule in error.why
    assert name in error.remedy


def test_all_errors_are_reported_together_and_each_rule_once():
    error = refusal(d_model=0, n_heads=-2, norm="none", d_ffn=64)
    for part in ("d_model = 0", "n_heads = -2", "norm = 'none'", "Unknown setting 'd_ffn'"):
        assert part in error.what
    assert error.why.count("greater than or equal to 1") == 1
    assert "'layer-norm' or 'rms-norm'" in error.why
    for name in ("d_model", "n_heads", "norm", "'d_ff'"):
        assert name in error.remedy


def test_replace_changes_what_it_is_told_and_nothing_else():
    s = PRESETS["modern"]
    changed = s.replace(d_ff=64)
    differing = {name for name in FIELDS if getattr(s, name) != getattr(changed, name)}
    assert differing == {"d_ff"} and changed.d_ff == 64


def test_replace_validates():
    with pytest.raises(SettingsError, match="d_ff = -1"):
        ModelSettings().replace(d_ff=-1)
    with pytest.raises(SettingsError, match="did you mean 'd_ff'"):
        ModelSettings().replace(d_fff=1)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_the_same_after_a_trip_through_toml(name):
    assert ModelSettings.from_toml(PRESETS[name].to_toml()) == PRESETS[name] == preset(name)


@given(s=SETTINGS)
@settings(max_examples=40, deadline=None)
def test_any_settings_are_the_same_after_a_trip_through_toml(s):
    assert ModelSettings.from_toml(s.to_toml()) == s


def test_a_recipe_of_several_sections_is_the_same_after_a_trip_through_toml():
    recipe = RunSettings(
        model=PRESETS["modern"],
        data=DataSettings(
            name="files", train=("a.en", "a.fr"), labels=("good", "bad"), mask_rate=0.2
        ),
        train=TrainSettings(max_minutes=2.5, patience=None, start_from="runs/words"),
        search=SearchSettings(length_penalty=-0.5),
    )
    assert RunSettings.from_toml(recipe.to_toml()) == recipe
    assert RunSettings.from_toml("[model]\nd_model = 64").model == ModelSettings(d_model=64)


def test_what_is_wrong_inside_a_section_is_named_with_the_section():
    with pytest.raises(SettingsError) as caught:
        RunSettings.of(model={"d_modle": 64}, train={"max_steps": 0}, date={})
    assert "Unknown setting 'model.d_modle'" in caught.value.what
    assert "train.max_steps = 0" in caught.value.what
    assert "did you mean 'model.d_model'?" in caught.value.remedy
    assert "did you mean 'data'?" in caught.value.remedy


def test_a_length_penalty_that_no_search_takes_is_refused_before_training():
    with pytest.raises(SettingsError, match=r"search\.length_penalty = 1000"):
        RunSettings.from_toml("[search]\nlength_penalty = 1000")


def test_toml_leaves_the_defaults_to_what_it_does_not_say():
    assert ModelSettings.from_toml("") == ModelSettings()
    assert ModelSettings.from_toml("d_model = 64 # wide") == ModelSettings(d_model=64)


def test_broken_toml_names_the_line_and_the_form():
    with pytest.raises(SettingsError, match=r"not TOML.*line 2") as caught:
        ModelSettings.from_toml("d_model = 64\nn_heads: 4\n")
    assert "`name = value`" in caught.value.why
    assert "Correct that line" in caught.value.remedy


def test_toml_with_wrong_settings_is_refused_like_any_other():
    with pytest.raises(SettingsError, match="d_model = 0"):
        ModelSettings.from_toml("d_model = 0")
    with pytest.raises(SettingsError, match="Unknown setting 'model'"):
        ModelSettings.from_toml("[model]\nd_model = 64")


def test_a_preset_takes_changes_and_validates_them():
    assert preset("tiny", n_kv_heads=1) == PRESETS["tiny"].replace(n_kv_heads=1)
    with pytest.raises(SettingsError, match="dropout = 2"):
        preset("tiny", dropout=2)


@pytest.mark.parametrize(
    ("misspelt", "meant"), [("tinny", "tiny"), ("vaswani-base", "vaswani2017-base"), ("", None)]
)
def test_an_unknown_preset_is_refused_with_the_nearest_and_all_of_them(misspelt, meant):
    with pytest.raises(SettingsError) as caught:
        preset(misspelt)
    assert caught.value.what == f"Unknown preset {misspelt!r}."
    assert all(name in caught.value.why for name in PRESETS)
    assert meant is None or caught.value.remedy == f"Did you mean {meant!r}?"


def test_changes_of_a_command_line_are_the_settings_they_spell():
    changes = parse_changes(
        ["n_heads=8", "dropout=0.2", "tie_target_output=false", "norm=rms-norm"]
    )
    same = ModelSettings(n_heads=8, dropout=0.2, tie_target_output=False, norm="rms-norm")
    assert ModelSettings.of(**changes) == same
    assert parse_changes(["note=a=b"]) == {"note": "a=b"}


def test_a_change_without_an_equals_sign_is_refused_with_the_form():
    with pytest.raises(SettingsError, match="'n_heads' is not a change") as caught:
        parse_changes(["d_model=8", "n_heads", "8"])
    assert "name=value" in caught.value.why
    assert "n_heads=8" in caught.value.remedy


def test_a_mixture_is_the_same_after_a_trip_through_toml():
    sources = [
        {"name": "a", "set": "multi30k", "weight": 2},
        {"name": "b", "files": ["x"], "weight": 1},
    ]
    data = {"name": "mixture", "sources": sources, "noise": {"lower": 0.1}}
    settings = RunSettings.of(data=data)
    assert RunSettings.from_toml(settings.to_toml()) == settings


def test_a_change_deep_in_a_section_leaves_the_rest_of_it_alone():
    settings = RunSettings.of(data={"noise": {"lower": 0.1, "upper": 0.2}})
    changed = settings.replace(**parse_changes(["data.noise.upper=0.3"]))
    assert changed.data.noise == NoiseSettings(lower=0.1, upper=0.3)


@pytest.mark.parametrize("place", [{}, {"set": "multi30k", "files": ["a.en", "a.fr"]}])
def test_a_source_is_either_a_set_or_files(place):
    with pytest.raises(SettingsError, match=r"data\.sources\.0") as caught:
        RunSettings.of(data={"sources": [{"name": "a", "weight": 1} | place]})
    assert "named `set` or a list of `files`" in caught.value.why


def test_a_misspelt_setting_of_a_source_is_answered_with_the_nearest():
    with pytest.raises(SettingsError, match="wieght") as caught:
        RunSettings.of(data={"sources": [{"name": "a", "set": "b", "weight": 1, "wieght": 2}]})
    assert "'data.sources.0.weight'" in caught.value.remedy


OLD_SETTINGS = """
[model]
kind = "classifier"
ngram_places = 300
[data]
hidden = 0.2
[train]
agreement = 5.0
"""
NEW_SETTINGS = RunSettings.of(
    model={"kind": "classifier", "ngram_buckets": 300},
    data={"mask_rate": 0.2},
    train={"r_drop": 5.0},
)


def test_old_setting_names_load_and_are_saved_under_the_new_names():
    loaded = RunSettings.from_toml(OLD_SETTINGS)
    assert loaded == NEW_SETTINGS
    assert not [name for name in RENAMED if f"{name} =" in loaded.to_toml()]


def test_old_setting_names_work_on_the_command_line():
    changes = ["data.hidden=0.2", "train.agreement=5.0", "model.ngram_places=300"]
    base = RunSettings.of(model={"kind": "classifier"})
    assert base.replace(**parse_changes(changes)) == NEW_SETTINGS
    assert DataSettings(**{"hidden": 0.2}) == DataSettings(mask_rate=0.2)


def test_an_old_name_beside_its_new_name_is_refused():
    with pytest.raises(SettingsError, match=r"Unknown setting 'data\.hidden'"):
        RunSettings.of(data={"hidden": 0.2, "mask_rate": 0.3})


def test_an_error_in_an_old_name_shows_the_new_name():
    with pytest.raises(SettingsError, match=r"data\.mask_rate = 2"):
        RunSettings.of(data={"hidden": 2})


def test_a_seed_has_64_bits_at_most():
    assert TrainSettings.of(seed=2**64 - 1).seed == 2**64 - 1
    for seed in (-1, 2**64, 2**70):
        with pytest.raises(SettingsError, match=f"seed = {seed}") as caught:
            TrainSettings.of(seed=seed)
        assert "18446744073709551616" in caught.value.why or seed == -1


@pytest.mark.parametrize(
    "text",
    [
        f"[train]\nseed = {'9' * 5_000}",  # more digits than Python reads or prints
        f"[train]\nseed = 0x{'f' * 5_000}",
        f"[train]\nseed = {'[' * 500}{']' * 500}",
        f"[train]\nseed = {'[' * 9_000}{']' * 9_000}",
        f"[train]\nseed = '{'x' * 9_000}'",
        f"[{'.'.join('a' * 3_000)}]\nb = 1",
        f"[train.seed.{'.'.join('a' * 3_000)}]\nb = 1",
    ],
    ids=["decimal", "hex", "lists", "deep lists", "text", "tables", "deep value"],
)
def test_values_that_are_too_long_or_too_deep_are_one_short_error(text):
    with pytest.raises(SettingsError) as caught:
        RunSettings.from_toml(text)
    assert len(str(caught.value)) < 600


def test_changes_that_are_too_long_or_too_deep_are_one_short_error():
    for value in ("9" * 5_000, "[" * 3_000, "{a=" * 3_000):
        with pytest.raises(SettingsError) as caught:
            RunSettings().replace(**parse_changes([f"train.seed={value}"]))
        assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "change",
    ["\udfff=1", "model.\udfff=1", "x" * 10_000 + "=1", "y" * 10_000],
    ids=["not Unicode", "not Unicode, in a section", "long", "long, without a value"],
)
def test_names_that_are_long_or_not_unicode_are_one_short_error(change):
    with pytest.raises(SettingsError) as caught:
        RunSettings().replace(**parse_changes([change]))
    assert len(str(caught.value)) < 1_000
    str(caught.value).encode()  # it can be printed
