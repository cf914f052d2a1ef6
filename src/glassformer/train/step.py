"""One update of the weights."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.data.batch import Batch
from glassformer.errors import TrainingError
from glassformer.train.distributed import ALONE, World, whole
from glassformer.train.loss import smoothed_loss
from glassformer.train.optimizer import set_rate


class Objective(nn.Module):
    """A model and its loss as one module: what is compiled, and spread over processes."""

    def __init__(
        self, model: Any, smoothing: float, agreement: float = 0.0, compiled: bool = False
    ) -> None:
        super().__init__()
        self.model, self.smoothing, self.agreement = model, smoothing, agreement
        self._features = torch.compile(model.features, dynamic=True) if compiled else None

    def forward(self, labels: Tensor, *inputs: Tensor) -> Tensor:
        """The summed loss of a batch, which goes through twice if its answers are to agree."""
        if self.agreement:
            labels, inputs = _twice(labels), tuple(map(_twice, inputs))
        features = (self._features or self.model.features)(*inputs)
        return smoothed_loss(features, self.model.output, labels, self.smoothing, self.agreement)[0]


def _twice(batch: Tensor) -> Tensor:
    return torch.cat([batch, batch])


@dataclass(frozen=True)
class Update:
    """Statistics of one update, over all processes."""

    loss: float  # per label
    labels: int
    gradient_norm: float
    rate: float


def train_step(
    objective: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    batches: Sequence[Batch],
    seeds: Iterable[int],
    rate_factor: float,
    clip: float,
    world: World = ALONE,
) -> Update:
    """Gradients of all the batches of an update, added up, clipped and applied.

    The loss is a sum over all labels of the update, divided by their number: many small batches,
    or many processes, give what one large batch gives. Each batch has the seed of its dropout, so
    that neither the number of processes nor an interruption changes a draw.
    """
    (n_labels,) = world.sum(sum(batch.n_labels for batch in batches))
    total = 0.0
    for batch, seed in zip(batches, seeds, strict=False):
        torch.manual_seed(seed)
        loss = objective(batch.labels, *batch.inputs)
        total += loss.item()
        (loss * (world.size / n_labels)).backward()  # DDP and FSDP divide by their number
    (total,) = world.sum(total)
    parameters = [p for p in objective.parameters() if p.grad is not None]
    norm = whole(nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))
    _refuse_nonfinite(objective, total, float(norm))
    nn.utils.clip_grads_with_norm_(parameters, clip, norm)
    rate = set_rate(optimizers, rate_factor)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    return Update(total / n_labels, int(n_labels), float(norm), rate)


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
