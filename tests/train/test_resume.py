"""A run that was interrupted, wherever it was, ends with the bits of one that was not."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from jaxtyping import config as jaxtyping

from glassformer.data.prepare import Prepared, prepare
from glassformer.errors import CheckpointError
from glassformer.train.distributed import ALONE, World
from glassformer.train.loop import train
from glassformer.train.resume import check_same_place
from glassformer.train.start import start
from train.runs import (
    TINY,
    assert_same_bits,
    curve,
    ending_with_others,
    latest,
    steps,
    text,
    tiny,
    trained,
    unexpected,
)

STEPS = 10  # six updates an epoch, a validation after every fourth and at the end
STOPS = {
    "in the middle of an epoch": 2,
    "just before a validation": 3,
    "at a validation": 4,
    "just after a validation": 5,
    "at the end of an epoch": 6,
    "just after the end of an epoch": 7,
    "at the last update": STEPS,
}
FEATURES: dict[str, dict[str, Any]] = {
    "dropout": {"model": {"dropout": 0.3, "attention_dropout": 0.1}},
    "accumulation": {"train": {"accumulate": 2}, "data": {"examples": 130}},
    "averaging": {"train": {"ema": 0.7}},
    "early stopping": {"train": {"metric": "accuracy", "patience": 2}},
    "muon": {"train": {"optimizer": "muon"}},
    "cosine": {"train": {"schedule": "cosine"}},
    "rare records": {"train": {"log_every": 3}},
    "activation checkpointing": {"model": {"activation_checkpointing": True, "dropout": 0.3}},
    "tensorboard": {"train": {"tensorboard": True, "attention_entropy": True}},
}


def together(*features: str) -> dict[str, dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}
    for feature in features:
        for section, settings in FEATURES[feature].items():
            merged[section] = merged.get(section, {}) | settings
    merged["train"] = {"max_steps": STEPS} | merged.get("train", {})
    return merged


EVERYTHING = together("dropout", "accumulation", "averaging", "early stopping", "muon")
Whole = Callable[[Prepared], Path]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The uninterrupted run of some settings, carried out once."""
    done: dict[str, Path] = {}

    def carried_out(data: Prepared) -> Path:
        key = data.settings.to_toml()
        if key not in done:
            done[key] = tmp_path_factory.mktemp("whole")
            trained(data, done[key])
        return done[key]

    return carried_out


def interrupted(data: Prepared, folder: Path, *stops: int) -> Path:
    for i, stop in enumerate(stops):
        _, reason = trained(data, folder, stop=stop, resume=i > 0)
        assert reason.startswith("signal") and steps(folder)[-1] == stop
    trained(data, folder, resume=True)
    return folder


class CrashError(Exception):
    pass


def crashed(data: Prepared, folder: Path, step: int, resume: bool = False) -> None:
    """A run that ends in the middle of something, without a word or a checkpoint."""

    def crash(record: dict[str, Any]) -> None:
        if record["step"] == step:
            raise CrashError

    with pytest.raises(CrashError):
        train(start(data, folder, ALONE, resume, unexpected), report=crash)


@pytest.mark.parametrize("settings", [together(), EVERYTHING], ids=["plain", "everything"])
@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
def test_wherever_it_stops_it_goes_on_to_the_same_bits(
    tmp_path: Path, whole: Whole, stop: int, settings: dict[str, Any]
) -> None:
    data = tiny(**settings)
    assert_same_bits(interrupted(data, tmp_path, stop), whole(data))


@pytest.mark.parametrize("stop", [4, 7])
@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_goes_on_to_the_same_bits(
    tmp_path: Path, whole: Whole, feature: str, stop: int
) -> None:
    data = tiny(**together(feature))
    assert_same_bits(interrupted(data, tmp_path, stop), whole(data))


def test_it_may_be_interrupted_after_every_update(tmp_path: Path, whole: Whole) -> None:
    data = tiny(**EVERYTHING)
    assert_same_bits(interrupted(data, tmp_path, *range(1, STEPS + 1)), whole(data))


@pytest.mark.parametrize("stop", [5, 6, 7, 9])
def test_it_goes_on_to_the_same_bits_before_and_in_its_final_text(
    tmp_path: Path, whole: Whole, stop: int
) -> None:
    data = ending_with_others(tiny(**EVERYTHING), share=0.4)
    place = whole(data)
    state = latest(place).training
    assert state is not None and state.values["position"]["final"]
    assert_same_bits(interrupted(data, tmp_path, stop), place)


