"""A checkpoint is whole or not at all, says what is wrong with it, and comes back bit for bit."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import glassformer
from glassformer.checkpoint import (
    MANIFEST,
    Checkpoint,
    RunFolder,
    TrainingState,
    adopt_weights,
    average,
    find,
    read,
    set_weights,
    weights_of,
    write,
)
from glassformer.config import ModelSettings, RunSettings
from glassformer.data.tokenizer import Tokenizer
from glassformer.errors import CheckpointError, TrainingError
from glassformer.model.build import build
from glassformer.quantize import dequantise_weights, quantise_weights
from glassformer.train.resume import origin
from train.runs import PAIRS, assert_equal, debris, steps, unexpected

SOURCES = sorted(Path(glassformer.__file__).parent.rglob("*.py"))
TOY = ModelSettings(vocab_size=11, d_model=8, n_heads=2, d_ff=8, encoder_layers=1, decoder_layers=1)
STATE = TrainingState(
    {"exp_avg/w": torch.randn(3), "step/w": torch.tensor(4.0)},
    {"position": {"step": 4, "seconds": 0.1}, "stopping": {"best": None}},
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([source for source, _ in PAIRS], 40)


def some(value: float = 0.0, **parts: object) -> Checkpoint:
    """A small checkpoint whose weights are `value`."""
    return Checkpoint(RunSettings(), {"w": torch.full((3,), value)}, **parts)


def save(folder: Path, *values: int, best: int | None = None, keep: int = 100) -> RunFolder:
    """A run with a checkpoint per value, at that step."""
    run = RunFolder(folder)
    for value in values:
        run.save(some(float(value), training=STATE), value, value == best, keep)
    return run


def flip(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(place * (len(content) - 1))] ^= 0x20
    path.write_bytes(content)


def truncate(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])


# In and out


def test_what_is_written_is_read_bit_for_bit(tmp_path: Path, tokenizer: Tokenizer) -> None:
    settings = RunSettings.of(
        model=TOY.model_dump(), data={"labels": ["a", "b"]}, train={"patience": 2}
    )
    awkward = torch.tensor([float("nan"), -0.0, 1e-45])
    weights = {"w": awkward, "half": torch.ones(2, dtype=torch.float16), "n": torch.tensor([7])}
    write(Checkpoint(settings, weights, {"joint": tokenizer}, STATE), tmp_path / "c")
    back = read(tmp_path / "c", training=True)
    assert back.settings == settings
    assert back.weights["w"].view(np.int32).tolist() == awkward.view(torch.int32).tolist()
    types = {name: str(array.dtype) for name, array in back.weights.items()}
    assert types == {"w": "float32", "half": "float16", "n": "int64"}
    assert back.tokenizers["joint"].fingerprint == tokenizer.fingerprint
    assert back.tokenizers["joint"].encode(["the red fox"]) == tokenizer.encode(["the red fox"])
    assert back.training is not None and back.training.values == STATE.values
    assert_equal(back.training.tensors, STATE.tensors)


def test_the_state_of_a_run_is_read_only_on_request(tmp_path: Path) -> None:
    write(some(training=STATE), tmp_path / "c")
    write(some(), tmp_path / "without")
    assert read(tmp_path / "c").training is None
    assert read(tmp_path / "without", training=True).training is None
    (tmp_path / "c" / "training.safetensors").unlink()  # who only wants the model needs no more
    assert_equal(read(tmp_path / "c").weights, some().weights)


@pytest.mark.parametrize("tied", [True, False])
def test_tied_weights_are_stored_once_and_tied_again(tmp_path: Path, tied: bool) -> None:
    settings = TOY.replace(tie_source_target=tied, tie_target_output=tied)
    model, other = build(settings), build(settings)
    weights = weights_of(model)
    tables = [name for name, tensor in weights.items() if tensor.shape == (11, 8)]
    assert len(tables) == (1 if tied else 3)
    write(Checkpoint(RunSettings(model=settings), weights), tmp_path / "c")
    set_weights(other, read(tmp_path / "c").weights)
    assert_equal(other.state_dict(), model.state_dict())
    assert (other.output.weight is other.encoder.embedding.weight) == tied


def test_buffers_that_are_kept_are_weights_too() -> None:
    model, other = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    model(torch.randn(4, 2))
    assert {"running_mean", "weight"} <= weights_of(model).keys()
    set_weights(other, weights_of(model))
    assert_equal(other.state_dict(), model.state_dict())


@pytest.mark.parametrize(
    ("change", "named", "given", "expected"),
    [
        ({"vocab_size": 12}, "encoder.embedding.weight", "(12, 8)", "(11, 8)"),
        ({"encoder_layers": 2}, "encoder.layers.1.", "", "no such tensor"),
        ({"tie_target_output": False}, "output.weight", "(11, 8)", "no such tensor"),
        ({"feed_forward_bias": False}, "decoder.layers.0.feed_forward", "absent", "(8,)"),
    ],
)
def test_weights_of_another_model_name_the_tensor_and_change_nothing(
    change: dict[str, object], named: str, given: str, expected: str
) -> None:
    model = build(TOY)
    before = {name: tensor.clone() for name, tensor in weights_of(model).items()}
    with pytest.raises(CheckpointError, match="weights are of another model") as caught:
        set_weights(model, weights_of(build(TOY, **change)))
    assert named in caught.value.what and given in caught.value.what
    assert expected in caught.value.why
    assert "settings that lie in its folder" in caught.value.remedy
    assert_equal(weights_of(model), before)


# One that begins with another's


def words(**changes: object) -> nn.Module:
    """Parts that a classifier may begin with."""
    return build(TOY, kind="masked-language-model", **changes)


def frozen(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in weights_of(model).items()}


@pytest.mark.parametrize("kind", ["classifier", "translator", "tagger", "masked-language-model"])
def test_what_two_models_have_in_common_is_adopted_and_the_rest_is_left(kind: str) -> None:
    other, model = words(), build(TOY, kind=kind)
    before, given = frozen(model), frozen(other)
    adopt_weights(model, given)
    after = weights_of(model)
    encoder = {name for name in after if name.startswith("encoder.")}
    assert encoder == {name for name in given if name.startswith("encoder.")}
    assert_equal({n: after[n] for n in encoder}, {n: given[n] for n in encoder})
    rest = after.keys() - encoder
    assert_equal({n: after[n] for n in rest}, {n: before[n] for n in rest})
    assert_equal(given, frozen(other))  # what was given is as it was, and its own
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_an_output_over_other_answers_is_left_even_if_it_has_the_shape() -> None:
    other, model, before = (build(TOY, kind="classifier") for _ in range(3))
    set_weights(before, weights_of(model))
    adopt_weights(model, weights_of(other), same_answers=False)
    assert torch.equal(model.output.weight, before.output.weight)
    assert torch.equal(model.encoder.embedding.weight, other.encoder.embedding.weight)
    adopt_weights(model, weights_of(other))
    assert torch.equal(model.output.weight, other.output.weight)


def test_a_table_that_is_shared_is_adopted_for_all_who_share_it() -> None:
    other, model = words(), build(TOY)
    adopt_weights(model, weights_of(other))
    assert model.decoder.embedding.weight is model.encoder.embedding.weight is model.output.weight
    assert torch.equal(model.output.weight, other.output.weight)


@pytest.mark.parametrize(
    ("change", "named", "there", "here"),
    [
        ({"vocab_size": 12}, "encoder.embedding.weight", "(12, 8)", "(11, 8)"),
        ({"d_ff": 16}, "encoder.layers.0.feed_forward.expand.weight", "(16, 8)", "(8, 8)"),
    ],
)
def test_weights_of_another_shape_are_not_begun_with_and_change_nothing(
    change: dict[str, object], named: str, there: str, here: str
) -> None:
    model = build(TOY, kind="classifier")
    before = frozen(model)
    with pytest.raises(CheckpointError, match="cannot begin with those weights") as caught:
        adopt_weights(model, weights_of(words(**change)))
    assert f"{named} is {there} there" in caught.value.what and here in caught.value.why
    assert "[model] of both recipes" in caught.value.remedy
    assert "train.start_from" in caught.value.remedy
    assert_equal(weights_of(model), before)


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_that_has_nothing_in_common_is_not_begun_with(tied: bool) -> None:
    """But an output, which without its stack says nothing."""
    other = build(TOY, kind="language-model", tie_target_output=tied)
    with pytest.raises(CheckpointError, match=r"encoder\.embedding\.weight is absent there"):
        adopt_weights(words(tie_target_output=tied), weights_of(other))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_an_output_over_other_answers_is_left_where_it_is(n_classes: int) -> None:
    model = build(TOY, kind="classifier", n_classes=n_classes)
    for other in (words(tie_target_output=False), build(TOY, kind="classifier", n_classes=3)):
        before = frozen(model)["output.weight"]
        adopt_weights(model, weights_of(other))
        assert torch.equal(model.output.weight, before)
        assert torch.equal(model.encoder.embedding.weight, other.encoder.embedding.weight)


def test_a_model_that_answers_the_same_goes_on_with_all_of_it() -> None:
    for changes in ({"kind": "classifier"}, {"tie_target_output": False}, {"kind": "tagger"}):
        other, model = build(TOY, **changes), build(TOY, **changes)
        adopt_weights(model, weights_of(other))
        assert_equal(weights_of(model), weights_of(other))


@pytest.mark.parametrize(
    "change",
    [
        {"encoder_layers": 2},
        {"residual": "post-norm"},
        {"norm": "rms-norm"},
        {"positions": "learned"},
    ],
    ids=str,
)
@pytest.mark.parametrize("which", ["there", "here"])
def test_an_encoder_is_adopted_whole_or_not_at_all(change: dict[str, object], which: str) -> None:
    changes = {"there": {}, "here": {}} | {which: change}
    model = build(TOY, kind="classifier", **changes["here"])
    before = frozen(model)
    with pytest.raises(CheckpointError, match="cannot begin with those weights") as caught:
        adopt_weights(model, weights_of(words(**changes["there"])))
    assert "encoder." in caught.value.what and "absent" in str(caught.value)
    assert_equal(weights_of(model), before)


def test_a_run_has_an_origin_if_it_names_one(tmp_path: Path, tokenizer: Tokenizer) -> None:
    run = RunFolder(tmp_path / "words")
    for step in (1, 2):
        content = some(float(step), tokenizers={"joint": tokenizer}, training=STATE)
        run.save(content, step, is_best=step == 1, keep=2)
    assert origin(RunSettings()) is None
    for place, value in {"words": 1.0, "words/latest": 2.0, "words/step-00000002": 2.0}.items():
        found = origin(RunSettings.of(train={"start_from": str(tmp_path / place)}))
        assert found is not None and found.training is None
        assert_equal(found.weights, some(value).weights)
        assert found.tokenizers["joint"].fingerprint == tokenizer.fingerprint


def test_an_origin_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        origin(RunSettings.of(train={"start_from": str(tmp_path / "absent")}))
    assert f"train.start_from = {str(tmp_path / 'absent')!r}" in caught.value.what
    assert f"glassformer train RECIPE.toml --run {tmp_path / 'absent'}" in caught.value.remedy


def test_a_quantised_origin_is_dequantised(tmp_path: Path) -> None:
    model = build(TOY, kind="masked-language-model", vocab_size=20)
    small = quantise_weights(weights_of(model))
    write(Checkpoint(RunSettings(), small), tmp_path / "int8")
    found = origin(RunSettings.of(train={"start_from": str(tmp_path / "int8")}))
    assert found is not None
    assert_equal(found.weights, dequantise_weights(small))


def test_a_bundled_model_is_an_origin_by_its_name() -> None:
    found = origin(RunSettings.of(train={"start_from": "en-fr"}))
    assert found is not None and found.settings.model.kind == "translator"
    assert all(array.dtype == np.float32 for array in found.weights.values())


def test_an_average_is_the_mean_of_the_weights(tmp_path: Path) -> None:
    models = [build(TOY) for _ in range(3)]
    for i, model in enumerate(models):
        write(Checkpoint(RunSettings(model=TOY), weights_of(model)), tmp_path / str(i))
    mean = average([tmp_path / str(i) for i in range(3)])
    for name, tensor in mean.items():
        every = torch.stack([weights_of(model)[name] for model in models])
        assert np.array_equal(tensor, every.double().mean(0).float())
    assert mean.keys() == weights_of(models[0]).keys()


def test_nothing_in_the_package_unpickles() -> None:
    banned = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                assert not {a.name.split(".")[0] for a in node.names} & banned, path
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in banned, path
                assert not (node.module == "torch" and "load" in {a.name for a in node.names}), path
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in {("torch", "load"), ("jit", "load")}, path
            elif isinstance(node, ast.keyword):
                assert node.arg != "allow_pickle", path


# Damage

FILES = ["model.safetensors", "settings.toml", "joint.spm", "training.safetensors", "training.json"]
DAMAGE = {
    "first byte": lambda path: flip(path, 0),
    "middle byte": lambda path: flip(path, 0.5),
    "last byte": lambda path: flip(path, 1),
    "cut short": lambda path: truncate(path, 0.7),
    "emptied": lambda path: truncate(path, 0),
    "removed": Path.unlink,
}


@pytest.fixture
def whole(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    write(some(tokenizers={"joint": tokenizer}, training=STATE), tmp_path / "step-00000007")
    return tmp_path / "step-00000007"


@pytest.mark.parametrize("harm", DAMAGE)
@pytest.mark.parametrize("file", FILES)
def test_damage_to_any_file_is_named(whole: Path, file: str, harm: str) -> None:
    DAMAGE[harm](whole / file)
    with pytest.raises(CheckpointError, match=r"step-00000007 is damaged") as caught:
        read(whole, training=True)
    assert file in caught.value.what
    left = (whole / file).stat().st_size if (whole / file).exists() else 0
    assert f"{left:,} bytes" in caught.value.why
    assert "Use another checkpoint" in caught.value.remedy


@pytest.mark.parametrize("harm", [harm for harm in DAMAGE if harm != "removed"])
def test_damage_to_the_manifest_is_named(whole: Path, harm: str) -> None:
    DAMAGE[harm](whole / MANIFEST)
    with pytest.raises(CheckpointError, match=r"step-00000007 is damaged"):
        read(whole, training=True)


def test_a_manifest_that_is_no_list_of_files_is_damage(whole: Path) -> None:
    for content in ("[]", "null", '{"model.safetensors": 1}', "{}"):
        (whole / MANIFEST).write_text(content)
        with pytest.raises(CheckpointError, match="is damaged"):
            read(whole, training=True)


def test_a_folder_without_a_manifest_is_not_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"elsewhere is not a checkpoint") as caught:
        read(tmp_path / "elsewhere")
    assert MANIFEST in caught.value.why
    assert "folder of a run" in caught.value.remedy


@pytest.mark.parametrize("file", ["model.safetensors", "training.json", MANIFEST])
@pytest.mark.parametrize("harm", ["first byte", "cut short"])
def test_a_damaged_newest_checkpoint_is_skipped_with_a_notice(
    tmp_path: Path, file: str, harm: str
) -> None:
    run, err = save(tmp_path, 1, 2, 3), []
    DAMAGE[harm](tmp_path / "step-00000003" / file)
    assert_equal(run.newest(err.append).weights, some(2.0).weights)
    assert len(err) == 1 and "step-00000003" in err[0] and "Going back" in err[0]
    DAMAGE[harm](tmp_path / "step-00000002" / file)
    assert_equal(run.newest(err.append).weights, some(1.0).weights)


def test_weights_without_their_training_state_are_passed_over_too(tmp_path: Path) -> None:
    run, err = save(tmp_path, 1), []
    write(replace(some(2.0), training=None), tmp_path / "step-00000002")
    assert_equal(run.newest(err.append).weights, some(1.0).weights)
    assert len(err) == 1 and "step-00000002 has weights only" in err[0]


def test_a_run_whose_checkpoints_are_all_damaged_says_that_there_is_none(tmp_path: Path) -> None:
    run, err = save(tmp_path, 1, 2), []
    for folder in run.steps():
        flip(folder / "model.safetensors", 0.5)
    with pytest.raises(CheckpointError, match="holds no checkpoint to go on from") as caught:
        run.newest(err.append)
    assert len(err) == 2
    assert str(tmp_path) in caught.value.what and "without --resume" in caught.value.remedy


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("part", ["weights", "state"])
def test_what_is_not_finite_is_neither_saved_nor_resumed_from(
    tmp_path: Path, part: str, bad: float
) -> None:
    run, err = save(tmp_path, 1, 2), []
    state = replace(STATE, tensors={"exp_avg/w": torch.full((3,), bad)})
    spoilt = some(3.0, training=state) if part == "state" else some(bad, training=STATE)
    with pytest.raises(TrainingError, match=r"Update 3 is not saved: .* is not finite") as caught:
        run.save(spoilt, 3, is_best=True, keep=100)
    assert "goes on from step-00000002" in caught.value.remedy
    assert [path.name for path in run.steps()] == ["step-00000001", "step-00000002"]
    write(spoilt, tmp_path / "step-00000003")  # as older versions did
    assert_equal(run.newest(err.append).weights, some(2.0).weights)
    assert len(err) == 1 and "step-00000003 cannot be resumed" in err[0]
    assert "is not finite. Going back" in err[0]


def test_a_damaged_checkpoint_is_replaced_when_its_step_comes_again(tmp_path: Path) -> None:
    run = save(tmp_path, 1, 2)
    flip(tmp_path / "step-00000002" / "model.safetensors", 0.5)
    save(tmp_path, 2)
    assert_equal(run.newest(unexpected).weights, some(2.0).weights)


def test_a_step_that_is_saved_again_holds_what_was_saved_last(tmp_path: Path) -> None:
    run = save(tmp_path, 1)
    changed = TrainingState(STATE.tensors, {"position": {"unvalidated": False}})
    run.save(some(5.0, training=changed), 1, True, 1)
    back = run.newest(unexpected)
    assert_equal(back.weights, some(5.0).weights)
    assert back.training is not None and back.training.values == changed.values
    assert debris(tmp_path) == []


# A run's folder


def test_latest_and_best_point_at_their_checkpoints(tmp_path: Path) -> None:
    save(tmp_path, 1, 2, 3, best=2)
    assert (tmp_path / "latest").readlink() == Path("step-00000003")  # a folder that can be moved
    assert (tmp_path / "best").readlink() == Path("step-00000002")
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    assert_equal(read(moved / "best").weights, some(2.0).weights)
    assert_equal(read(moved / "latest").weights, some(3.0).weights)


@pytest.mark.parametrize(
    ("best", "keep", "kept"),
    [(None, 1, [6]), (None, 2, [5, 6]), (2, 2, [2, 5, 6]), (6, 2, [5, 6]), (1, 9, [*range(1, 7)])],
)
def test_the_last_few_and_the_best_are_kept(
    tmp_path: Path, best: int | None, keep: int, kept: list[int]
) -> None:
    save(tmp_path, *range(1, 7), best=best, keep=keep)
    assert steps(tmp_path) == kept
    assert debris(tmp_path) == []


def test_a_run_that_went_back_keeps_what_it_then_saves(tmp_path: Path) -> None:
    save(tmp_path, 4, 8)
    flip(tmp_path / "step-00000008" / "model.safetensors", 0.5)
    run = save(tmp_path, 5, keep=1)
    assert (tmp_path / "latest" / MANIFEST).is_file()
    assert_equal(run.newest(lambda notice: None).weights, some(5.0).weights)


def test_what_a_killed_run_left_half_written_is_removed(tmp_path: Path) -> None:
    save(tmp_path, 1)
    (tmp_path / ".partial-step-00000002-4711").mkdir()
    (tmp_path / ".partial-step-00000002-4711" / "model.safetensors").write_bytes(b"half")
    assert steps(tmp_path) == [1]
    save(tmp_path, 3)
    assert debris(tmp_path) == []


def test_what_another_command_is_writing_there_is_left_alone(tmp_path: Path) -> None:
    save(tmp_path, 1)
    averaging = tmp_path / ".partial-averaged-4711"
    averaging.mkdir()
    save(tmp_path, 2)
    assert averaging.is_dir()


def test_a_checkpoint_is_replaced_beside_what_a_killed_one_left(tmp_path: Path) -> None:
    write(some(1.0), tmp_path / "averaged")
    write(some(1.0), tmp_path / ".partial-averaged-old")
    write(some(2.0), tmp_path / "averaged")
    assert_equal(read(tmp_path / "averaged").weights, some(2.0).weights)
    assert [path.name for path in tmp_path.iterdir()] == ["averaged"]


@pytest.mark.parametrize(
    ("best", "count", "expected"),
    [(500, 5, [2000, 2500, 3000]), (1500, 5, [1500, 2000, 2500, 3000]), (500, 2, [2500, 3000])],
)
def test_the_last_are_those_in_a_row(
    tmp_path: Path, best: int, count: int, expected: list[int]
) -> None:
    """A best one of long ago is not one of them; one that stands just before them is."""
    run = save(tmp_path, *range(500, 3500, 500), best=best, keep=3)
    assert len(run.steps()) == 4
    assert [int(path.name[5:]) for path in run.last(count)] == expected


def test_one_that_a_signal_saved_is_in_the_row(tmp_path: Path) -> None:
    run = save(tmp_path, 500, 1000, 1234, 1500, 1700)
    assert run.last(9) == run.steps()
    assert RunFolder(tmp_path / "nothing").last(9) == []


def test_find_takes_a_checkpoint_a_run_its_best_or_else_its_latest(tmp_path: Path) -> None:
    save(tmp_path, 1, 2)
    assert find(tmp_path).resolve().name == "step-00000002"
    save(tmp_path, 3, 4, best=3)
    assert find(tmp_path).resolve().name == "step-00000003"
    assert find(tmp_path / "step-00000001") == tmp_path / "step-00000001"
    (tmp_path / "best").unlink()
    (tmp_path / "latest").unlink()
    assert find(tmp_path).name == "step-00000004"
    assert find(tmp_path / "nothing") == tmp_path / "nothing"


def test_the_manifest_lists_every_other_file(whole: Path) -> None:
    names = {path.name for path in whole.iterdir()}
    assert set(json.loads((whole / MANIFEST).read_text())) == names - {MANIFEST}
    assert names == {*FILES, MANIFEST}


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match="step-1 could not be written") as caught:
        write(some(), tmp_path / "file" / "step-1")
    assert "checkpoints before it are whole" in caught.value.why
    assert "--resume" in caught.value.remedy


def test_quantised_checkpoints_are_not_averaged(tmp_path):
    model = build("tiny", vocab_size=50)
    small = quantise_weights(weights_of(model))
    write(Checkpoint(RunSettings(), small), tmp_path / "int8")
    with pytest.raises(CheckpointError, match="is quantised, and cannot be averaged"):
        average([tmp_path / "int8"])
