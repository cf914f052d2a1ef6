"""Typed, frozen settings, the presets, and TOML in and out. No torch: settings are plain data."""

import tomllib
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, get_args

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from glassformer.errors import SettingsError, nearest

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class Settings(BaseModel):
    """Frozen, strict about names, and the same after a round trip through TOML."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def of(cls, /, **values: Any) -> Self:
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

    def replace(self, /, **changes: Any) -> Self:
        """These settings with some changed; a section's changes leave the rest of it alone."""
        return type(self).of(**_merged(self.model_dump(), changes))

    @classmethod
    def from_toml(cls, text: str | bytes) -> Self:
        """Bytes are UTF-8, as TOML has it."""
        try:
            return cls.of(**tomllib.loads(text if isinstance(text, str) else text.decode()))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"The settings are not TOML: {error}.",
                "Settings are lines of `name = value`, strings in quotes.",
                "Mend that line.",
            ) from None

    def to_toml(self) -> str:
        return tomli_w.dumps(self.model_dump(exclude_none=True))


def _merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`values` with changes; a section is merged, at any depth."""
    both = {
        name: _merged(values[name], value)
        if isinstance(value, dict) and isinstance(values.get(name), dict)
        else value
        for name, value in changes.items()
    }
    return {**values, **both}


def _problem(cls: type[BaseModel], error: dict[str, Any]) -> tuple[str, str, str]:
    *sections, key = map(str, error["loc"])
    for section in sections:
        inner = cls.model_fields[section].annotation if section in cls.model_fields else None
        inner = next(iter(get_args(inner)), inner)  # of a list of tables, one of them
        cls = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else cls
    name, names = ".".join([*sections, key]), list(cls.model_fields)
    if error["type"] == "extra_forbidden":
        return (
            f"Unknown setting {name!r}",
            "a misspelt setting would be ignored without a word, so none is",
            f"did you mean {'.'.join([*sections, nearest(key, names)])!r}?",
        )
    return (
        f"{name} = {error['input']!r}",
        error["msg"][0].lower() + error["msg"][1:],
        f"set {name} to such a value",
    )


class ModelSettings(Settings):
    """Everything that decides a model's architecture. `model/build.py` alone reads it."""

    kind: Literal[
        "translator", "language-model", "masked-language-model", "classifier", "tagger"
    ] = "translator"  # what the model does; a tagger labels every token

    vocab_size: Count = 8_000  # subwords, of the target if the source has its own
    source_vocab_size: Count | None = None  # None: the same vocabulary as the target's
    tie_source_target: bool = True  # one embedding table for source and target
    tie_target_output: bool = True  # the output projection is the target embedding
    pad_id: Annotated[int, Field(ge=0)] = 0  # id of the padding token

    d_model: Count = 128  # width of the model
    n_heads: Count = 4  # query heads; d_model is a multiple of it
    n_kv_heads: Count | None = None  # None: as many as n_heads
    d_ff: Count = 256  # inner width of the feed-forward network
    encoder_layers: Count = 4  # layers of the encoder
    decoder_layers: Count = 4  # layers of the decoder

    positions: Literal[
        "sinusoidal", "learned", "rope", "alibi", "relative", "relative-bucketed", "none"
    ] = "sinusoidal"  # position scheme
    max_positions: Count = 1_024  # rows of the table of learned positions
    max_distance: Count | None = None  # of relative positions; None: the scheme's own
    # Layer norm after or before each sub-layer.
    residual: Literal["post-norm", "pre-norm"] = "pre-norm"
    norm: Literal["layer-norm", "rms-norm"] = "layer-norm"  # kind of normalisation
    # Activation of the feed-forward network.
    feed_forward: Literal["relu", "gelu", "swiglu"] = "relu"
    attention_bias: bool = False  # in the projections of attention; the paper has none
    feed_forward_bias: bool = True  # bias in the feed-forward projections

    dropout: Share = 0.1  # after each sub-layer and on the input, as in the paper
    attention_dropout: Share = 0.0  # dropout rate of the attention weights
    feed_forward_dropout: Share = 0.0  # dropout rate inside the feed-forward network

    # Kernel of attention: torch's fused one, or Equation 1 line by line.
    attention: Literal["fused", "readable"] = "fused"
    init: Literal["xavier", "depth-scaled"] = "xavier"  # initialisation of the weights
    # Recompute activations in the backward pass: less memory.
    activation_checkpointing: bool = False

    n_classes: Count = 2  # classes of a classifier or tagger
    # How a classifier reduces token vectors to one.
    pooling: Literal["mean", "first", "max"] = "mean"
    ngrams: Annotated[int, Field(ge=0)] = 0  # of so many words vote beside the encoder; 0: none
    ngram_share: Share = 0.5  # of the answer that is theirs; the rest is the encoder's
    ngram_places: Count = 2**20  # of the table that those of several tokens share


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
        raise SettingsError(
            f"Unknown preset {name!r}.",
            f"The presets are {', '.join(PRESETS)}.",
            f"Did you mean {nearest(name, PRESETS)!r}?",
        )
    return PRESETS[name].replace(**changes)