@pytest.mark.parametrize("step", [5, 6, 8])
def test_a_crash_goes_on_from_the_last_checkpoint(tmp_path: Path, whole: Whole, step: int) -> None:
    data = tiny(**EVERYTHING)
    crashed(data, tmp_path, step)
    assert steps(tmp_path)[-1] == 4
    trained(data, tmp_path, resume=True)
    assert_same_bits(tmp_path, whole(data))


def test_a_crash_after_a_validation_that_was_put_off_repeats_nothing(
    tmp_path: Path, whole: Whole
) -> None:
    data = tiny(**EVERYTHING)
    trained(data, tmp_path, stop=4)
    crashed(data, tmp_path, 5, resume=True)
    trained(data, tmp_path, resume=True)
    assert_same_bits(tmp_path, whole(data))


@pytest.mark.parametrize("stop", [3, 6])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subwords_drawn_anew_are_the_same_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Whole, kind: str, stop: int
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    drawn = {"subwords": kind, "subword_sampling": 0.3, "batch_tokens": 96}
    settings = text(tmp_path, data=drawn, train={"max_steps": STEPS})
    data = prepare(settings, threads=1)
    uninterrupted = whole(data)
    assert_same_bits(interrupted(data, tmp_path / "run", stop), uninterrupted)


@pytest.mark.parametrize("stop", [3, 5, 6, 8])
def test_a_mixture_goes_on_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Whole, stop: int
) -> None:
    """With sources that come and go, both directions and noise."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = text(tmp_path)
    files = {"name": "early", "files": settings.data.train}
    mixture = {
        "name": "mixture",
        "train": (),
        "valid": (),
        "sources": [
            files | {"weight": 1, "end": 0.5},
            files | {"name": "late", "weight": 2, "begin": 0.2},
        ],
        "valid_sets": [{"name": "valid", "files": settings.data.valid}],
        "epoch_tokens": 150,
        "batch_tokens": 128,
        "directions": "both",
        "byte_fallback": True,
        "normalization": "identity",
        "noise": {"lower": 0.2, "joined": 0.2, "copied": 0.3},
    }
    changes = {"model": {"vocab_size": 420}, "data": mixture, "train": {"max_steps": STEPS}}
    data = prepare(settings.replace(**changes), threads=1)
    uninterrupted = whole(data)
    state = latest(uninterrupted).training
    assert state is not None and state.values["position"]["epoch"] > 1
    assert_same_bits(interrupted(data, tmp_path / "run", stop), uninterrupted)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No compiler sees through checks of shapes; where there is no C++, code is only traced."""
    monkeypatch.setattr(jaxtyping, "jaxtyping_disable", True)
    if not (shutil.which("g++") or shutil.which("clang++")):
        monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("compiler")
def test_compiled_code_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    data = tiny(
        model={"kind": "tagger", "dropout": 0.2},
        train={"compile": True, "max_steps": 5, "validate_every": 5},
    )
    trained(data, tmp_path / "whole")
    assert_same_bits(interrupted(data, tmp_path / "parts", 3), tmp_path / "whole")


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("compiled", [False, True])
def test_products_in_bf16_go_on_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    # oneDNN's bf16 uses instructions that some virtual machines announce and then forbid
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    train = {"precision": "bf16", "optimizer": "muon", "max_steps": 5, "compile": compiled}
    model = {"kind": "tagger", "dropout": 0.2}
    data = tiny(model=model, train=train)
    trained(data, tmp_path / "whole")
    assert_same_bits(interrupted(data, tmp_path / "parts", 3), tmp_path / "whole")
    trained(tiny(model=model, train=train | {"precision": "fp32"}), tmp_path / "fp32")
    assert curve(tmp_path / "fp32") != curve(tmp_path / "whole")
    assert curve(tmp_path / "fp32") == pytest.approx(curve(tmp_path / "whole"), rel=0.02)


# Resumed with other settings


def test_more_updates_can_be_asked_for(tmp_path: Path) -> None:
    trained(tiny(train={"max_steps": 4}), tmp_path / "less")
    trained(tiny(train={"max_steps": 7}), tmp_path / "more")
    run, reason = trained(tiny(train={"max_steps": 7}), tmp_path / "less", resume=True)
    assert reason == "7 updates" and run.position.step == 7
    assert_same_bits(tmp_path / "less", tmp_path / "more")


