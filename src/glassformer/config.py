"""Typed, frozen settings, the presets, and TOML in and out. No torch: settings are plain data."""

import tomllib
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from glassformer.aliases import resolve
from glassformer.errors import SettingsError, did_you_mean, divisors
from glassformer.registry import OF_MODEL, registered
from glassformer.settings_base import Settings as Settings
from glassformer.settings_base import names_of, or_registered, shown

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
DEVICE = r"auto|cpu|mps|cuda(:\d{1,3})?"  # names of devices; device.py says which one is there


class ModelSettings(Settings):
    """Everything that decides a model's architecture. `model/build.py` alone reads it."""

    kind: Literal[
        "translator", "language-model", "masked-language-model", "classifier", "tagger", "embedder"
    ] = "translator"  # what the model does; a tagger labels every token, an embedder gives a vector

    vocab_size: Count = 8_000  # subwords, of the target if the source has its own
    source_vocab_size: Count | None = None  # None: the same vocabulary as the target's
    tie_source_target: bool = True  # one embedding table for source and target
    tie_target_output: bool = True  # the output projection is the target embedding
    output_bias: bool = False  # bias of the output over the vocabulary; classifiers have one anyway
    # Factor of the embedding, √d_model or none.
    embedding_scale: Literal["sqrt-d_model", "none"] = "sqrt-d_model"
    embedding_norm: bool = False  # norm after the sum of embedding and positions
    # First vector of the decoder's input: its begin mark's, or zeros (Marian).
    start_vector: Literal["token", "zeros"] = "token"
    pad_id: Annotated[int, Field(ge=-1)] = 0  # id of the padding token; -1: none

    d_model: Count = 128  # width of the model
    n_heads: Count = 4  # query heads; d_model is a multiple of it
    n_kv_heads: Count | None = None  # None: as many as n_heads
    d_ff: Count = 256  # inner width of the feed-forward network
    encoder_layers: Count = 4  # layers of the encoder
    decoder_layers: Count = 4  # layers of the decoder

    positions: Annotated[
        Literal[
            "sinusoidal",
            "sinusoidal-halves",
            "learned",
            "rope",
            "alibi",
            "relative",
            "relative-bucketed",
            "none",
        ],
        or_registered("positions"),
    ] = "sinusoidal"  # position scheme; "sinusoidal-halves" has all sines before all cosines
    max_positions: Count = 1_024  # rows of the learned table
    max_distance: Count | None = None  # of relative positions; None: the scheme's default
    rope_base: Annotated[float, Field(gt=1, le=1e12)] = 10_000.0  # longest wavelength over 2π
    # Features that RoPE turns as a pair: neighbours, or feature i of the first half of a head
    # with feature i of the second.
    rope_pairs: Literal["neighbours", "halves"] = "neighbours"
    # Layer norm after or before each sub-layer.
    residual: Literal["post-norm", "pre-norm"] = "pre-norm"
    norm: Annotated[Literal["layer-norm", "rms-norm"], or_registered("norm")] = (
        "layer-norm"  # kind of normalisation
    )
    norm_eps: Annotated[float, Field(gt=0, lt=1)] = 1e-5  # ε of the norms
    # Activation of the feed-forward network; "gelu-tanh" is GELU approximated by a tanh. "swiglu"
    # and "geglu-tanh" have a gate.
    feed_forward: Annotated[
        Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu", "geglu-tanh"],
        or_registered("feed_forward"),
    ] = "relu"
    attention_bias: bool = False  # in the projections of attention; the paper has none
    feed_forward_bias: bool = True  # bias in the feed-forward projections

    dropout: Share = 0.1  # after each sub-layer and on the input, as in the paper
    attention_dropout: Share = 0.0  # dropout rate of the attention weights
    feed_forward_dropout: Share = 0.0  # dropout rate inside the feed-forward network

    # Kernel of attention: torch's fused one, or Equation 1 line by line.
    attention: Annotated[Literal["fused", "readable"], or_registered("attention")] = "fused"
    init: Literal["xavier", "depth-scaled"] = "xavier"  # initialisation of the weights
    # Recompute activations in the backward pass: less memory.
    activation_checkpointing: bool = False

    n_classes: Count = 2  # classes of a classifier or tagger
    # How a classifier reduces token vectors to one.
    pooling: Literal["mean", "first", "max"] = "mean"
    unit_length: bool = False  # an embedder divides its vector by its length
    ngrams: Annotated[int, Field(ge=0)] = 0  # words in the longest n-gram; 0: no n-gram logits
    ngram_share: Share = 0.5  # weight of the n-gram logits; the encoder's have the rest
    ngram_buckets: Count = 2**20  # hash buckets of n-grams of several tokens


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


