"""Which settings of a run go together, before any text is read."""

from glassformer.config import DataSettings, RunSettings
from glassformer.data import datasets, tasks
from glassformer.data.tokenizer import PAD
from glassformer.errors import SettingsError

TASK, GRAMMAR, FILES, SET = "a task", "the grammar", "files", "a named set"
MIXTURE = "a mixture"
TEXT = [GRAMMAR, FILES, SET, MIXTURE]
MEANT_FOR = {  # settings of [data] that mean nothing elsewhere
    "train": [FILES],
    "valid": [FILES],
    "columns": [FILES],
    "train_split": [SET],
    "final": [FILES],
    "final_split": [SET],
    "source_language": [FILES, SET, MIXTURE],
    "target_language": [FILES, SET, MIXTURE],
    "sources": [MIXTURE],
    "valid_sets": [MIXTURE],
    "epoch_tokens": [MIXTURE],
    "directions": TEXT,
    "typography": TEXT,
    "noise": TEXT,
    "clean": [FILES, SET, MIXTURE],
    "normalization": TEXT,
    "byte_fallback": TEXT,
    "split_digits": TEXT,
    "examples": [TASK, GRAMMAR],
    "symbols": [TASK],
    "longest": [TASK],
    "subwords": TEXT,
    "joint_vocabulary": TEXT,
    "fold_case": TEXT,
    "subword_sampling": [GRAMMAR, FILES, SET],
    "mask_rate": TEXT,
    "max_length": TEXT,
}


def check(settings: RunSettings) -> None:
    """Refuse data, a kind of model and ways to train that do not go together."""
    _check_kind(settings)
    _check_meaning(settings)
    _check_final(settings.data)
    _check_mask_rate(settings)
    _check_labels(settings)
    _check_mixture(settings.data)
    _check_pairs(settings)
    _check_sizes(settings)
    model, train = settings.model, settings.train
    if train.r_drop and not (
        model.dropout or model.attention_dropout or model.feed_forward_dropout
    ):
        raise SettingsError(
            f"train.r_drop = {train.r_drop} does not go with model.dropout = 0.",
            "Two passes agree on everything if nothing is dropped, and take twice the time.",
            "Set model.dropout = 0.3, or leave train.r_drop out.",
        )


def origin(data: DataSettings) -> str:
    """Where the examples come from."""
    if data.name in tasks.TASKS:
        return TASK
    return {"grammar": GRAMMAR, "files": FILES, "mixture": MIXTURE}.get(data.name, SET)


def _check_kind(settings: RunSettings) -> None:
    kind, data = settings.model.kind, settings.data
    valid = {
        TASK: ["translator", "tagger"],
        GRAMMAR: ["translator", "language-model", "masked-language-model"],
        MIXTURE: ["translator", "language-model", "masked-language-model"],
    }.get(origin(data), ["translator", "language-model", "masked-language-model", "classifier"])
    if kind not in valid:
        raise SettingsError(
            f"model.kind = {kind!r} does not go with data.name = {data.name!r}.",
            "A task is tagged or decoded; text is translated, classified or continued.",
            f"Set model.kind = {' or '.join(map(repr, valid))}.",
        )


def _check_meaning(settings: RunSettings) -> None:
    """A setting that would be passed over is a mistake: of the setting, or of data.name."""
    data, here = settings.data, origin(settings.data)
    for name, places in MEANT_FOR.items():
        value, named = getattr(data, name), " = 'files'" if places == [FILES] else ""
        if here not in places and value != DataSettings.model_fields[name].default:
            raise SettingsError(
                f"data.{name} = {value!r} does not go with data.name = {data.name!r}.",
                f"It is for {' and '.join(places)}, and would be passed over.",
                f"Leave it out, or set data.name{named}.",
            )
    languages = data.source_language, data.target_language
    if here == SET and settings.model.kind != "translator" and languages != ("en", "fr"):
        raise SettingsError(
            f"The languages {' and '.join(languages)} do not go with a {settings.model.kind}.",
            f"Only a translator chooses among the columns of {data.name}; others read the first.",
            "Leave them out, or name the text itself: data.name = 'files'.",
        )


def _check_mixture(data: DataSettings) -> None:
    if data.name != "mixture":
        return
    for name, entries in {"sources": data.sources, "valid_sets": data.valid_sets}.items():
        names = [entry.name for entry in entries]
        if not names or len(set(names)) < len(names):
            raise SettingsError(
                f"data.{name} names {', '.join(names) or 'nothing'}.",
                "A mixture has sources and sets to validate on, each with a name of its own.",
                f"Write a table [[data.{name}]] for each: name, and set and split or files.",
            )


