"""Cross-entropy with label smoothing (§5.4), and the output projection inside it.

The logits of a batch are the largest tensor of training, several times over: logits, their
softmax, its gradient. Here they exist for a few hundred positions at a time, and each chunk's
gradient is taken while it is still in the processor's cache.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from glassformer.data.batch import IGNORE

CHUNK_CELLS = 2**21  # logits at a time: 8 MiB of them


def smoothed_loss(
    features: Float[Tensor, "*B D"],
    output: nn.Linear,
    labels: Int[Tensor, "*B"],
    smoothing: float = 0.0,
    agreement: float = 0.0,
) -> tuple[Float[Tensor, ""], int]:
    """The sum of -Σ q(k) log p(k) over all positions that ask something, and their number.

    q is 1 - ε on the label and ε spread over the whole vocabulary. A sum, not a mean: whoever adds
    up several batches divides once, by all of their positions.

    With `agreement` the batch holds everything twice, one half like the other but for dropout. The
    loss is then the mean of the halves', plus so much of what parts them (R-Drop, Liang et al.,
    2021: their α, and half of their sum).
    """
    asked, halves = labels != IGNORE, 2 if agreement else 1
    features, labels = features[asked], labels[asked]
    n = labels.numel() // halves
    bias = output.bias if output.bias is not None else output.weight.new_zeros(())
    total: Tensor = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        features.view(halves, n, features.size(-1)),
        output.weight,
        bias,
        labels.view(halves, n),
        smoothing,
        agreement,
        torch.is_grad_enabled(),
    )
    return total / halves, n


class _LinearCrossEntropy(torch.autograd.Function):
    """Logits, loss and gradients chunk by chunk, all on the way forward."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)  # type: ignore[untyped-decorator]
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        labels: Tensor,
        smoothing: float,
        agreement: float,
        learning: bool,
    ) -> Tensor:
        halves, n = labels.shape
        rows = max(1, CHUNK_CELLS // (halves * weight.size(0)))
        gradients = [torch.zeros_like(t) for t in (x, weight, bias)] if learning else []
        room = x.new_empty(halves * min(rows, n), weight.size(0))
        total = x.new_zeros(())
        for i in range(0, n, rows):
            x_i, labels_i = x[:, i : i + rows].flatten(0, 1), labels[:, i : i + rows].reshape(-1, 1)
            logits = torch.mm(x_i, weight.t(), out=room[: len(x_i)]).add_(bias)
            normaliser = logits.logsumexp(1, keepdim=True)
            total += normaliser.sum() - (1 - smoothing) * logits.gather(1, labels_i).sum()
            total -= smoothing * logits.mean(1).sum()
            log_p = logits.sub_(normaliser)
            if agreement:
                apart, parting = _disagreement(log_p)
                total += agreement * apart
            if learning:  # p - q, in place
                error = log_p.exp_().sub_(smoothing / weight.size(0))
                error.scatter_add_(
                    1, labels_i, error.new_full((1, 1), smoothing - 1).expand_as(labels_i)
                )
                if agreement:
                    error.add_(parting, alpha=agreement)
                gradients[0][:, i : i + rows] = torch.mm(error, weight).unflatten(0, (halves, -1))
                gradients[1].addmm_(error.t(), x_i)
                if bias.dim():
                    gradients[2] += error.sum(0)
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradients = (gradient * upstream[0] for gradient in ctx.saved_tensors)
        return (*gradients, None, None, None, None)


def _disagreement(log_p: Float[Tensor, "N V"]) -> tuple[Tensor, Tensor]:
    """Σ (KL(p ‖ q) + KL(q ‖ p)) / 2 of the rows p of one half and q of the other.

    The second answer is its gradient by the logits.
    """
    both = log_p.exp()
    p, q = both.chunk(2)
    ratio = torch.sub(*log_p.chunk(2))
    of_p, of_q = torch.linalg.vecdot(p, ratio)[:, None], -torch.linalg.vecdot(q, ratio)[:, None]
    gradient = torch.cat([p * (ratio - of_p) + p - q, q - p - q * (ratio + of_q)])
    return (of_p + of_q).sum() / 2, gradient / 2
