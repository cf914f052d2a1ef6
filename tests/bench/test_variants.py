"""The variants of an ablation, known and checked before anything is trained."""

from pathlib import Path

import pytest

from glassformer.bench.trials import claim
from glassformer.bench.variants import BASELINE, describe_baseline, factors, trials, variants
from glassformer.config import RunSettings
from glassformer.errors import SettingsError
from train.runs import TINY

TRIED = {"model.dropout": ["0.1", "0.2", "0.3"], "train.optimizer": ["adamw", "muon"]}


def names(*texts: str, grid: bool = False, base: RunSettings = TINY) -> list[str]:
    return [variant.name for variant in variants(base, factors(texts), grid)]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["a.b=1,2,3"], {"a.b": ["1", "2", "3"]}),
        (["a.b=x"], {"a.b": ["x"]}),
        (["a.b=1", "c=x,y", "a.b=2"], {"a.b": ["1", "2"], "c": ["x", "y"]}),
        (["a=['x', 'y'],['z']"], {"a": ["['x', 'y']", "['z']"]}),
        (["a='x,y',z"], {"a": ["'x,y'", "z"]}),
        (["a=b=c,d"], {"a": ["b=c", "d"]}),
    ],
)
def test_values_are_separated_by_commas(texts: list[str], expected: dict[str, list[str]]) -> None:
    assert factors(texts) == expected


@pytest.mark.parametrize("text", ["model.dropout", "model.dropout=", "model.dropout=,"])
def test_a_setting_without_values_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="has no values to try") as caught:
        factors([text])
    assert "--vary model.dropout=0.1,0.2,0.3" in caught.value.remedy


def test_one_setting_is_changed_at_a_time() -> None:
    found = variants(TINY, TRIED, grid=False)
    assert [variant.name for variant in found] == [
        BASELINE,
        "model.dropout=0.2",
        "model.dropout=0.3",
        "train.optimizer=muon",
    ]  # fmt: skip  (0.1 and adamw are the baseline's own)
    assert found[0].settings == TINY
    assert found[1].settings == TINY.replace(model={"dropout": 0.2})
    assert found[3].settings == TINY.replace(train={"optimizer": "muon"})


def test_a_grid_is_every_combination_once() -> None:
    found = variants(TINY, TRIED, grid=True)
    pairs = {(v.settings.model.dropout, v.settings.train.optimizer) for v in found}
    assert len(found) == len(pairs) == 6
    assert found[0].settings == TINY and found[1].name == "model.dropout=0.1,train.optimizer=muon"


def test_the_baseline_is_added_to_a_grid_without_it() -> None:
    assert names("model.dropout=0.2", "model.d_ff=8,32", grid=True) == [
        BASELINE, "model.dropout=0.2,model.d_ff=8", "model.dropout=0.2,model.d_ff=32",
    ]  # fmt: skip


def test_equal_settings_are_tried_once() -> None:
    assert names("model.dropout=0.2,0.20,0.2") == [BASELINE, "model.dropout=0.2"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("model.dropuot=0.2", "Unknown setting 'model.dropuot'"),
        ("model.dropout=0.2,1.5", r"model\.dropout = 1\.5"),
        ("train.optimizer=muon,sgd", r"train\.optimizer = 'sgd'"),
        ("model.n_heads=1,3", "n_heads = 3 does not go with d_model = 8"),
        ("model.kind=classifier", "does not go with data.name = 'copy'"),
        ("train.seed=1,2", r"train\.seed cannot be varied"),
        ("train.max_steps=8,16", r"train\.max_steps cannot be varied"),
        ("train.max_minutes=5", r"train\.max_minutes cannot be varied"),
        ("train.metric=accuracy", r"train\.metric cannot be varied"),
        ("train={max_steps=9}", r"train\.max_steps cannot be varied"),
        ("train.patience=2", r"train\.patience cannot be varied"),
        ("train.validate_every=2", r"train\.validate_every cannot be varied"),
        ("data.valid_examples=3,4", r"data\.valid_examples cannot be varied"),
        ("data.name=reverse", r"data\.name cannot be varied"),
        ("model.vocab_size=50", "cannot be varied with train.metric = 'loss'"),
    ],
)
def test_wrong_names_and_values_are_refused(text: str, what: str) -> None:
    with pytest.raises(SettingsError, match=what):
        names("model.d_ff=8", text)


def test_every_variant_and_seed_has_its_own_folder(tmp_path: Path) -> None:
    base = TINY.replace(train={"seed": 5})
    some = variants(base, {**TRIED, "train.start_from": ["runs/a", "runs_a"]}, grid=False)
    found = trials(some, 3, tmp_path)
    assert [t.settings.train.seed for t in found] == [5] * len(some) + [6] * len(some) + [7] * len(
        some
    )
    assert len({t.folder for t in found}) == len(found) == 3 * len(some)
    assert found[0].folder == tmp_path / "baseline" / "seed-5"
    assert found[1].folder == tmp_path / "model.dropout=0.2" / "seed-5"
    assert all(t.folder.parent.parent == tmp_path for t in found)
    assert found[1].settings.replace(train={"seed": 5}) == some[1].settings
    assert str(found[1]) == "model.dropout=0.2, seed 5"
    assert not list(tmp_path.iterdir())


def test_a_folder_of_other_runs_is_refused_before_training(tmp_path: Path) -> None:
    claim(tmp_path / "model.dropout=0.2" / "seed-1", TINY)
    with pytest.raises(SettingsError, match=r"model\.dropout = 0\.1, now 0\.2"):
        trials(variants(TINY, TRIED, grid=False), 1, tmp_path)


def test_the_baseline_is_described_by_its_own_values() -> None:
    assert describe_baseline(TINY, TRIED) == "baseline: model.dropout=0.1, train.optimizer=adamw"