def test_more_patience_can_be_asked_for(tmp_path: Path) -> None:
    def worse(model: torch.nn.Module) -> dict[str, float]:
        return {"bleu": 0.0}

    def settings(patience: int) -> Prepared:
        return tiny(train={"metric": "bleu", "patience": patience, "validate_every": 1,
                           "max_steps": 20})  # fmt: skip

    trained(settings(1), tmp_path, evaluate=worse)
    run, reason = trained(settings(3), tmp_path, resume=True, evaluate=worse)
    assert reason == "no better bleu in 3 validations"
    assert run.position.step == 4


def test_another_metric_starts_its_own_comparison(tmp_path: Path) -> None:
    """A loss of 2 is no accuracy to beat."""
    trained(tiny(train={"max_steps": 4}), tmp_path)
    trained(tiny(train={"metric": "accuracy", "max_steps": 8}), tmp_path, resume=True)
    state = latest(tmp_path).training
    assert state is not None and state.values["stopping"]["metric"] == "accuracy"
    assert (tmp_path / "best").resolve().name == "step-00000008"


def test_a_model_of_another_shape_is_refused(tmp_path: Path) -> None:
    trained(tiny(train={"max_steps": 2}), tmp_path)
    with pytest.raises(CheckpointError, match="of another model"):
        trained(tiny(model={"d_ff": 24}), tmp_path, resume=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"n_heads": 2}, {"n_heads": 4}),
        ({"positions": "rope"}, {"positions": "alibi"}),
        ({"positions": "relative-bucketed"}, {"max_distance": 64}),
        ({"feed_forward": "relu"}, {"feed_forward": "gelu"}),
        ({"pooling": "mean"}, {"pooling": "max"}),
    ],
    ids=str,
)
def test_weights_that_would_mean_something_else_are_refused(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """No shape would tell."""
    trained(tiny(model=before, train={"max_steps": 2}), tmp_path)
    ((name, value),) = after.items()
    with pytest.raises(CheckpointError) as caught:
        trained(tiny(model={**before, **after}), tmp_path, resume=True)
    assert caught.value.what.startswith(f"model.{name} = {value!r}, and was ")
    assert "start a new run" in caught.value.remedy


def test_other_labels_of_the_same_number_are_refused(tmp_path: Path) -> None:
    settings = TINY.replace(data={"labels": ["bad", "good"]}, train={"max_steps": 2})
    trained(prepare(settings), tmp_path)
    with pytest.raises(CheckpointError, match=r"data\.labels = \('good', 'bad'\), and was"):
        other = settings.replace(data={"labels": ["good", "bad"]})
        trained(prepare(other), tmp_path, resume=True)


@pytest.mark.parametrize(("step", "goes_on"), [(2, True), (1, False), (4, False)])
def test_processes_that_have_read_other_checkpoints_do_not_go_on(
    tmp_path: Path, step: int, goes_on: bool
) -> None:
    """The other one of two has read `step`; each must find out, or one would wait for ever."""

    class Two(World):
        def sum(self, *values: float) -> list[float]:
            return [mine + other for mine, other in zip(values, (step, step**2), strict=True)]

    trained(tiny(train={"max_steps": 2}), tmp_path)
    for rank in (0, 1):
        with (
            nullcontext() if goes_on else pytest.raises(CheckpointError, match="this one update 2")
        ):
            check_same_place(latest(tmp_path), Two(rank, 2))


@pytest.mark.parametrize(("before", "after"), [("adamw", "muon"), ("muon", "adamw")])
def test_another_optimiser_is_refused(tmp_path: Path, before: str, after: str) -> None:
    """The state of one means nothing to the other."""
    trained(tiny(train={"optimizer": before, "max_steps": 2}), tmp_path)
    with pytest.raises(CheckpointError, match=r"train\.optimizer") as caught:
        trained(tiny(train={"optimizer": after}), tmp_path, resume=True)
    assert before in str(caught.value) and after in str(caught.value)


def test_a_run_never_meets_another_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = text(tmp_path, train={"max_steps": 2})
    data = prepare(settings, threads=1)
    trained(data, tmp_path / "run")
    for side in (0, 1):  # the same letters and lengths, other words: a vocabulary of the same size
        path = Path(settings.data.train[side])
        swapped = path.read_text().translate(str.maketrans("aeou", "eoua"))
        path.write_text(swapped)
    other = prepare(settings, threads=1)
    assert other.settings.model == data.settings.model  # no shape will tell
    assert other.tokenizers["joint"].fingerprint != data.tokenizers["joint"].fingerprint
    with pytest.raises(CheckpointError, match="vocabulary"):
        trained(other, tmp_path / "run", resume=True)