def _check_pairs(settings: RunSettings) -> None:
    """Directions and noise are of pairs, whose text can be had back from their subwords."""
    data, kind = settings.data, settings.model.kind
    asked = {
        "directions = 'both'": data.directions == "both",
        "noise": bool(data.noise),
    }
    for name in [name for name, given in asked.items() if given]:
        if kind != "translator" or not data.joint_vocabulary or data.subword_sampling:
            raise SettingsError(
                f"data.{name} does not go with model.kind = {kind!r}, data.joint_vocabulary = "
                f"{str(data.joint_vocabulary).lower()} and data.subword_sampling = "
                f"{data.subword_sampling}.",
                "It changes pairs of a translator, in one vocabulary and in fixed subwords.",
                f"Leave data.{name.split()[0]} out, or the others as they are by default.",
            )
    if data.clean and kind != "translator":
        raise SettingsError(
            f"data.clean = true does not go with model.kind = {kind!r}.",
            "Its rules compare the two sides of a pair.",
            "Leave data.clean out.",
        )
    if data.noise and not (data.byte_fallback and data.normalization == "identity"):
        raise SettingsError(
            f"data.noise does not go with data.byte_fallback = {str(data.byte_fallback).lower()} "
            f"and data.normalization = {data.normalization!r}.",
            "Noise takes a text back from its subwords, which must spell it to the letter.",
            "Set data.byte_fallback = true and data.normalization = 'identity'.",
        )


def _check_final(data: DataSettings) -> None:
    if not has_final(data) and data.final_share != DataSettings.model_fields["final_share"].default:
        raise SettingsError(
            f"data.final_share = {data.final_share} is the share of a text that is not named.",
            "It says how much of a run reads another text in the end.",
            "Set data.final_split, or data.final with data.name = 'files'; or leave it out.",
        )


def has_final(data: DataSettings) -> bool:
    """Return whether the end of a run reads another text."""
    return bool(data.final or data.final_split)


def _check_mask_rate(settings: RunSettings) -> None:
    kind, data = settings.model.kind, settings.data
    if kind == "masked-language-model" and not data.mask_rate:
        raise SettingsError(
            f"data.mask_rate = {data.mask_rate} does not go with model.kind = {kind!r}.",
            "It learns to predict the masked share of its input.",
            "Set data.mask_rate = 0.15, as is customary.",
        )
    if kind == "masked-language-model" and data.subword_sampling:
        raise SettingsError(
            f"data.subword_sampling = {data.subword_sampling} does not go with "
            f"model.kind = {kind!r}.",
            "Its texts are cut into pieces by their subwords, which therefore stay as they are.",
            "Leave data.subword_sampling out: the mask is drawn anew in each epoch anyway.",
        )


def _check_labels(settings: RunSettings) -> None:
    """Refuse a named set without labels: every sentence would be a class of its own."""
    data = settings.data
    if settings.model.kind != "classifier" or origin(data) != SET:
        return
    sheet = datasets.manifest(data.name)
    for name in ("train_split", "final_split"):
        split = getattr(data, name)
        part = sheet.splits.get(split)  # one that is not there is told of later
        if not sheet.labels or (part and part.columns and part.columns[-1] != sheet.columns[-1]):
            raise SettingsError(
                f"data.{name} = {split!r} of {data.name} does not go with "
                "model.kind = 'classifier'.",
                "It has no labels.",
                "Take a set and a split that have them: glassformer data list.",
            )


def _check_sizes(settings: RunSettings) -> None:
    model, data, task = settings.model, settings.data, origin(settings.data) == TASK
    if task and data.longest < 2:
        raise SettingsError(
            f"data.longest = {data.longest} does not go with data.name = {data.name!r}.",
            "The sequences of a task are 2 symbols long or longer.",
            "Set data.longest to 2 or more.",
        )
    if model.pad_id != PAD:
        raise SettingsError(
            f"model.pad_id = {model.pad_id} does not go with training here.",
            f"Batches are padded with {PAD}: the padding would be read, and a subword would not.",
            "Leave model.pad_id out.",
        )
    if model.source_vocab_size and data.joint_vocabulary and not task:
        raise SettingsError(
            f"model.source_vocab_size = {model.source_vocab_size} does not go with "
            "data.joint_vocabulary = true.",
            "A joint vocabulary is of one size for both sides.",
            "Set data.joint_vocabulary = false, or leave model.source_vocab_size out.",
        )
    length = data.longest if task else data.max_length
    needed = length + (model.kind != "tagger")  # a mark of the beginning or the end
    if model.positions == "learned" and model.max_positions < needed:
        raise SettingsError(
            f"model.max_positions = {model.max_positions} does not go with "
            f"data.{'longest' if task else 'max_length'} = {length}.",
            f"Learned positions are a table, and the longest text takes {needed} rows of it.",
            f"Set model.max_positions = {needed}, or take shorter texts.",
        )