class TextSettings(Settings):
    """One text of several: a split of a named set, or the user's own files."""

    name: str  # name in logs and tables
    set: str | None = None  # named data set, or `files`
    split: str = "train"  # split of the named set
    files: tuple[str, ...] = ()  # a path per side, or one TSV, CSV or JSONL
    columns: tuple[str, ...] = ()  # names or numbers of the columns of a TSV, CSV or JSONL file

    @model_validator(mode="after")
    def _has_one_origin(self) -> Self:
        if bool(self.set) == bool(self.files):
            raise ValueError("a source is either a named `set` or a list of `files`")
        return self


class SourceSettings(TextSettings):
    """A source of a mixture. Weights are relative: they need not add up to 1."""

    weight: Annotated[float, Field(gt=0)]  # share of the target tokens, whatever the source's size
    begin: Share = 0.0  # the source is read from this share of the run on
    end: Annotated[float, Field(gt=0, le=1)] = 1.0  # up to this one


class NoiseSettings(Settings):
    """Shares of the training pairs that are changed on both sides, drawn anew each epoch."""

    lower: Share = 0.0  # in small letters
    upper: Share = 0.0  # in capitals
    unpunctuated: Share = 0.0  # without the punctuation at the end
    joined: Share = 0.0  # followed by another sentence of the same source
    copied: Share = 0.0  # with a URL, e-mail address, number, price, name, placeholder or emoji

    def __bool__(self) -> bool:
        return any(self.model_dump().values())


class DataSettings(Settings):
    """Which text, in which subwords, in which batches."""

    # "grammar" is embedded; a task of data/tasks.py is made up; "files" are the user's own;
    # "mixture" draws from `sources`; everything else is a named set.
    name: str = "grammar"
    source_language: str = "en"  # language code of the source
    target_language: str = "fr"  # language code of the target
    train: tuple[str, ...] = ()  # of "files": a path per side, or one TSV, CSV or JSONL
    valid: tuple[str, ...] = ()  # of "files": the same for validation
    columns: tuple[str, ...] = ()  # of "files": names or numbers of the columns
    train_split: str = "train"  # of a named set
    # What the end of a run reads instead: text that is most like what the model is for.
    final: tuple[str, ...] = ()  # of "files"
    final_split: str | None = None  # of a named set
    final_share: Annotated[float, Field(gt=0, lt=1)] = 0.1  # of the run's updates, or of its time
    sources: tuple[SourceSettings, ...] = ()  # of a mixture
    valid_sets: tuple[TextSettings, ...] = ()  # of a mixture: each is scored by itself
    epoch_tokens: Count = 2_000_000  # target tokens of an epoch of a mixture
    directions: Literal["forward", "both"] = "forward"  # both: a tag tells the language to write
    typography: bool = False  # text is read in the plain form of data/typography.py
    noise: NoiseSettings = NoiseSettings()
    clean: bool = False  # training pairs that break a rule of data/clean.py are left out
    skip_bad: bool = False  # leave out bad rows instead of stopping
    labels: tuple[str, ...] = ()  # of a classifier, found in its training text

    examples: Count = 100_000  # of the grammar or a task
    valid_examples: Count = 1_000  # the most that validation looks at
    symbols: Count = 20  # of a task
    longest: Count = 32  # of a task

    subwords: Literal["bpe", "unigram"] = "bpe"  # subword algorithm
    joint_vocabulary: bool = True  # one vocabulary for source and target
    fold_case: bool = False  # capitals are read as small letters
    normalization: Literal["nfkc", "identity"] = "nfkc"  # of characters, before they are split
    byte_fallback: bool = False  # characters without a subword are spelt in bytes
    split_digits: bool = False  # every digit is a subword
    subword_sampling: Share = 0.0  # 0: every text is always split the same way
    hidden: Share = 0.0  # of the subwords that are read: what a masked language model must guess
    max_length: Count = 256  # subwords of a side; longer pairs are left out, other texts cut
    batch_tokens: Count = 4_096  # cells of a batch on its longer side, padding counted


