"""Every variant of the architecture at toy size, and selections of them."""

from itertools import combinations, product
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from glassformer.config import PRESETS, ModelSettings
from glassformer.model.build import Model, build
from glassformer.model.masks import padding_mask, target_mask

PAD = 0


def choices(setting: str) -> tuple[str, ...]:
    """Read off the settings, so that a new variant enters the suite by existing."""
    return get_args(ModelSettings.model_fields[setting].annotation)


KINDS = choices("kind")
DECODERS = ("translator", "language-model")
# Choices that only models of other libraries need: in pairs with everything, not in the product.
FOREIGN = ("sinusoidal-halves", "gelu-tanh", "silu", "geglu-tanh")


def own_choices(setting: str) -> tuple[str, ...]:
    return tuple(choice for choice in choices(setting) if choice not in FOREIGN)


POSITIONS = own_choices("positions")
SEAMS: dict[str, tuple[Any, ...]] = {
    "positions": POSITIONS,
    "residual": choices("residual"),
    "norm": choices("norm"),
    "feed_forward": own_choices("feed_forward"),
    "n_kv_heads": (4, 2, 1),  # MHA, GQA, MQA
    "attention": choices("attention"),
}
FOREIGN_SEAMS: dict[str, tuple[Any, ...]] = {
    **SEAMS,
    "positions": ("sinusoidal-halves", "learned", "rope"),
    "feed_forward": ("gelu-tanh", "silu", "geglu-tanh"),
    "embedding_scale": choices("embedding_scale"),
    "embedding_norm": (False, True),
    "output_bias": (False, True),
    "norm_eps": (1e-5, 0.1),
    "rope_base": (10_000.0, 50.0),
    "rope_pairs": choices("rope_pairs"),
}
TOY = ModelSettings(
    vocab_size=11,
    d_model=8,
    n_heads=4,
    d_ff=12,
    encoder_layers=1,
    decoder_layers=2,
    max_positions=8,
    dropout=0.0,
    n_classes=3,
)

Case = dict[str, Any]


def cases(seams: dict[str, tuple[Any, ...]]) -> list[Case]:
    """Every choice of every seam with every choice of the others."""
    return [dict(zip(seams, values, strict=True)) for values in product(*seams.values())]


def all_pairs(seams: dict[str, tuple[Any, ...]]) -> list[Case]:
    """Few cases in which every two choices of different seams meet at least once.

    Greedy: the next case is one that brings together most of the pairs that have not met.
    """
    pairs = [(case, set(combinations(case.items(), 2))) for case in cases(seams)]
    missing, chosen = set().union(*(met for _, met in pairs)), []
    while missing:
        case, met = max(pairs, key=lambda pair: len(pair[1] & missing))
        chosen.append(case)
        missing -= met
    return chosen


def label(case: Case) -> str:
    return "-".join(map(str, case.values()))


def variants(selection: list[Case], *kinds: str) -> list[Any]:
    """A selection for each kind of model, as the parameters of a test under readable names."""
    chosen = [{"kind": kind, **case} for kind in kinds for case in selection]
    return [pytest.param(case, id=label(case)) for case in chosen]


ALL = cases(SEAMS)
FOREIGN_PAIRS = all_pairs(FOREIGN_SEAMS)
PAIRS = all_pairs(SEAMS) + FOREIGN_PAIRS
# All that affects attention weights, in full; the other seams work on each position by itself.
ATTENTION = cases({n: SEAMS[n] for n in ("positions", "n_kv_heads", "attention")}) + PAIRS


def toy_settings(**changes: Any) -> ModelSettings:
    if changes.get("positions") == "relative":
        changes["max_distance"] = 2  # so that toy sentences reach beyond it
    return TOY.replace(**changes)


def toy(**changes: Any) -> Model:
    """A toy in float64 whose every parameter, gains and biases too, has a value that matters."""
    settings = toy_settings(**changes)
    model = randomised(build(settings).double().eval())
    model.settings = settings
    return model


def randomised(model: nn.Module) -> Any:
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def shrunk(name: str, **changes: Any) -> ModelSettings:
    """A preset at toy size: its choices, none of its widths."""
    preset = PRESETS[name]
    kv_heads = preset.n_kv_heads and preset.n_kv_heads * 4 // preset.n_heads
    sizes = {"d_model": 16, "n_heads": 4, "n_kv_heads": kv_heads, "d_ff": 32, "vocab_size": 16}
    return preset.replace(**sizes, encoder_layers=1, decoder_layers=1, **changes)


def sentences(*lengths: int) -> Tensor:
    """Random ids without padding inside, padded behind to the longest."""
    ids = torch.randint(1, TOY.vocab_size, (len(lengths), max(lengths)))
    return ids * (torch.arange(ids.size(1)) < torch.tensor(lengths)[:, None])


def batch(kind: str) -> tuple[Tensor, ...]:
    """Return the inputs of a model of this kind, both sides padded in different rows."""
    return (sentences(5, 3), sentences(2, 5)) if kind == "translator" else (sentences(5, 3),)


def masks(kind: str, ids: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The masks that a model of this kind makes of `ids`."""
    causal = (target_mask(ids[-1], PAD),) if kind in DECODERS else ()
    return (*(padding_mask(x, PAD) for x in ids[: len(ids) - len(causal)]), *causal)


def real(logits: Tensor, ids: tuple[Tensor, ...]) -> Tensor:
    """Logits at real tokens, or those of whole texts."""
    return logits[ids[-1] != PAD] if logits.dim() == 3 else logits


def gradients(model: nn.Module, output: Tensor) -> list[Tensor]:
    """Return the gradient of every parameter, for a loss that weighs every output differently."""
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return list(torch.autograd.grad((output * weights).sum(), list(model.parameters())))


class Cached:
    """A model that decodes behind a cache, a few tokens at a time."""

    def __init__(self, model: Model, source: list[Tensor], rows: int, capacity: int) -> None:
        self.model = model
        self.mask = padding_mask(source[0], PAD) if source else None
        memory = model.encoder(source[0], self.mask) if source else None
        self.cache = model.decoder.start_cache(capacity, memory, rows)

    def step(self, ids: Tensor) -> Tensor:
        decoded = self.model.decoder(ids, memory_mask=self.mask, cache=self.cache)
        return self.model.output(decoded)

    def reorder(self, rows: Tensor) -> None:
        self.cache.reorder(rows)
        self.mask = None if self.mask is None else self.mask[rows]
