"""The whole Transformer in one file, trained to reverse sequences in a minute on two cores.

It needs only torch. The parts are those of `glassformer/model/`: a test loads weights of `gf.build`
and compares the logits. Shapes: B batch, S source, T target, D width, H heads, V vocabulary.
"""

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PAD, BOS, EOS, FIRST = 0, 1, 2, 3  # symbols are the ids from FIRST on


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """softmax(Q Kᵀ / √d_k) V: Equation 1. The mask is True where a query may attend."""
    scores = q @ k.transpose(-2, -1) / sqrt(q.size(-1))  # (B, H, T, S)
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1) @ v


class MultiHeadAttention(nn.Module):
    """Concat(head_1, …, head_H) W^O (§3.2.2); W^Q, W^K and W^V of all heads are one matrix."""

    def __init__(self, d_model: int, n_heads: int, cross: bool = False) -> None:
        super().__init__()
        self.n_heads, self.cross = n_heads, cross
        if cross:  # queries from the target, keys and values from the source
            self.q = nn.Linear(d_model, d_model, bias=False)
            self.kv = nn.Linear(d_model, 2 * d_model, bias=False)
        else:
            self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.output = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None = None) -> Tensor:
        if self.cross:
            q, (k, v) = self.q(x), self.kv(memory).chunk(2, dim=-1)
        else:
            q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in (q, k, v))
        return self.output(attention(q, k, v, mask).transpose(1, 2).flatten(2))  # (B, T, D)


class FeedForward(nn.Module):
    """max(0, x W₁ + b₁) W₂ + b₂: Equation 2."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.expand, self.contract = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(F.relu(self.expand(x)))


class Layer(nn.Module):
    """LayerNorm(x + Sublayer(x)) of self-attention, cross-attention, feed-forward (§3.1)."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, cross: bool) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.self_attention_norm = nn.LayerNorm(d_model)
        if cross:
            self.cross_attention = MultiHeadAttention(d_model, n_heads, cross=True)
            self.cross_attention_norm = nn.LayerNorm(d_model)
        self.feed_forward, self.feed_forward_norm = (
            FeedForward(d_model, d_ff),
            nn.LayerNorm(d_model),
        )

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None, padding: Tensor) -> Tensor:
        x = self.self_attention_norm(x + self.self_attention(x, mask))
        if memory is not None:
            x = self.cross_attention_norm(x + self.cross_attention(x, padding, memory))
        return self.feed_forward_norm(x + self.feed_forward(x))


def sinusoids(length: int, d_model: int) -> Tensor:
    """sin(pos / 10000^(2i/d)) in even places, the cosine in odd ones (§3.5)."""
    angle = torch.arange(length)[:, None] / 10_000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)  # (T, D)


class Transformer(nn.Module):
    """Figure 1. One matrix embeds source and target and projects to the logits (§3.4)."""

    def __init__(self, vocab_size: int, d_model: int, n_heads: int, d_ff: int, n: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(vocab_size, d_model) / sqrt(d_model))
        self.encoder = nn.ModuleList(Layer(d_model, n_heads, d_ff, cross=False) for _ in range(n))
        self.decoder = nn.ModuleList(Layer(d_model, n_heads, d_ff, cross=True) for _ in range(n))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding = (source != PAD)[:, None, None, :]  # (B, 1, 1, S): no query attends to padding
        causal = torch.ones(target.size(1), target.size(1), dtype=torch.bool).tril()  # (T, T)
        memory = self.embed(source)
        for layer in self.encoder:
            memory = layer(memory, padding, None, padding)
        x = self.embed(target)
        for layer in self.decoder:
            x = layer(x, causal, memory, padding)
        return x @ self.embedding.T  # (B, T, V)

    def embed(self, ids: Tensor) -> Tensor:
        d = self.embedding.size(1)
        return self.embedding[ids] * sqrt(d) + sinusoids(ids.size(1), d)  # (B, T, D)


def draw(batch: int, longest: int, symbols: int) -> tuple[Tensor, Tensor]:
    """Random sequences of one random length, and the same reversed between BOS and EOS."""
    length = int(torch.randint(2, longest + 1, ()))
    source = torch.randint(FIRST, FIRST + symbols, (batch, length))
    return source, F.pad(F.pad(source.flip(1), (1, 0), value=BOS), (0, 1), value=EOS)


def train(model: Transformer, steps: int, longest: int, symbols: int, rate: float = 2e-3) -> None:
    """Predict each target token from those before it; the rate rises for 100 steps, then falls."""
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(1, steps + 1):
        source, target = draw(64, longest, symbols)
        logits = model(source, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        optimizer.param_groups[0]["lr"] = rate * min(step / 100, 1 - step / (steps + 1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            print(f"step {step:5}  loss {loss.item():.4f}", flush=True)


@torch.no_grad()
def reverse(model: Transformer, source: Tensor) -> Tensor:
    """Append the likeliest token, as many times as the source is long: greedy search."""
    target = torch.full((len(source), 1), BOS)
    for _ in range(source.size(1)):
        target = torch.cat((target, model(source, target)[:, -1:].argmax(-1)), dim=1)
    return target[:, 1:]


def exact(model: Transformer, longest: int, symbols: int, batches: int = 20) -> float:
    """Return the share of new sequences that are reversed without a mistake."""
    sources = [draw(50, longest, symbols)[0] for _ in range(batches)]
    right = [(reverse(model, s) == s.flip(1)).all(dim=1) for s in sources]
    return torch.cat(right).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(1)
    model = Transformer(vocab_size=FIRST + 20, d_model=64, n_heads=4, d_ff=128, n=2)
    train(model, steps=1_200, longest=10, symbols=20)
    print(f"reversed exactly: {exact(model, longest=10, symbols=20):.1%} of 1,000 new sequences")