class TrainSettings(Settings):
    """How the weights are found."""

    seed: Annotated[int, Field(ge=0)] = 1  # of weights, batches and dropout
    start_from: str | None = None  # a run whose subwords and encoder this one begins with
    threads: Count = 2  # threads of a process
    # Whichever comes first is also where a falling schedule ends.
    max_steps: Count = 10_000
    # Minutes of the whole run, resumed parts included; none: no limit.
    max_minutes: Annotated[float, Field(gt=0)] | None = None

    optimizer: Literal["adamw", "muon"] = "adamw"  # muon: Muon for matrices, AdamW for the rest
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3  # at the end of the warm-up
    muon_rate: Annotated[float, Field(gt=0)] = 0.02  # of the matrices, with optimizer = "muon"
    weight_decay: Annotated[float, Field(ge=0)] = 0.01  # decoupled, of matrices
    beta1: Share = 0.9  # of AdamW's first moment
    beta2: Share = 0.98  # of AdamW's second moment
    # Course of the learning rate after the warm-up.
    schedule: Literal["inverse-sqrt", "cosine", "linear", "constant", "trapezoid"] = "inverse-sqrt"
    warmup: Annotated[int, Field(ge=0)] = 1_000  # updates over which the learning rate rises from 0
    decay_share: Annotated[float, Field(gt=0, le=1)] = 0.2  # of the run, with "trapezoid"
    # Share of the label's probability that is spread over the vocabulary.
    label_smoothing: Share = 0.1
    # Of two passes with their own dropout (R-Drop); 0 makes one pass. 5 is customary.
    agreement: Annotated[float, Field(ge=0)] = 0.0
    accumulate: Count = 1  # batches of one update
    clip: Annotated[float, Field(gt=0)] = 1.0  # largest norm of the gradient
    ema: Share = 0.0  # decay of an average of the weights, which is then what is validated
    # Of products with weights; auto is bf16 where the processor has instructions for it.
    precision: Literal["fp32", "bf16", "auto"] = "fp32"
    compile: bool = False  # compile the model with torch.compile
    fully_shard: bool = False  # under torchrun: FSDP2 instead of DDP

    log_every: Count = 50  # updates between records of the log
    validate_every: Count = 500  # updates between validations, which also save a checkpoint
    keep: Count = 3  # checkpoints besides the best
    # Which validation score decides on the best checkpoint.
    metric: Literal["loss", "bleu", "accuracy"] = "loss"
    patience: Count | None = None  # validations without a better score before stopping
    target: float | None = None  # a run ends as soon as a validation's score is as good as this
    tensorboard: bool = False  # write TensorBoard logs as well
    attention_entropy: bool = False  # log the entropy of each layer's attention at validation


class SearchSettings(Settings):
    """How a translator is best searched, where it is not told otherwise."""

    # Exponent α of Wu et al., Equation 14; 0 ranks by log-probability.
    length_penalty: Annotated[float, Field(ge=-100, le=100)] = 0.6


class RunSettings(Settings):
    """A recipe: everything that decides a training run, and what goes with the model it makes."""

    model: ModelSettings = ModelSettings()
    data: DataSettings = DataSettings()
    train: TrainSettings = TrainSettings()
    search: SearchSettings = SearchSettings()


def parse_changes(changes: Sequence[str]) -> dict[str, Any]:
    """`name=value` and `section.name=value` arguments of a command line, nested by section."""
    parsed: dict[str, Any] = {}
    for change in changes:
        path, equals, value = change.partition("=")
        if not equals:
            raise SettingsError(
                f"{change!r} is not a change of a setting.",
                "A change is name=value, without spaces.",
                "For example n_heads=8, or train.max_steps=1000 for a recipe.",
            )
        *sections, name = path.split(".")
        place = parsed
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                break
        if not isinstance(place, dict) or isinstance(place.get(name), dict):
            raise SettingsError(
                f"{change!r} changes a section and a setting of it at once.",
                "A section is what its settings are.",
                "Change the settings only, for example train.max_steps=1000.",
            )
        place[name] = _toml_value(value)
    return parsed


def _toml_value(text: str) -> Any:
    """A number, a truth, a list as in TOML; anything else is text, and needs no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
