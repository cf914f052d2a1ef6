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
from glassformer.train.precision import ShortLinear

CHUNK_CELLS = 2**23  # logits at a time: 16 MiB of them in bf16


def smoothed_loss(
    features: Float[Tensor, "*B D"],
    output: nn.Linear,
    labels: Int[Tensor, "*B"],
    smoothing: float = 0.0,
    agreement: float = 0.0,
    products: torch.dtype | None = None,
) -> tuple[Float[Tensor, ""], int]:
    """The sum of -Σ q(k) log p(k) over all positions that ask something, and their number.

    q is 1 - ε on the label and ε spread over the whole vocabulary. A sum, not a mean: whoever adds
    up several batches divides once, by all of their positions.

    With `agreement` the batch holds everything twice, one half like the other but for dropout. The
    loss is then the mean of the halves', plus so much of what parts them (R-Drop, Liang et al.,
    2021: their α, and half of their sum).

    `products` is the type of the products with the output's weights; None: the output's own.
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
        products or (output.products if isinstance(output, ShortLinear) else output.weight.dtype),
        torch.is_grad_enabled(),
    )
    return total / halves, n


class _LinearCrossEntropy(torch.autograd.Function):
    """Logits, loss and gradients chunk by chunk, all on the way forward.

    Logits and their softmax have the type of the products; sums are kept in that of `x`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        labels: Tensor,
        smoothing: float,
        agreement: float,
        products: torch.dtype,
        learning: bool,
    ) -> Tensor:
        halves, n = labels.shape
        rows = max(1, CHUNK_CELLS // (halves * weight.size(0)))
        gradients = [torch.zeros_like(t) for t in (x, weight, bias)] if learning else []
        short_weight, short_bias = weight.to(products), bias.to(products)
        total = x.new_zeros(())
        for i in range(0, n, rows):
            short_x = x[:, i : i + rows].flatten(0, 1).to(products)
            labels_i = labels[:, i : i + rows].flatten()
            cells = torch.arange(len(labels_i), device=x.device) * weight.size(0) + labels_i
            logits = short_x @ short_weight.t()
            if bias.dim():
                logits += short_bias
            p = torch.softmax(logits, 1)
            # log Σ exp(logits), by way of the largest: its p is 1 / V at least, and never 0
            normaliser = (logits.amax(1, keepdim=True) - p.amax(1, keepdim=True).log()).to(x.dtype)
            total += normaliser.sum() - (1 - smoothing) * logits.view(-1)[cells].sum(dtype=x.dtype)
            if agreement:
                apart, parting = _disagreement(logits.to(x.dtype) - normaliser)
                total += agreement * apart
            if learning:  # p - q, in place, but for the part of q that is the same for all words
                p.view(-1)[cells] -= 1 - smoothing
                if agreement:
                    p.add_(parting.to(products), alpha=agreement)
                gradients[0][:, i : i + rows] = (p @ short_weight).unflatten(0, (halves, -1))
                gradients[1] += p.t() @ short_x
                if bias.dim():
                    gradients[2] += p.sum(0, dtype=x.dtype)
        if smoothing:
            total -= _smoothing(x, weight, bias, smoothing, gradients)
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradients = (gradient * upstream[0] for gradient in ctx.saved_tensors)
        return (*gradients, None, None, None, None, None)


def _smoothing(
    x: Tensor, weight: Tensor, bias: Tensor, smoothing: float, gradients: list[Tensor]
) -> Tensor:
    """ε times the mean logit of each position, summed; its gradients are taken off `gradients`.

    The mean logit is x · (mean row of the weights) + mean bias: no logits are needed.
    """
    mean_row, sum_of_x = weight.mean(0), x.sum((0, 1))
    positions = x.size(0) * x.size(1)
    if gradients:
        gradients[0] -= smoothing * mean_row
        gradients[1] -= smoothing / weight.size(0) * sum_of_x
        if bias.dim():
            gradients[2] -= smoothing / weight.size(0) * positions
    return smoothing * (sum_of_x @ mean_row + positions * bias.mean())


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