def own_variants(s: ModelSettings) -> list[str]:
    """Return the settings of a model whose value is registered, and not built in."""
    return [kind for kind in OF_MODEL if getattr(s, kind) in registered(kind)]


def preset(name: str, **changes: Any) -> ModelSettings:
    """Return a preset by name, with changes."""
    if name not in PRESETS:
        raise SettingsError(
            f"Unknown preset {name!r}.",
            f"The presets are {', '.join(PRESETS)}.",
            did_you_mean(name, PRESETS, "Print one: glassformer describe tiny."),
        )
    return PRESETS[name].replace(**changes)


def check_together(s: ModelSettings) -> None:
    """Refuse settings that are valid one by one but not together."""
    if s.d_model % s.n_heads:
        why = "Each head has width d_model / n_heads."
        _refuse(s, "n_heads", "d_model", why, divisors(s.d_model))
    if s.n_kv_heads is not None and s.n_heads % s.n_kv_heads:
        why = "Each key-value head serves n_heads / n_kv_heads query heads."
        _refuse(s, "n_kv_heads", "n_heads", why, divisors(s.n_heads))
    if s.positions == "rope" and s.d_model // s.n_heads % 2:
        why = "RoPE turns pairs of values, so a head needs an even width d_model / n_heads."
        even = [n for n in divisors(s.d_model) if s.d_model // n % 2 == 0]
        if even:
            _refuse(s, "n_heads", "positions", why, even)
        _refuse(s, "positions", "d_model", why, ["sinusoidal", "alibi", "relative"])
    if s.source_vocab_size is not None and s.kind != "translator":
        why = "Only a translator has a source vocabulary; vocab_size is the one of the others."
        _refuse(s, "source_vocab_size", "kind", why, [None])
    if s.source_vocab_size not in (None, s.vocab_size) and s.tie_source_target:
        why = "One embedding for source and target takes one vocabulary for both."
        _refuse(s, "tie_source_target", "source_vocab_size", why, [False])
    if s.ngrams and s.kind != "classifier":
        why = "n-grams vote for one class of the whole text."
        _refuse(s, "ngrams", "kind", why, [0])
    if s.start_vector == "zeros" and s.kind != "translator":
        why = "Only a translator's decoder begins with a mark that is no part of the text."
        _refuse(s, "start_vector", "kind", why, ["token"])
    if s.max_distance is not None and not s.positions.startswith("relative"):
        why = "Only relative positions are clipped at a distance."
        _refuse(s, "positions", "max_distance", why, ["relative", "relative-bucketed"])
    if s.positions == "relative-bucketed" and s.max_distance is not None and s.max_distance <= 16:
        why = "The nearest 16 distances have a bucket each; farther ones share the other buckets."
        _refuse(s, "max_distance", "positions", why, [17, 128])
    for vocabulary in ("vocab_size", "source_vocab_size"):
        size = getattr(s, vocabulary)
        if size is not None and s.pad_id >= size:
            why = f"Padding is a token: an id from 0 to {size - 1}."
            _refuse(s, "pad_id", vocabulary, why, [0])


def _refuse(s: ModelSettings, name: str, other: str, why: str, valid: Sequence[object]) -> None:
    raise SettingsError(
        f"{name} = {getattr(s, name)!r} does not go with {other} = {getattr(s, other)!r}.",
        why,
        f"Set {name} = {' or '.join(map(repr, valid))}.",
    )


class TextSettings(Settings):
    """A text: a split of a named set, or files of the user."""

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

    weight: Annotated[float, Field(gt=0)]  # share of the target tokens, for any source size
    begin: Share = 0.0  # share of the run after which the source is read
    end: Annotated[float, Field(gt=0, le=1)] = 1.0  # share of the run until which it is read


class NoiseSettings(Settings):
    """Share of the training pairs that get each kind of noise on both sides, every epoch anew."""

    lower: Share = 0.0  # lower case
    upper: Share = 0.0  # upper case
    capitalised: Share = 0.0  # first letter of each side in upper case
    unpunctuated: Share = 0.0  # without the final punctuation
    joined: Share = 0.0  # followed by another sentence of the same source
    copied: Share = 0.0  # with a URL, e-mail address, number, price, name, placeholder or emoji

    def __bool__(self) -> bool:
        return any(self.model_dump().values())


class DataSettings(Settings):
    """Training text, tokenizer and batches."""

    # "grammar": built-in sentences; a name of data/tasks.py: a synthetic task; "files": files of
    # the user; "mixture": drawn from `sources`; any other name: a named set.
    name: str = "grammar"
    source_language: str = "en"  # language code of the source
    target_language: str = "fr"  # language code of the target
    train: tuple[str, ...] = ()  # "files": a path per side, or one TSV, CSV or JSONL
    valid: tuple[str, ...] = ()  # of "files": the same for validation
    columns: tuple[str, ...] = ()  # of "files": names or numbers of the columns
    train_split: str = "train"  # of a named set
    # Text that replaces the training text at the end of a run: the domain the model is for.
    final: tuple[str, ...] = ()  # "files"
    final_split: str | None = None  # of a named set
    final_share: Annotated[float, Field(gt=0, lt=1)] = 0.1  # of the run's updates, or of its time
    sources: tuple[SourceSettings, ...] = ()  # of a mixture
    valid_sets: tuple[TextSettings, ...] = ()  # of a mixture; each is scored separately
    epoch_tokens: Count = 2_000_000  # target tokens of an epoch of a mixture
    directions: Literal["forward", "both"] = "forward"  # both: a tag names the output language
    typography: bool = False  # normalise text to the plain form of data/typography.py
    noise: NoiseSettings = NoiseSettings()
    clean: bool = False  # drop training pairs that break a rule of data/clean.py
    skip_bad: bool = False  # leave out bad rows instead of stopping
    labels: tuple[str, ...] = ()  # of a classifier, found in its training text

    examples: Count = 100_000  # of the grammar or a task
    valid_examples: Count = 1_000  # upper limit
    symbols: Count = 20  # of a task
    longest: Count = 32  # symbols of the longest example of a task

    subwords: Literal["bpe", "unigram"] = "bpe"  # subword algorithm
    joint_vocabulary: bool = True  # one vocabulary for source and target
    fold_case: bool = False  # lower-case all text
    normalization: Literal["nfkc", "identity"] = "nfkc"  # of characters, before tokenization
    byte_fallback: bool = False  # encode characters outside the vocabulary as bytes
    split_digits: bool = False  # one subword per digit
    subword_sampling: Share = 0.0  # BPE-dropout, or unigram sampling; 0: deterministic
    mask_rate: Share = 0.0  # share of input subwords replaced by <unk>; the MLM predicts them
    max_length: Count = 256  # subwords of a side; longer pairs are dropped, other texts cut
    batch_tokens: Count = 4_096  # cells of a batch on its longer side, with padding


class TrainSettings(Settings):
    """Optimizer, schedule, regularisation and logging of a run."""

    seed: Annotated[int, Field(ge=0, lt=2**64)] = 1  # torch's generator takes 64 bits
    start_from: str | None = None  # run folder or bundled model whose weights initialise this one
    # Where the model is trained: auto (CUDA, else MPS, else the CPU), cpu, mps, cuda or cuda:1.
    device: Annotated[str, Field(pattern=f"^({DEVICE})$")] = "auto"
    threads: Count = 2  # threads of a process
    # Processes of this machine that train together, each on its part of an update: two processes of
    # one thread are faster than two threads. Under torchrun its own number counts.
    processes: Count = 1
    # The limit that is reached first ends the run and its schedule.
    max_steps: Count = 10_000
    # Minutes of the whole run, resumed parts included; none: no limit.
    max_minutes: Annotated[float, Field(gt=0)] | None = None
    epochs: Count | None = None  # times that the training text is read; none: no limit

    optimizer: Annotated[Literal["adamw", "muon"], or_registered("optimizer")] = (
        "adamw"  # muon: Muon for matrices, AdamW for the rest
    )
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3  # peak
    muon_rate: Annotated[float, Field(gt=0)] = 0.02  # of the matrices, with Muon
    weight_decay: Annotated[float, Field(ge=0)] = 0.01  # decoupled, of matrices
    beta1: Share = 0.9  # of AdamW's first moment
    beta2: Share = 0.98  # of AdamW's second moment
    # Course of the learning rate after the warm-up.
    schedule: Annotated[
        Literal["inverse-sqrt", "cosine", "linear", "constant", "trapezoid"],
        or_registered("schedule"),
    ] = "inverse-sqrt"
    warmup: Annotated[int, Field(ge=0)] = 1_000  # updates over which the learning rate rises from 0
    warmup_share: Share | None = None  # of the run, instead of train.warmup
    decay_share: Annotated[float, Field(gt=0, le=1)] = 0.2  # of the run, with "trapezoid"
    # Share of the label's probability that is spread over the vocabulary.
    label_smoothing: Share = 0.1
    # Weight of R-Drop's KL term between two passes with their own dropout; 5 is customary.
    r_drop: Annotated[float, Field(ge=0)] = 0.0
    accumulate: Count = 1  # batches per update
    clip: Annotated[float, Field(gt=0)] = 1.0  # largest gradient norm
    ema: Share = 0.0  # decay of the weight average that is validated; 0: none
    # Of matrix products. On a GPU bf16 and fp16 are autocast, fp16 with a scaled loss, and tf32
    # rounds the factors of fp32. auto is bf16 where the processor or GPU has instructions for it,
    # else fp16 on CUDA, else fp32.
    precision: Literal["fp32", "tf32", "bf16", "fp16", "auto"] = "fp32"
    # On CUDA: only kernels that give the same bits again, which are slower; needed to resume to the
    # same bits there. The CPU always does.
    deterministic: bool = False
    compile: bool = False  # compile the model with torch.compile
    fully_shard: bool = False  # under torchrun: FSDP2 instead of DDP

    log_every: Count = 50  # updates between records of the log
    validate_every: Count = 500  # updates between validations, which also save a checkpoint
    keep: Count = 3  # checkpoints besides the best
    # Which validation score decides on the best checkpoint.
    metric: Annotated[Literal["loss", "bleu", "accuracy"], or_registered("metric")] = "loss"
    patience: Count | None = None  # validations without improvement before stopping
    target: float | None = None  # score at which the run stops
    tensorboard: bool = False  # write TensorBoard logs as well
    attention_entropy: bool = False  # log the entropy of each layer's attention at validation


class SearchSettings(Settings):
    """Default search options of a translator."""

    # Exponent α of Wu et al., Equation 14; 0 ranks by log-probability.
    length_penalty: Annotated[float, Field(ge=-100, le=100)] = 0.6


class RunSettings(Settings):
    """A recipe: the settings of a training run and of its model."""

    model: ModelSettings = ModelSettings()
    data: DataSettings = DataSettings()
    train: TrainSettings = TrainSettings()
    search: SearchSettings = SearchSettings()


def parse_changes(changes: Sequence[str]) -> dict[str, Any]:
    """Parse `name=value` and `section.name=value` arguments into nested sections."""
    return _nested(changes, lambda path: path)


def parse_run_changes(changes: Sequence[str]) -> dict[str, Any]:
    """Parse the changes of a recipe: a section may be left out, and common aliases are known."""
    names = names_of(RunSettings)
    return _nested(changes, lambda path: resolve(path, names))


def _nested(changes: Sequence[str], meant: Callable[[str], str]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for change in changes:
        path, equals, value = change.partition("=")
        if not equals:
            raise SettingsError(
                f"{shown(change)} is not a change of a setting.",
                "A change is name=value, without spaces.",
                "For example n_heads=8, or train.max_steps=1000 for a recipe.",
            )
        *sections, name = meant(path).split(".")
        place = parsed
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                break
        if not isinstance(place, dict) or isinstance(place.get(name), dict):
            raise SettingsError(
                f"{shown(change)} changes a section and one of its settings at once.",
                "A section has no value besides its settings.",
                "Change the settings only, for example train.max_steps=1000.",
            )
        place[name] = _toml_value(value)
    return parsed


def _toml_value(text: str) -> Any:
    """Parse a number, boolean or list as in TOML; anything else is a string without quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
