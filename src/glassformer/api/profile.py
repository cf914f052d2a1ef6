"""Measure time and memory of each part of decoding, in one call."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.api.torch_state import own_torch_state
from glassformer.config import PRESETS
from glassformer.errors import SettingsError
from glassformer.extras import require_torch
from glassformer.progress import progress as show_progress

if TYPE_CHECKING:
    from glassformer.bench.profile import Subject
    from glassformer.bench.report import Report

QUICK = 4  # tokens of an output with `quick`, which tests the measurement itself


@dataclass(frozen=True)
class Profile:
    """The measurements of a model, and the model with its sentences."""

    report: "Report"  # `tables` has the figures; `save(path)` writes them as JSON
    subject: "Subject"

    def write_trace(self, path: str | Path) -> None:
        """Trace a few steps into a file that https://ui.perfetto.dev shows."""
        from glassformer.bench.profile import write_trace

        write_trace(self.subject, Path(path))


def profile(
    model: str,
    texts: Sequence[str] | Path | None = None,
    *,
    beam_size: int = 5,
    threads: int = 2,
    device: str = "cpu",
    sentences: int = 64,
    quick: bool = False,
    command: str = "glassformer.profile(...)",
    progress: bool = True,
) -> Profile:
    """Measure time, memory, latency and the cost of a token; `glassformer profile`.

    model      folder of a translator's run, a bundled model, or a preset with random weights.
    texts      sentences to translate, or a file of them. None: the embedded grammar.
    sentences  to translate, at most.
    device     auto, cpu, cuda, cuda:1 or mps.
    quick      use toy sizes, to test the measurement itself.
    command    the text that the report quotes as its origin.

    The torch model is measured, in fp32.
    """
    require_torch("glassformer.profile")
    import torch

    from glassformer.bench.profile import Plan, profile_decoding

    with own_torch_state():
        torch.set_num_threads(threads)
        plan = Plan.quick(sentences) if quick else Plan(sentences)
        subject = _subject(model, texts, plan.sentences, beam_size, device)
        subject = subject.shortened(QUICK) if quick else subject
        plan = plan.fitting(subject)
        with show_progress("measuring", plan.steps, progress) as tick:
            return Profile(profile_decoding(subject, plan, command, tick), subject)


def _subject(
    name: str, texts: Sequence[str] | Path | None, count: int, beam: int, device: str
) -> "Subject":
    from glassformer.bench.profile import preset_subject, run_subject
    from glassformer.device import resolve

    if name not in PRESETS:
        from glassformer.pipeline import load_translator

        translator = load_translator(name, engine="torch", device=device)
        return run_subject(name, translator, _sentences(texts, count), beam)
    if texts is not None:
        raise SettingsError(
            f"{name} cannot read {texts if isinstance(texts, Path) else 'texts'}.",
            "A preset has random weights and no subwords.",
            "Leave --source out, or name a trained model.",
        )
    return preset_subject(name, count, beam, resolve(device))


def _sentences(texts: Sequence[str] | Path | None, count: int) -> list[str]:
    """Return texts, lines of a file without empty ones, or sentences of the embedded grammar."""
    from glassformer.data import grammar
    from glassformer.data.corpus import Corpus, TextFiles

    if texts is None:
        return [pair.source for pair in grammar.pairs("test", count)]
    if not isinstance(texts, Path):
        return list(texts[:count])
    corpus = Corpus(TextFiles((texts,), format="lines"), skip_bad=True)
    return [text for (text,) in islice(corpus, count)]
