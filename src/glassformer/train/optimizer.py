"""AdamW for everything, or Muon for the matrices inside the layers and AdamW for the rest."""

from collections import defaultdict
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from glassformer.model.stack import Stack
from glassformer.registry import call, registered


class BatchedMuon(torch.optim.Muon):
    """torch's Muon (Jordan, 2024), with its Newton–Schulz steps in batches and in any type.

    torch runs them matrix by matrix in bf16, which a CPU without bf16 instructions emulates. All
    matrices of one shape are one batch here, multiplied in `products` or the type they have.
    """

    def __init__(
        self, matrices: list[nn.Parameter], products: torch.dtype | None = None, **options: float
    ) -> None:
        super().__init__(matrices, **options)  # type: ignore[arg-type]
        self.products = products

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "the loop has computed the gradients"
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    update = self._momentum(parameter, group["momentum"], group["nesterov"])
                    by_shape[parameter.shape].append((parameter, update))
            for shape, pairs in by_shape.items():
                directions = orthogonalise(
                    torch.stack([update for _, update in pairs]).to(self.products),
                    group["ns_coefficients"],
                    group["ns_steps"],
                    group["eps"],
                )
                rate = group["lr"] * max(1, shape[0] / shape[1]) ** 0.5
                for (parameter, _), direction in zip(pairs, directions, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(direction, alpha=-rate)

    def _momentum(self, parameter: Tensor, momentum: float, nesterov: bool) -> Tensor:
        gradient, state = parameter.grad, self.state[parameter]
        assert gradient is not None
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        average: Tensor = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(average, momentum) if nesterov else average


def orthogonalise(
    x: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Each matrix of the batch with its singular values pulled towards 1 (Newton–Schulz)."""
    a, b, c = coefficients
    wide = x if x.size(1) <= x.size(2) else x.mT
    wide = wide / wide.norm(dim=(1, 2), keepdim=True).clamp(min=eps)
    for _ in range(steps):
        gram = wide @ wide.mT
        wide = torch.baddbmm(wide, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide if x.size(1) <= x.size(2) else wide.mT


def layer_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The matrices inside the layers: what Muon is for. Embeddings and outputs are not."""
    stacks = [m for m in model.modules() if isinstance(m, Stack)]
    return [p for stack in stacks for p in stack.layers.parameters() if p.dim() == 2]


def build_optimizers(
    model: nn.Module,
    kind: str,
    rate: float,
    muon_rate: float,
    weight_decay: float,
    betas: tuple[float, float],
    products: torch.dtype | None = None,
) -> list[torch.optim.Optimizer]:
    """The optimisers of a model; the first group value of each, `peak`, is what schedules scale."""
    if kind not in ("adamw", "muon"):
        own = call(
            registered("optimizer")[kind], model=model, learning_rate=rate, muon_rate=muon_rate,
            weight_decay=weight_decay, betas=betas,
        )  # fmt: skip
        return with_peaks([own] if isinstance(own, torch.optim.Optimizer) else list(own))
    matrices = layer_matrices(model) if kind == "muon" else []
    chosen = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(_decay_groups(rest, weight_decay), lr=rate, betas=betas, fused=True)
    ]
    if matrices:
        optimizers.append(BatchedMuon(matrices, products, lr=muon_rate, weight_decay=weight_decay))
    return with_peaks(optimizers)


def with_peaks(optimizers: list[torch.optim.Optimizer]) -> list[torch.optim.Optimizer]:
    """Note the rate of each group as its peak, which the schedule scales."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return optimizers


def _decay_groups(
    parameters: Iterable[nn.Parameter], weight_decay: float
) -> list[dict[str, object]]:
    """Matrices decay; gains and biases do not."""
    parameters = list(parameters)
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def set_rate(optimizers: Iterable[torch.optim.Optimizer], factor: float) -> float:
    """Scale every peak rate; gives the first of the rates, for the log."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    for group in groups:
        group["lr"] = group["peak"] * factor
    return float(groups[0]["lr"])
