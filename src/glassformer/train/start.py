"""Start a run, from scratch or from other weights, or resume it from its newest checkpoint."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from glassformer.checkpoint import Checkpoint, RunFolder, adopt_weights, set_weights
from glassformer.config import RunSettings, TrainSettings
from glassformer.data.batch import Examples
from glassformer.data.prepare import Prepared, prepare
from glassformer.errors import SettingsError
from glassformer.model.build import build
from glassformer.ngrams import NgramVotes, without_votes
from glassformer.train.distributed import World, spread
from glassformer.train.early_stopping import EarlyStopping
from glassformer.train.optimizer import build_optimizers
from glassformer.train.precision import Precision, precision_on, shorten_products
from glassformer.train.resume import check_origin, check_same_place, check_same_run, origin
from glassformer.train.rotary import use_complex_rotary
from glassformer.train.run import Run
from glassformer.train.state import MovingAverage, restore
from glassformer.train.step import Objective
from glassformer.train.votes import fit_votes


def prepared(settings: RunSettings, folder: Path | None = None) -> Prepared:
    """Prepare the data of a run, with the tokenizers of `train.start_from` if it has one.

    A resumed run in `folder` keeps its own tokenizers, also on other text.
    """
    before = origin(settings) if folder is None else RunFolder(folder).newest(lambda notice: None)
    return prepare(settings, settings.train.threads, before.tokenizers if before else None)


def start(
    data: Prepared, folder: Path, world: World, resume: bool, notice: Callable[[str], None]
) -> Run:
    """Return a run at its beginning, or at its newest whole checkpoint."""
    settings, s = data.settings, data.settings.train
    precision = precision_on(world.device, s.precision)
    check_spreading(s, precision)
    torch.set_num_threads(s.threads)
    torch.manual_seed(s.seed)
    model, place = build(settings.model), RunFolder(folder)
    saved = place.newest(notice) if resume else None
    load_weights(model, saved, data, world)
    model.to(world.device)
    if precision.products is not None:
        shorten_products(model, precision.products)
    if world.device.type == "cpu" and not s.compile:
        use_complex_rotary(model)
    own = Objective(model, s.label_smoothing, s.r_drop, s.compile, precision)
    objective = spread(own, world, s.fully_shard)
    rates, betas = (s.learning_rate, s.muon_rate), (s.beta1, s.beta2)
    optimizers = build_optimizers(
        model, s.optimizer, *rates, s.weight_decay, betas, precision.short
    )
    run = Run(
        settings, data, place, world, model, objective, optimizers,
        stopping=EarlyStopping(s.metric, s.patience),
        average=MovingAverage(model, s.ema) if s.ema else None,
        precision=precision,
        scaler=precision.scaler(world.device),
        votes=votes_of(saved, data, notice) if settings.model.ngrams else None,
    )  # fmt: skip
    if saved is not None and saved.training is not None:
        run.position = restore(saved.training, model, optimizers, run.scaler)
        run.stopping.restore(**saved.training.values["stopping"])
    return run


def load_weights(model: nn.Module, saved: Checkpoint | None, data: Prepared, world: World) -> None:
    """Load the weights of a resumed run, or those of `train.start_from` if it is set."""
    if saved is not None:
        check_same_place(saved, world)
        check_same_run(saved, data)
        set_weights(model, without_votes(saved.weights))
    elif before := origin(data.settings):
        check_origin(before, data)
        same_answers = before.settings.data.labels == data.settings.data.labels
        adopt_weights(model, before.weights, same_answers)


def check_spreading(s: TrainSettings, precision: Precision) -> None:
    """Refuse settings that do not work while each process holds a share of the weights."""
    scaled = precision.autocast is torch.float16
    if not s.fully_shard or not (scaled or s.optimizer == "muon"):
        return
    if scaled:
        name, why = "train.precision = 'fp16'", "Each process would scale its loss by another rule."
        remedy = "Set train.precision = 'bf16'"
    else:
        name = "train.optimizer = 'muon'"
        why = "Muon orthogonalises whole matrices, which no process then holds."
        remedy = "Set train.optimizer = 'adamw'"
    raise SettingsError(
        f"train.fully_shard = true does not go with {name}.",
        why,
        f"{remedy}, or leave train.fully_shard out.",
    )


def votes_of(saved: Checkpoint | None, data: Prepared, notice: Callable[[str], None]) -> NgramVotes:
    """Return the n-gram votes of a classifier: as saved, or fitted to the training text."""
    settings = data.settings.model
    if saved is not None:
        return NgramVotes.of(settings, saved.weights)
    notice(f"votes of n-grams of up to {settings.ngrams} words are being counted")
    assert isinstance(data.train, Examples), "a mixture is not for classifiers"
    return fit_votes(settings, data.train, data.tokenizers.get("joint"))
