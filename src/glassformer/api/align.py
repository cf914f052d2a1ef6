"""Word alignment in one call: of your own texts, or scored on the embedded grammar."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, overload

from glassformer.extras import require_torch
from glassformer.progress import progress as show_progress

if TYPE_CHECKING:
    from glassformer.inspect.aligner import Aligner, Alignment
    from glassformer.inspect.alignment_scores import AlignmentScores


@overload
def align(
    model: str | Path, sources: None = None, *, head: str | None = ..., sentences: int = ...,
    int8: bool | None = ..., threads: int | None = ..., device: str = ...,
    batch_tokens: int | None = ..., command: str | None = ..., progress: bool = ...,
) -> "AlignmentScores": ...  # fmt: skip
@overload
def align(
    model: str | Path, sources: Sequence[str], targets: Sequence[str] | None = None, *,
    to: str | None = ..., head: str | None = ..., beam_size: int = ..., tokenised: bool = ...,
    int8: bool | None = ..., threads: int | None = ..., device: str = ...,
    batch_tokens: int | None = ..., progress: bool = ...,
) -> "Alignment": ...  # fmt: skip
def align(
    model: str | Path,
    sources: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    *,
    to: str | None = None,
    head: str | None = None,
    beam_size: int = 5,
    tokenised: bool = False,
    sentences: int = 1_000,
    int8: bool | None = None,
    threads: int | None = None,
    device: str = "cpu",
    batch_tokens: int | None = None,
    command: str | None = None,
    progress: bool = True,
) -> "Alignment | AlignmentScores":
    """Align words by the cross-attention of a translator; `glassformer align`.

        gf.align("en-fr", ["A dog runs."], ["Un chien court."]).pharaoh()   # ['0-0 1-1 2-2 3-3']
        gf.align("runs/demo")                                               # its error rates

    model      folder of a run or checkpoint, or a bundled translator.
    sources    texts whose words to align. None: score every head on the embedded grammar, whose
               true alignment is known.
    targets    their translations. None: translate them, with a beam of `beam_size`.
    to         target language of a translator of two directions. None: its first.
    head       `3.2` is head 2 of layer 3, `3` the average of layer 3, `all` that of all. `+1` reads
               it one step later, `:share` links by share of attention. None: chosen by the data.
    tokenised  words are separated by spaces alone; otherwise punctuation is split off.
    device     as for `load`.
    sentences  of the grammar to choose heads on; as many others are measured on.
    """
    require_torch("glassformer.align")
    from glassformer.inspect.word_attention import BATCH_TOKENS
    from glassformer.pipeline.batches import check_counts, check_list

    aligner = _aligner(model, to, int8, threads, device, batch_tokens or BATCH_TOKENS, progress)
    chosen = aligner.head(head)
    if sources is None:
        quoted = command or f"glassformer.align({str(model)!r})"
        return aligner.scores(str(model), quoted, chosen, sentences)
    check_list(sources)
    if targets is not None:
        check_list(targets)
        check_counts(sources, targets, "targets")
    return aligner.align(aligner.pairs(sources, targets, beam_size, tokenised), chosen)


def _aligner(
    model: str | Path,
    to: str | None,
    int8: bool | None,
    threads: int | None,
    device: str,
    batch_tokens: int,
    progress: bool,
) -> "Aligner":
    from glassformer.inspect.aligner import Aligner
    from glassformer.pipeline import load_translator

    translator = load_translator(model, int8, engine="torch", threads=threads, device=device)
    translator = translator.towards(to or translator.targets[0])
    return Aligner(translator, partial(show_progress, shown=progress), batch_tokens)
