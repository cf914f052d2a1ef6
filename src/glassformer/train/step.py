"""One update of the weights."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler

from glassformer.data.batch import Batch
from glassformer.errors import TrainingError
from glassformer.train.distributed import ALONE, World, whole
from glassformer.train.loss import smoothed_loss
from glassformer.train.optimizer import set_rate
from glassformer.train.precision import Precision

FULL = Precision()
SMALLEST_SCALE = 1.0  # below it the gradients themselves are too large for fp16


class Objective(nn.Module):
    """A model and its loss as one module: what is compiled, and spread over processes."""

    def __init__(
        self,
        model: Any,
        smoothing: float,
        agreement: float = 0.0,
        compiled: bool = False,
        precision: Precision = FULL,
    ) -> None:
        super().__init__()
        self.model, self.smoothing, self.agreement = model, smoothing, agreement
        self.precision = precision
        self._features = torch.compile(model.features, dynamic=True) if compiled else None

    def forward(self, labels: Tensor, *inputs: Tensor) -> Tensor:
        """The summed loss of a batch, which goes through twice if its answers are to agree."""
        if self.agreement:
            labels, inputs = _twice(labels), tuple(map(_twice, inputs))
        with self.precision.casting(labels.device):
            features = (self._features or self.model.features)(*inputs)
        features = features.to(self.model.output.weight.dtype)  # the loss shortens its own products
        kinds = self.smoothing, self.agreement, self.precision.of_loss
        return smoothed_loss(features, self.model.output, labels, *kinds)[0]


def _twice(batch: Tensor) -> Tensor:
    return torch.cat([batch, batch])


@dataclass(frozen=True)
class Update:
    """Statistics of one update, over all processes."""

    loss: float  # per label
    labels: int
    gradient_norm: float
    rate: float
    skipped: bool = False  # gradients too large for fp16: the scale of the loss fell instead


def train_step(
    objective: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    batches: Sequence[Batch],
    seeds: Iterable[int],
    rate_factor: float,
    clip: float,
    world: World = ALONE,
    scaler: GradScaler | None = None,
) -> Update:
    """Gradients of all the batches of an update, added up, clipped and applied.

    The loss is a sum over all labels of the update, divided by their number: many small batches,
    or many processes, give what one large batch gives. Each batch has the seed of its dropout, so
    that neither the number of processes nor an interruption changes a draw. Python waits
    for the device where the loss selects labels, and once before the weights change.
    """
    (n_labels,) = world.sum(sum(batch.n_labels for batch in batches))
    losses: list[Tensor] = []
    for batch, seed in zip(batches, seeds, strict=False):
        torch.manual_seed(seed)
        loss = objective(batch.labels, *batch.inputs)
        losses.append(loss.detach())
        loss = loss * (world.size / n_labels)  # DDP and FSDP divide by their number
        (loss if scaler is None else scaler.scale(loss)).backward()
    if scaler is not None:
        for optimizer in optimizers:
            scaler.unscale_(optimizer)
    (total,) = world.sum(sum(torch.stack(losses).cpu().tolist()))
    parameters = [p for p in objective.parameters() if p.grad is not None]
    norm = whole(nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))
    rate, length = set_rate(optimizers, rate_factor), float(norm)
    skipped = scaler is not None and _skips(scaler, total, length)
    if not skipped:
        _refuse_nonfinite(objective, total, length)
        nn.utils.clip_grads_with_norm_(parameters, clip, norm)
    for optimizer in optimizers:
        if not skipped:
            _apply(optimizer, scaler)
        optimizer.zero_grad()
    if scaler is not None:
        scaler.update()
    return Update(total / n_labels, int(n_labels), 0.0 if skipped else length, rate, skipped)


def _apply(optimizer: torch.optim.Optimizer, scaler: GradScaler | None) -> None:
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)


def _skips(scaler: GradScaler, loss: float, norm: float) -> bool:
    """Return whether only the scale of the loss made the gradients infinite."""
    return isfinite(loss) and not isfinite(norm) and scaler.get_scale() > SMALLEST_SCALE


def _refuse_nonfinite(objective: nn.Module, loss: float, norm: float) -> None:
    """Before the update, while the weights are still good."""
    if torch.isfinite(torch.tensor([loss, norm])).all():
        return
    named = [(n.rpartition("model.")[2], p) for n, p in objective.named_parameters()]
    bad = [n for n, p in named if not whole(p.detach()).isfinite().all()]
    bad += [n for n, p in named if p.grad is not None and not whole(p.grad).isfinite().all()]
    where = bad[0] if bad else "the loss"
    raise TrainingError(
        f"The loss is {loss}, the gradient's norm {norm}: first in {where}.",
        "An update with them would ruin every weight. None was made; the last weights are kept.",
        "Lower train.learning_rate, lengthen train.warmup, or look at the data, and --resume.",
    )
