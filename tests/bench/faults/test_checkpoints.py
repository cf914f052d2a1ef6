"""A checkpoint that a stranger has changed is refused in one block, or answers; nothing else."""

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from glassformer.bench.faults.checkpoints import (
    ENGINES,
    KINDS,
    MUTATIONS,
    OTHER_MODEL,
    begin,
    holds,
    mutate,
    seal,
    write_originals,
)
from glassformer.checkpoint import MANIFEST, read
from glassformer.checkpoint.format import MAX_BYTES, SETTINGS, WEIGHTS
from glassformer.errors import CheckpointError
from glassformer.pipeline import load

MATRIX = "encoder.layers.0.feed_forward.expand.weight"


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("originals")
    write_originals(root)
    return root


@pytest.fixture
def copied(originals: Path, tmp_path: Path) -> Any:
    def copy(kind: str, name: str = "copy") -> Path:
        return Path(shutil.copytree(originals / kind, tmp_path / name))

    return copy


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return begin(tmp_path_factory.mktemp("campaign"))


@pytest.mark.parametrize("seed", range(60))
def test_a_mutated_checkpoint_is_refused_or_both_engines_answer_alike(
    trial: Any, seed: int
) -> None:
    assert trial(seed).lost == ()


def test_refusals_are_short_and_complete(copied: Any) -> None:
    for seed in range(40):
        folder = copied(sorted(KINDS)[seed % 2], str(seed))
        mutate(folder, seed)
        with suppress(CheckpointError):
            load(folder, engine="torch")
            continue
        with pytest.raises(CheckpointError) as caught:
            load(folder, engine="torch")
        assert caught.value.what and caught.value.why and caught.value.remedy
        assert len(str(caught.value)) < 2000, "characters: a stranger's words are cut short"


def test_an_answer_that_only_one_engine_gives_is_lost() -> None:
    """One matrix read without its scale: it loads, and answers otherwise."""
    original, other = {"sad": 0.4, "glad": 0.6}, {"sad": 0.9, "glad": 0.1}
    changed, unchanged = "type of a tensor", "shape in the header"
    assert changed in OTHER_MODEL and unchanged in MUTATIONS.keys() - OTHER_MODEL
    for name in (changed, unchanged):
        assert holds(name, [None, None], [original] * 2)
        assert holds(name, [original, None], [original] * 2)
        assert not holds(name, [original, other], [original] * 2)
        assert not holds(name, [other, None], [original] * 2)
    assert holds(changed, [other, other], [original] * 2)
    assert not holds(unchanged, [other, other], [original] * 2)


def test_the_same_seed_makes_the_same_change(copied: Any) -> None:
    seeds = [seed for seed in range(40) if mutate(copied("translator", str(seed)), seed)]
    names = {mutate(copied("translator", f"again {seed}"), seed) for seed in seeds}
    assert names <= MUTATIONS.keys() and len(names) > len(MUTATIONS) / 2
    one, other = copied("translator", "one"), copied("translator", "other")
    assert mutate(one, 5) == mutate(other, 5)
    files = [{p.name: p.read_bytes() for p in f.iterdir() if p.is_file()} for f in (one, other)]
    assert files[0] == files[1]


def rewritten(folder: Path, change: Any) -> Path:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)
    seal(folder)
    return folder


def dequantised(tensors: dict[str, Any]) -> None:
    """One matrix in floats: it would be read without its scale."""
    tensors[MATRIX] = tensors[MATRIX].astype(np.float32)


