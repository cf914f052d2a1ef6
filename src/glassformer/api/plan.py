"""Choose the settings of a run from the size of the data and the training time.

The anchors are measured runs (docs/multi30k.md, docs/imdb.md, docs/wmt14.md, docs/en-fr.md); sizes
between them follow the nearest. Only counts of the text are used.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.config import RunSettings
from glassformer.data.own import HELD_OUT, Kind

MINUTES = 20.0  # where none are named
TRAINING_SHARE = 0.9  # of the minutes; subwords, n-gram counts and loading take the rest
# Measured: 7,000 target tokens/s of 2.3 million parameters on two cores; time grows with both.
TOKENS_PER_SECOND, OF_PARAMETERS, OF_CORES = 7_000, 2.3e6, 2
SUBWORDS_PER_WORD = 1.35  # with 8,000 subwords of European text, punctuation included
UPDATE_TOKENS = 4_096  # of all processes together
SMALL_UPDATE_TOKENS = 1_024  # of less text than 20 updates of the usual size
VALIDATIONS = 20  # in a run
PATIENCE = 6  # validations without a better score: 30% of a run
MAX_PROCESSES = 4  # each has its own copy of the model and its part of an update
WARMUP_SHARE = 0.04  # of a run: 300 of 8,000 updates
EMA_UPDATES = 20  # an average of weights covers 1/20 of a run; shorter runs do worse with one
MIN_EMA_UPDATES = 800  # 400 updates lose 0.8 BLEU by an average
# Epochs after which small text is known by heart; Multi30k improves for 100.
MAX_EPOCHS = {"translator": 100, "classifier": 20}
MAX_VALID = {"translator": 500, "classifier": 2_000}


@dataclass(frozen=True)
class Counts:
    """The size of the text to train on."""

    rows: int
    words: int  # of the longer side
    characters: int  # distinct
    longest_usual: int  # words of the text that 95% of the texts do not exceed

    @classmethod
    def of(cls, rows: Sequence[Sequence[Any]], text_sides: int) -> "Counts":
        lengths = [[len(str(row[side]).split()) for side in range(text_sides)] for row in rows]
        words = max(sum(row[side] for row in lengths) for side in range(text_sides))
        characters = {c for row in rows for side in range(text_sides) for c in str(row[side])}
        longest = sorted(map(max, lengths))[int(0.95 * (len(rows) - 1))]
        return cls(len(rows), words, len(characters), longest)


@dataclass(frozen=True)
class Plan:
    """Chosen settings, and one line that says what was chosen."""

    settings: RunSettings
    line: str


def valid_count(kind: Kind, rows: int) -> int:
    """Return how many rows to validate on."""
    share = HELD_OUT[kind == "translator"]
    return max(1, min(MAX_VALID[kind], rows // share))


def plan(
    kind: Kind,
    counts: Counts,
    languages: tuple[str, str],
    minutes: float = MINUTES,
    cores: int | None = None,
) -> Plan:
    """Choose model, subwords, batch, schedule and stopping."""
    threads = cores or len(os.sched_getaffinity(0))
    sections = _translator(counts, languages) if kind == "translator" else _classifier(counts)
    return _for_time(kind, sections, counts, minutes, threads)


def _translator(counts: Counts, languages: tuple[str, str]) -> dict[str, Any]:
    if counts.rows < 200_000:  # recipe multi30k
        layers = 3 if counts.rows < 5_000 else 4
        model: dict[str, Any] = {
            "d_model": 128,
            "d_ff": 256,
            "encoder_layers": layers,
            "decoder_layers": layers,
        }
    else:  # recipe wmt14
        model = {"d_model": 192, "d_ff": 768, "encoder_layers": 4, "decoder_layers": 2}
        model["positions"] = "rope"
    return {
        "model": {**model, "kind": "translator", "vocab_size": _subwords(counts)},
        "data": {"source_language": languages[0], "target_language": languages[1]},
        "train": {"metric": "bleu", "learning_rate": 0.005, "muon_rate": 0.02},
        "search": {"length_penalty": 1.0},
    }


def _classifier(counts: Counts) -> dict[str, Any]:
    """Recipe imdb without pre-training: n-grams need a minute, the encoder adds to them."""
    longest = int(SUBWORDS_PER_WORD * counts.longest_usual)
    model = {
        "kind": "classifier", "vocab_size": _subwords(counts), "d_model": 128, "d_ff": 512,
        "encoder_layers": 4 if counts.words > 500_000 else 2, "positions": "rope",
        "ngrams": 3 if counts.rows >= 2_000 else 2, "ngram_share": 0.65,
        "ngram_buckets": min(2**22, max(2**14, 2 ** (counts.words // 2).bit_length())),
    }  # fmt: skip
    return {
        "model": model,
        "data": {
            "fold_case": True, "mask_rate": 0.15, "max_length": min(768, max(64, longest)),
        },
        "train": {"metric": "accuracy", "learning_rate": 0.002, "muon_rate": 0.01},
    }  # fmt: skip


def _subwords(counts: Counts) -> int:
    """Return the size of the vocabulary: each subword occurs about 40 times on average."""
    sizes = [size for size in (500, 1_000, 2_000, 4_000, 8_000) if 40 * size <= counts.words]
    size = max(sizes, default=500)
    if counts.words > 5_000_000 and counts.rows < 200_000:  # long texts, as those of recipe imdb
        size = 16_000
    return size + counts.characters  # every character is a subword


def _for_time(
    kind: Kind, sections: dict[str, Any], counts: Counts, minutes: float, threads: int
) -> Plan:
    """Add what depends on the time: dropout by epochs, average and validations by updates."""
    tokens = SUBWORDS_PER_WORD * counts.words
    update = UPDATE_TOKENS if tokens > 20 * UPDATE_TOKENS else SMALL_UPDATE_TOKENS
    processes = min(threads, MAX_PROCESSES) if update == UPDATE_TOKENS else 1
    draft = RunSettings().replace(**sections)
    speed = TOKENS_PER_SECOND * OF_PARAMETERS / _parameters(draft) * threads / OF_CORES
    training = TRAINING_SHARE * minutes
    updates = max(20, int(60 * training * speed / update))
    epochs = min(MAX_EPOCHS[kind], updates * update / tokens)
    updates = min(updates, max(20, int(epochs * tokens / update)))
    averaged = updates >= MIN_EMA_UPDATES
    settings = draft.replace(
        model={"dropout": dropout_for(epochs)},
        data={"batch_tokens": update // processes},
        train={
            "max_minutes": round(training, 2), "max_steps": 1_000_000, "epochs": MAX_EPOCHS[kind],
            "optimizer": "muon",
            "processes": processes, "threads": max(1, threads // processes),
            "schedule": "linear", "warmup_share": WARMUP_SHARE, "precision": "auto",
            "ema": round(min(0.998, 1 - EMA_UPDATES / updates), 4) if averaged else 0.0,
            "validate_every": max(10, updates // VALIDATIONS), "patience": PATIENCE,
            "log_every": max(1, min(50, updates // 40)),
        },
    )  # fmt: skip
    return Plan(settings, _line(settings, updates, epochs, minutes))


def dropout_for(epochs: float) -> float:
    """Return the dropout rate for text that is read `epochs` times.

    On Multi30k 0.2 is better than 0.3 in nine minutes, and worse in a hundred epochs.
    """
    return 0.3 if epochs > 60 else 0.2 if epochs > 3 else 0.1 if epochs > 1.5 else 0.0


def _parameters(settings: RunSettings) -> float:
    """Return about the number of weights that a token is multiplied by."""
    m = settings.model
    layers = m.encoder_layers + (m.decoder_layers if m.kind == "translator" else 0)
    cross = m.decoder_layers if m.kind == "translator" else 0
    output = m.vocab_size if m.kind == "translator" else 0
    matrices = layers * (4 * m.d_model**2 + 2 * m.d_model * m.d_ff) + cross * 4 * m.d_model**2
    return matrices + output * m.d_model


def _line(settings: RunSettings, updates: int, epochs: float, minutes: float) -> str:
    m, t = settings.model, settings.train
    is_translator = m.kind == "translator"
    layers = f"{m.encoder_layers}+{m.decoder_layers}" if is_translator else str(m.encoder_layers)
    how = f"{t.processes} processes" if t.processes > 1 else f"{t.threads} threads"
    votes = "" if is_translator else f", n-grams of up to {m.ngrams} words"
    return (
        f"{m.kind} of width {m.d_model}, {layers} layers, {m.vocab_size:,} subwords, dropout "
        f"{m.dropout:g}{votes}; at most {minutes:g} minutes and {t.epochs} epochs, about "
        f"{updates:,} updates ({epochs:,.1f} epochs) in {how}, a validation every "
        f"{t.validate_every:,}, a stop after {t.patience} without a better {t.metric}"
    )
