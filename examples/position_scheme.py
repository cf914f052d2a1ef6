"""Add a position scheme without changing the package.

    python examples/position_scheme.py        about ten seconds

A scheme is a class with up to three methods: `embed` adds to the token's vector, `rotate` rotates
queries and keys, `bias` adds to the attention scores (model/positions.py). This one is KERPLE (Chi
et al., 2022): a bias of -r · log(1 + a · distance), with r and a learned per head.

`gf.register` gives it a name that settings may have. A recipe names it, too, if this module is
imported first: GLASSFORMER_IMPORT=position_scheme glassformer train my.toml
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import glassformer as gf
from glassformer.model.positions import NoPositions

SYMBOLS = 10


class LogDistanceBias(NoPositions):
    """-r · log(1 + a · |distance|), with other r and a for keys after the query."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.randn(2, 2, n_heads))  # side, (r, a), head

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        distance = k_positions - q_positions[:, None]  # (T, S)
        r, a = F.softplus(self.raw).unbind(1)  # both positive, (side, H)
        after = (distance > 0).long()
        r, a = (x[after].permute(2, 0, 1) for x in (r, a))  # (H, T, S)
        return -r * torch.log1p(a * distance.abs())


gf.register("positions", "log-distance", LogDistanceBias)


def tagger(positions: str) -> gf.TransformerTagger:
    sizes = {"d_model": 64, "d_ff": 128, "encoder_layers": 2, "dropout": 0.0}
    return gf.build("tiny", kind="tagger", positions=positions, vocab_size=SYMBOLS + 1,
                    n_classes=SYMBOLS + 1, **sizes)  # fmt: skip


def learn(model: gf.TransformerTagger, steps: int = 300) -> float:
    """Learn to name the symbol to the left; return the accuracy on the last batch."""
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        ids = torch.randint(1, SYMBOLS + 1, (64, 12))
        logits = model(ids)[:, 1:]
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, :-1].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (logits.argmax(-1) == ids[:, :-1]).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(1)
    print(f"no positions: {learn(tagger('none')):.0%} of the symbols to the left are named")
    print(f"log distance: {learn(tagger('log-distance')):.0%}")
