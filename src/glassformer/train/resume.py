"""The checkpoint that a run starts from, and checks that its weights fit the run."""

import json
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

from glassformer import pretrained
from glassformer.checkpoint import Checkpoint, find, read
from glassformer.checkpoint.format import is_whole
from glassformer.config import RunSettings
from glassformer.data.prepare import Prepared
from glassformer.errors import CheckpointError, SettingsError
from glassformer.quantize import dequantise_weights
from glassformer.train.distributed import World

UNTOLD = ("n_heads", "positions", "max_distance", "feed_forward")  # by the shapes of weights
UNTOLD_OF_A_RUN = (*UNTOLD, "pooling", "ngrams", "ngram_share")


def origin(settings: RunSettings) -> Checkpoint | None:
    """Read the checkpoint of `train.start_from`, or return None if a run starts afresh.

    It is a run folder, a checkpoint or a bundled model. Weights in eight bits are dequantised.
    """
    place = settings.train.start_from
    if place is None:
        return None
    folder = find(pretrained.folder(place) if place in pretrained.names() else Path(place))
    if not is_whole(folder):
        raise CheckpointError(
            f"train.start_from = {place!r} is not a run.",
            "This run starts with its tokenizer and weights.",
            f"Train that one first: glassformer train RECIPE.toml --run {place}.",
        )
    before = read(folder)
    return replace(before, weights=dequantise_weights(before.weights))


def check_origin(before: Checkpoint, data: Prepared) -> None:
    """Refuse to start from another run with other settings or subwords."""
    place = data.settings.train.start_from
    for name in (*(f"model.{name}" for name in UNTOLD), "data.subwords", "data.fold_case"):
        there, here = (attrgetter(name)(s) for s in (before.settings, data.settings))
        if there != here:
            raise SettingsError(
                f"{name} = {here!r} does not go with train.start_from = {place!r}.",
                f"That run was trained with {there!r}; its weights and subwords mean nothing "
                "without.",
                f"Set {name} = {json.dumps(there)}, or leave train.start_from out.",
            )
    own, known = ({t.fingerprint for t in of.tokenizers.values()} for of in (data, before))
    if not own <= known:
        raise CheckpointError(
            f"The subwords of the data are not those of train.start_from = {place!r}.",
            "Its embeddings would be read with the wrong vocabulary.",
            "Prepare the data with those of that run: prepare(settings, tokenizers=…).",
        )


def check_same_run(saved: Checkpoint, data: Prepared) -> None:
    """Refuse to resume a run with another optimiser, other labels or other subwords."""
    kinds = saved.settings.train.optimizer, data.settings.train.optimizer
    if kinds[0] != kinds[1]:
        raise CheckpointError(
            f"The run was trained by {kinds[0]}, and cannot be resumed with {kinds[1]}.",
            "An optimiser needs its own state.",
            f"Set train.optimizer = {kinds[0]!r}, or start a new run.",
        )
    there, here = (
        {f"model.{name}": getattr(s.model, name) for name in UNTOLD_OF_A_RUN}
        | {"data.labels": s.data.labels}
        for s in (saved.settings, data.settings)
    )
    if changed := [name for name in there if there[name] != here[name]]:
        raise CheckpointError(
            "; ".join(f"{n} = {here[n]!r}, and was {there[n]!r} so far" for n in changed) + ".",
            "The weights of the run fit the old settings only.",
            "Resume with the old settings and labels, or start a new run.",
        )
    before, now = (
        {side: tokenizer.fingerprint for side, tokenizer in tokenizers.items()}
        for tokenizers in (saved.tokenizers, data.tokenizers)
    )
    if before != now:
        raise CheckpointError(
            "The subwords of the data are not those that the run was trained with.",
            "Its weights would be read with the wrong vocabulary: the training text has changed.",
            "Resume with the old text, or start a new run.",
        )


def check_same_place(saved: Checkpoint, world: World) -> None:
    """Refuse to resume if the processes have read different checkpoints."""
    assert saved.training is not None, "runs save their state"
    step = saved.training.values["position"]["step"]
    total, squares = world.sum(step, step**2)
    if (
        world.size * squares != total**2
    ):  # every process computes it, so that none waits for another
        raise CheckpointError(
            f"The processes have read different checkpoints: this one update {step:,}.",
            "Each reads the newest checkpoint in the run's folder, which differs between machines.",
            "Put the run's folder on a file system that all machines share, or copy it to each.",
        )
