"""Typed, frozen settings, the presets, and TOML in and out. No torch: settings are plain data."""

import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from glassformer.errors import SettingsError

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class Settings(BaseModel):
    """Frozen, strict about names, and the same after a round trip through TOML."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Settings from plain values; what is wrong with them in one block."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            problems = [_problem(cls, dict(e)) for e in error.errors(include_url=False)]
            raise SettingsError(
                "; ".join(what for what, _, _ in problems),
                "; ".join(dict.fromkeys(why for _, why, _ in problems)),
                "; ".join(dict.fromkeys(remedy for _, _, remedy in problems)),
            ) from None

    def replace(self, **changes: Any) -> Self:
        return type(self).of(**{**self.model_dump(), **changes})

    @classmethod
    def from_toml(cls, text: str) -> Self:
        try:
            return cls.of(**tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(
                f"The settings are not TOML: {error}.",
                "Settings are lines of `name = value`, strings in quotes.",
                "Mend that line.",
            ) from None

    def to_toml(self) -> str:
        return tomli_w.dumps(self.model_dump(exclude_none=True))


def _problem(cls: type[BaseModel], error: dict[str, Any]) -> tuple[str, str, str]:
    name, names = ".".join(str(part) for part in error["loc"]), list(cls.model_fields)
    if error["type"] == "extra_forbidden":
        near = get_close_matches(name, names, n=1, cutoff=0.0)[0]
        return (
            f"Unknown setting {name!r}",
            "a misspelt setting would be ignored without a word, so none is",
            f"did you mean {near!r}?",
        )
    return (
        f"{name} = {error['input']!r}",
        error["msg"][0].lower() + error["msg"][1:],
        f"set {name} to such a value",
    )


class ModelSettings(Settings):
    """Everything that decides a model's architecture. `model/build.py` alone reads it."""

    kind: Literal["translator", "language-model", "classifier", "tagger"] = "translator"

    vocab_size: Count = 8_000
    source_vocab_size: Count | None = None  # None: the same vocabulary as the target's
    tie_source_target: bool = True
    tie_target_output: bool = True
    pad_id: Annotated[int, Field(ge=0)] = 0

    d_model: Count = 128
    n_heads: Count = 4
    n_kv_heads: Count | None = None  # None: as many as n_heads
    d_ff: Count = 256
    encoder_layers: Count = 4
    decoder_layers: Count = 4

    positions: Literal[
        "sinusoidal", "learned", "rope", "alibi", "relative", "relative-bucketed", "none"
    ] = "sinusoidal"
    max_positions: Count = 1_024  # rows of the table of learned positions
    max_distance: Count | None = None  # of relative positions; None: the scheme's own
    residual: Literal["post-norm", "pre-norm"] = "pre-norm"
    norm: Literal["layer-norm", "rms-norm"] = "layer-norm"
    feed_forward: Literal["relu", "gelu", "swiglu"] = "relu"
    attention_bias: bool = False  # in the projections of attention; the paper has none
    feed_forward_bias: bool = True

    dropout: Share = 0.1  # after each sub-layer and on the input, as in the paper
    attention_dropout: Share = 0.0
    feed_forward_dropout: Share = 0.0

    attention: Literal["fused", "readable"] = "fused"
    init: Literal["xavier", "depth-scaled"] = "xavier"
    activation_checkpointing: bool = False

    n_classes: Count = 2
    pooling: Literal["mean", "first", "max"] = "mean"


_base = ModelSettings(
    vocab_size=37_000,
    d_model=512,
    n_heads=8,
    d_ff=2_048,
    encoder_layers=6,
    decoder_layers=6,
    residual="post-norm",
)

PRESETS: dict[str, ModelSettings] = {
    "vaswani2017-base": _base,
    "vaswani2017-big": _base.replace(d_model=1_024, n_heads=16, d_ff=4_096, dropout=0.3),
    "modern": _base.replace(
        n_kv_heads=2,
        d_ff=1_408,  # three matrices of 8/3 · d_model, to a multiple of 128, for two of 4 · d_model
        positions="rope",
        residual="pre-norm",
        norm="rms-norm",
        feed_forward="swiglu",
        feed_forward_bias=False,
        init="depth-scaled",
    ),
    "small": ModelSettings(vocab_size=16_000, d_model=256, d_ff=1_024),
    "tiny": ModelSettings(dropout=0.3),
    "classifier": ModelSettings(kind="classifier", vocab_size=16_000, d_model=256, d_ff=1_024),
}


def preset(name: str, **changes: Any) -> ModelSettings:
    """A preset by name, with changes."""
    if name not in PRESETS:
        near = get_close_matches(name, PRESETS, n=1, cutoff=0.0)[0]
        raise SettingsError(
            f"Unknown preset {name!r}.",
            f"The presets are {', '.join(PRESETS)}.",
            f"Did you mean {near!r}?",
        )
    return PRESETS[name].replace(**changes)


def parse_changes(changes: Sequence[str]) -> dict[str, str]:
    """`name=value` arguments of a command line; the settings turn the text into what they need."""
    parsed = dict(change.partition("=")[::2] for change in changes)
    malformed = [change for change in changes if "=" not in change]
    if malformed:
        raise SettingsError(
            f"{malformed[0]!r} is not a change of a setting.",
            "A change is name=value, without spaces.",
            "For example n_heads=8.",
        )
    return parsed
