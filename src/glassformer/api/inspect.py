"""Look inside a model in one call: attention and search of one text, or its heads over many."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import InputError
from glassformer.extras import require_torch
from glassformer.pipeline import Generator, Pipeline, Translator, load
from glassformer.progress import progress as show_progress

if TYPE_CHECKING:
    from glassformer.inspect.statistics import HeadStatistics
    from glassformer.inspect.trace import Trace

Model = str | Path | Pipeline


def inspect(
    model: Model,
    text: str,
    target: str | None = None,
    *,
    to: str | None = None,
    beam_size: int | None = None,
    truncate: bool = False,
    int8: bool | None = None,
    threads: int | None = None,
    device: str | None = None,
    name: str | None = None,
    **search: Any,
) -> "Trace":
    """Return the trace of one text: attention, search and saliency; `glassformer inspect`.

        trace = gf.inspect("en-fr", "A man is riding a red bicycle.")
        trace.show()                                  # an interactive view, in Jupyter or a browser
        trace.attention["cross"][layer, head]         # target × source

    model      folder of a run or checkpoint, a bundled model, or load(..., engine="torch").
    target     output that the model is forced to give, instead of searching for one.
    to         target language of a translator of two directions. None: its first.
    beam_size  of the search. None: 5. `search` are further options of `SearchOptions`.
    truncate   cut a text that is too long for the model, instead of refusing it.
    int8       round the weights to eight bits, as `quantize` does.
    device     of a model given by name, as for `load`.
    name       of the model in the trace. None: its folder or kind.

    In a notebook the trace shows as an attention view in a frame of its own. No network is used,
    and nothing in the texts can become markup or script.
    """
    require_torch("glassformer.inspect")
    from glassformer.inspect.trace import trace_of

    loaded = _on_torch(model, to, int8, threads, device)
    called = name or (str(model) if isinstance(model, str | Path) else loaded.settings.model.kind)
    if beam_size is not None:
        search["beam_size"] = beam_size
    elif target is None and isinstance(loaded, Translator | Generator):
        search.setdefault("beam_size", 5)
    return trace_of(loaded, text, target, name=called, truncate=truncate, **search)


def inspect_heads(
    model: Model,
    texts: Sequence[str],
    references: Sequence[str] | None = None,
    *,
    to: str | None = None,
    beam_size: int = 1,
    truncate: bool = False,
    int8: bool | None = None,
    threads: int | None = None,
    device: str | None = None,
    progress: bool = True,
) -> "HeadStatistics":
    """Return figures of every head over many texts; `glassformer inspect --corpus`.

    The figures: how sharp a head is, how far and where it looks, which other head is most similar.
    With the references of a translator, also the change in BLEU when one head at a time is masked.
    """
    require_torch("glassformer.inspect")
    from glassformer.evaluate.examples import check_fit
    from glassformer.inspect.importance import importance
    from glassformer.inspect.statistics import head_statistics
    from glassformer.pipeline.batches import check_counts, check_list

    check_list(texts)
    loaded = _on_torch(model, to, int8, threads, device)
    watch = partial(show_progress, shown=progress)
    sources, longest = list(texts), loaded.settings.data.max_length
    outputs = sources
    if references is not None:
        if not isinstance(loaded, Translator):
            raise InputError(
                "References were given for a model that is not a translator.",
                "They are the right translations of the texts.",
                "Leave them out, or name the run of a translator.",
            )
        check_counts(sources, references, "references")
        outputs = list(references)
    if not truncate:
        check_fit(sources, loaded.tokenizer, longest)
        if isinstance(loaded, Translator) and references is not None:
            check_fit(outputs, loaded.target_tokenizer, longest)
    if isinstance(loaded, Translator) and references is None:
        outputs = loaded.translate(
            sources, beam_size, split=False, typeset=False, truncate=truncate
        )
    pairs = list(zip(sources, outputs, strict=True))
    with watch("reading", len(pairs)) as tick:
        found = head_statistics(loaded, pairs, truncate=truncate, tick=tick)
    if isinstance(loaded, Translator) and references is not None:
        worth = importance(loaded, sources, outputs, beam_size, truncate, watch)
        found = found.with_importance(*worth)
    return found


def _on_torch(
    model: Model, to: str | None, int8: bool | None, threads: int | None, device: str | None
) -> Pipeline:
    """Load a model on torch, unless it is loaded; choose the direction of a translator."""
    if isinstance(model, str | Path):
        loaded = load(model, int8, "torch", threads, device or "cpu")
    else:
        loaded = model
    if isinstance(loaded, Translator):
        return loaded.towards(to or loaded.to or loaded.targets[0])
    if to is not None:
        raise InputError(
            f"to={to!r} was given for a {loaded.settings.model.kind}.",
            "Only a translator has a target language.",
            "Leave it out.",
        )
    return loaded