def set_value(name: str, value: float) -> Any:
    def change(tensors: dict[str, Any]) -> None:
        tensors[name].flat[3] = value

    return change


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("kind", "change", "what"),
    [
        ("classifier", dequantised, rf"{MATRIX} is \(32, 16\) of float32"),
        ("classifier", lambda t: t.pop(f"{MATRIX}.scale"), rf"{MATRIX}\.scale is absent"),
        ("classifier", set_value(f"{MATRIX}.scale", 0.0), r"scale holds a scale of 0 or less"),
        ("classifier", set_value(MATRIX, -128), "holds -128"),
        ("translator", set_value(MATRIX, np.nan), "holds NaN or infinity"),
        ("translator", set_value(MATRIX, 3e38), "holds a value beyond 1,000,000"),
        ("translator", lambda t: t.update({MATRIX: t[MATRIX].astype(float) + 1e300}), "infinity"),
    ],
)
def test_weights_that_would_answer_wrongly_are_refused(
    copied: Any, engine: str, kind: str, change: Any, what: str
) -> None:
    with pytest.raises(CheckpointError, match=what):
        load(rewritten(copied(kind), change), engine=engine)


def with_settings(folder: Path, old: str, new: str) -> Path:
    text = (folder / SETTINGS).read_text()
    assert old in text
    (folder / SETTINGS).write_text(text.replace(old, new, 1))
    seal(folder)
    return folder


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("encoder_layers = 1", f"encoder_layers = {10**12}", "ask for 1,000,000,000,001 layers"),
        ("d_ff = 32", f"d_ff = {10**12}", "another model"),
        ("d_model = 16", f"d_model = {10**15}", "another model"),
        ("n_heads = 2", "n_heads = 3", r"is damaged: settings\.toml"),
        ("vocab_size = 60", "vocab_size = 59", "60 subwords, the model 59"),
        ("pad_id = 0", "pad_id = 5", "pad_id is 5"),
        ('directions = "forward"', 'directions = "both"', "no tag <2en>"),
    ],
)
def test_settings_that_the_files_do_not_bear_out_are_refused_before_memory_is_taken(
    copied: Any, engine: str, old: str, new: str, what: str
) -> None:
    with pytest.raises(CheckpointError, match=what):
        load(with_settings(copied("translator"), old, new), engine=engine)


@pytest.mark.parametrize("labels", ['["sad"]', '["sad", "sad"]', '["sad", "glad", "mad"]'])
def test_labels_that_are_not_one_for_each_class_are_refused(copied: Any, labels: str) -> None:
    folder = copied("classifier")
    text = (folder / SETTINGS).read_text()
    start = text.index("labels = [")
    old = text[start : text.index("]", start) + 1]
    with pytest.raises(CheckpointError, match="different labels, the model 2"):
        load(with_settings(folder, old, f"labels = {labels}"))


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../secret", "a/../../b", "x" * 5000, "", "..", "\0", MANIFEST]
)
def test_a_manifest_names_the_files_of_a_checkpoint_and_no_others(copied: Any, name: str) -> None:
    folder = copied("translator")
    text = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(json.dumps(json.loads(text) | {name: "0" * 64}))
    with pytest.raises(CheckpointError, match=r"is damaged: manifest\.json"):
        read(folder)


@pytest.mark.parametrize("file", [MANIFEST, SETTINGS, WEIGHTS, "joint.spm"])
def test_a_link_out_of_the_folder_is_not_followed(copied: Any, file: str) -> None:
    folder = copied("translator")
    (folder / file).rename(folder.with_name("outside"))
    (folder / file).symlink_to(folder.with_name("outside"))
    with pytest.raises(CheckpointError, match="damaged") as caught:
        read(folder)
    assert file in caught.value.what and "link to a file outside" in caught.value.why


@pytest.mark.parametrize("file", [MANIFEST, SETTINGS, "joint.spm"])
def test_a_file_beyond_its_limit_is_not_read(copied: Any, file: str) -> None:
    folder = copied("translator")
    with (folder / file).open("ab") as opened:
        opened.truncate(1 << 40)  # a hole: it takes no space on the disk, but would in memory
    assert MAX_BYTES[file] < 1 << 40
    with pytest.raises(CheckpointError, match="is damaged"):
        read(folder)


def test_a_name_too_long_for_a_file_names_no_model() -> None:
    with pytest.raises(CheckpointError, match="There is no model"):
        load("x" * 5000)
