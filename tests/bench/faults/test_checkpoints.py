"""A checkpoint that a stranger has changed is refused in one block, or answers; nothing else."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from glassformer import checkpoint
from glassformer.bench.faults.checkpoints import MUTATIONS, mutate, seal
from glassformer.checkpoint import MANIFEST, Checkpoint, as_arrays, read, weights_of
from glassformer.checkpoint.format import MAX_BYTES, SETTINGS, WEIGHTS
from glassformer.config import RunSettings
from glassformer.data.tokenizer import Tokenizer
from glassformer.errors import CheckpointError
from glassformer.model.build import build
from glassformer.pipeline import Classifier, load
from glassformer.quantize import quantise_weights

TEXTS = ["a dog", "the old cat sees a dog", "two children want some tea", "un vieux chat voit"]
TOKENIZER = Tokenizer.train(TEXTS * 5, 60)
ENGINES = ["compiled", "torch"]
KINDS: dict[str, dict[str, Any]] = {
    "translator": {"tie_target_output": False},
    "classifier": {"ngrams": 2, "ngram_places": 50},
}
MATRIX = "encoder.layers.0.feed_forward.expand.weight"


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator in fp32 and a quantised classifier with n-grams."""
    root = tmp_path_factory.mktemp("originals")
    for kind, changes in KINDS.items():
        settings = RunSettings.of(
            model={
                "kind": kind, "vocab_size": len(TOKENIZER), "d_model": 16, "n_heads": 2,
                "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1, **changes,
            },
            data={"max_length": 30, "labels": ("sad", "glad") if kind == "classifier" else ()},
        )  # fmt: skip
        torch.manual_seed(0)
        weights: Any = as_arrays(weights_of(build(settings.model)))
        if kind == "classifier":
            weights = quantise_weights(weights)
        checkpoint.write(Checkpoint(settings, weights, {"joint": TOKENIZER}), root / kind)
    return root


@pytest.fixture
def copied(originals: Path, tmp_path: Path) -> Any:
    def copy(kind: str, name: str = "copy") -> Path:
        return Path(shutil.copytree(originals / kind, tmp_path / name))

    return copy


def answer(folder: Path, engine: Any) -> Any:
    model = load(folder, engine=engine, threads=1)
    if isinstance(model, Classifier):
        return model.classify("a dog").probability
    return model.translate("a dog", max_length=5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(60))
def test_a_mutated_checkpoint_is_refused_or_answers(copied: Any, engine: str, seed: int) -> None:
    folder = copied(sorted(KINDS)[seed % 2])
    mutate(folder, seed)
    try:
        err = answer(folder, engine)
    except CheckpointError as error:
        assert error.what and error.why and error.remedy
        assert len(str(error)) < 2000, "characters: a stranger's words are cut short"
    else:
        assert isinstance(err, str) or 0 <= err <= 1


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
