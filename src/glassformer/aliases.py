"""Names that people know from elsewhere, and the setting that a wrong name most likely means."""

from collections.abc import Mapping, Sequence

from glassformer.errors import near_name

# Names of the same thing in the same unit: a command line takes them.
ALIASES = {
    "lr": "train.learning_rate",
    "max_lr": "train.learning_rate",
    "peak_lr": "train.learning_rate",
    "wd": "train.weight_decay",
    "steps": "train.max_steps",
    "max_updates": "train.max_steps",
    "train_steps": "train.max_steps",
    "minutes": "train.max_minutes",
    "max_epochs": "train.epochs",
    "num_epochs": "train.epochs",
    "num_train_epochs": "train.epochs",
    "warmup_steps": "train.warmup",
    "warmup_updates": "train.warmup",
    "warmup_ratio": "train.warmup_share",
    "gradient_accumulation_steps": "train.accumulate",
    "grad_clip": "train.clip",
    "max_grad_norm": "train.clip",
    "random_seed": "train.seed",
    "vocab": "model.vocab_size",
    "hidden_size": "model.d_model",
    "embed_dim": "model.d_model",
    "ffn_dim": "model.d_ff",
    "heads": "model.n_heads",
    "num_heads": "model.n_heads",
    "kv_heads": "model.n_kv_heads",
    "num_encoder_layers": "model.encoder_layers",
    "num_decoder_layers": "model.decoder_layers",
    "dropout_rate": "model.dropout",
    "max_len": "data.max_length",
    "max_seq_len": "data.max_length",
    "src_lang": "data.source_language",
    "tgt_lang": "data.target_language",
}
# Names of something alike in another unit: they are suggested only.
OTHER_UNIT = {
    "batch_size": ("data.batch_tokens", "in tokens, not in sentences"),
    "micro_batch_size": ("data.batch_tokens", "in tokens, not in sentences"),
    "hours": ("train.max_minutes", "in minutes"),
    "layers": ("model.encoder_layers", "and model.decoder_layers"),
    "num_layers": ("model.encoder_layers", "and model.decoder_layers"),
}


def resolve(path: str, names: Sequence[str]) -> str:
    """Return the setting that a name on the command line means; `names` are all, with sections.

    A name without its section is that of the one setting called so; an alias is replaced.
    """
    section, _, name = path.rpartition(".")
    if path in names:
        return path
    alias = _alias(name, names)
    if alias is not None and section in ("", alias.rpartition(".")[0]):
        return alias
    alike = [known for known in names if known.rpartition(".")[2] == name]
    return alike[0] if not section and len(alike) == 1 else path


def suggestion(path: str, names: Sequence[str]) -> str:
    """Return what a wrong name most likely means, or how to list all if nothing is near."""
    section, _, name = path.rpartition(".")
    leaves: dict[str, list[str]] = {}
    for known in names:
        leaves.setdefault(known.rpartition(".")[2], []).append(known)
    if name in OTHER_UNIT and OTHER_UNIT[name][0] in names:
        meant, unit = OTHER_UNIT[name]
        return f"did you mean {meant!r} ({unit})?"
    here = [known for known in names if known.rpartition(".")[0] == section]
    near = (
        (_near_section(path, names) if not section else None)
        or _alias(name, names)
        or next(iter(leaves.get(name, [])), None)
        or _near(name, here)
        or _near(name, names)
    )
    return f"did you mean {near!r}?" if near else "list all settings: glassformer settings"


def _alias(name: str, names: Sequence[str]) -> str | None:
    """Return the setting of an alias, without its section where `names` are of one section."""
    alias = ALIASES.get(name, "")
    return next((known for known in (alias, alias.rpartition(".")[2]) if known in names), None)


def _near(name: str, names: Sequence[str]) -> str | None:
    by_leaf: Mapping[str, str] = {known.rpartition(".")[2]: known for known in reversed(names)}
    found = near_name(name, by_leaf)
    return None if found is None else by_leaf[found]


def _near_section(path: str, names: Sequence[str]) -> str | None:
    return near_name(path, {known.rpartition(".")[0] for known in names} - {""})
