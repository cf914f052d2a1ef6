"""State that a run needs to resume to the same bits, and its conversion to a checkpoint and back.

Random numbers are not in it: those of batch i of update s are drawn from (seed, s, i).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler

from glassformer.checkpoint import TrainingState, as_tensors
from glassformer.ngrams import PREFIX
from glassformer.train.distributed import like, whole
from glassformer.train.early_stopping import EarlyStopping

Optimizers = Sequence[torch.optim.Optimizer]


@dataclass
class Position:
    """The position of a run. `batch` counts within `epoch`, over all processes."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    progress: float = 0.0  # share of the run that was done when the epoch began
    seconds: float = 0.0
    labels: int = 0
    final: bool = False  # the final text is being read
    unvalidated: bool = False  # a validation is due, postponed by a signal to stop
    window: dict[str, float] = field(default_factory=dict)  # sums since the log was last written

    @property
    def place(self) -> dict[str, int | bool]:
        """Return the first fields of every log record."""
        return {"step": self.step, "epoch": self.epoch} | ({"final": True} if self.final else {})


class MovingAverage:
    """An exponential average of the weights: average ← decay · average + (1 - decay) · weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Early on the average is short, so that it forgets where the weights started."""
        keep = min(self.decay, (1 + step) / (10 + step))
        for name, parameter in model.named_parameters():
            self.weights[name].lerp_(parameter, 1 - keep)


def capture(
    model: nn.Module,
    optimizers: Optimizers,
    position: Position,
    stopping: EarlyStopping,
    average: MovingAverage | None,
    scaler: GradScaler | None = None,
) -> TrainingState:
    """Tensors under `<what>/<parameter>`. Every process must call: they may be spread over all.

    They are copies on the CPU: a run may be resumed on another device.

    With an average, that is what the checkpoint holds as its weights, and the raw ones go here.
    """
    names = {id(p): name for name, p in model.named_parameters()}
    tensors = {
        f"{key}/{names[id(parameter)]}": on_cpu(value)
        for optimizer in optimizers
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
    }
    if average is not None:
        tensors |= {f"raw/{n}": on_cpu(p.detach()) for n, p in model.named_parameters()}
    values = {"position": asdict(position), "stopping": asdict(stopping)}
    if scaler is not None:
        values["scaler"] = scaler.state_dict()
    return TrainingState(tensors, values)


def on_cpu(tensor: Tensor) -> Tensor:
    """A copy of a tensor, gathered from all processes."""
    return whole(tensor).to("cpu", copy=True)


@torch.no_grad()
def restore(
    saved: TrainingState,
    model: nn.Module,
    optimizers: Optimizers,
    scaler: GradScaler | None = None,
) -> Position:
    """Put a captured state back, on the devices and spread as the parameters are now.

    A run that was not trained in fp16 before begins with the scale that a new run has.
    """
    if scaler is not None and "scaler" in saved.values:
        scaler.load_state_dict(saved.values["scaler"])
    parameters = dict(model.named_parameters())
    owner = {id(p): o for o in optimizers for g in o.param_groups for p in g["params"]}
    for path, tensor in sorted(as_tensors(saved.tensors).items()):  # in one order in every process
        key, _, name = path.partition("/")
        if name.startswith(PREFIX):  # older runs averaged the votes of n-grams, which are constant
            continue
        parameter = parameters[name]
        tensor = tensor.to(parameter.device)
        value: Tensor = like(tensor, parameter) if tensor.dim() else tensor
        if key == "raw":
            parameter.copy_(value)
        else:
            state: dict[str, Any] = owner[id(parameter)].state[parameter]
            state[key] = value
    return Position(**saved.values["position"])
