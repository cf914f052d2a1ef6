"""Evaluate a model in one call: on lists, files or a named set, or by the behaviour suite."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer import pretrained
from glassformer.data import datasets
from glassformer.data.direction import from_language
from glassformer.errors import CheckpointError, InputError, SettingsError
from glassformer.extras import is_installed
from glassformer.pipeline import (
    BATCH_TOKENS,
    Classifier,
    Pipeline,
    Translator,
    load,
    load_translator,
)
from glassformer.pipeline.engines import has_torch_module
from glassformer.progress import Fetching, say, silent, watched_fetching
from glassformer.progress import progress as show_progress

if TYPE_CHECKING:
    from glassformer.evaluate.behaviour import BehaviourReport
    from glassformer.evaluate.evaluation import Evaluation, How, Tokens
    from glassformer.evaluate.examples import Data, Examples, Selection
    from glassformer.evaluate.suite import Suite

Model = str | Path | Pipeline


def evaluate(
    model: Model,
    data: "Data",
    *,
    split: str = "valid",
    columns: Sequence[str] = (),
    limit: int | None = None,
    skip_bad: bool = False,
    to: str | None = None,
    beam_size: int | None = None,
    length_penalty: float | None = None,
    int8: bool | None = None,
    threads: int | None = None,
    device: str | None = None,
    batch_tokens: int = BATCH_TOKENS,
    truncate: bool | None = None,
    tokenised_output: bool = False,
    language: str | None = None,
    beams: bool = False,
    failures: int = 0,
    training_text: str | Path | None = None,
    name: str | None = None,
    command: str | None = None,
    progress: bool = True,
) -> "Evaluation":
    """Score a model on examples; `glassformer evaluate` on the command line.

        gf.evaluate("en-fr", [("A dog runs.", "Un chien court.")]).scores["bleu"]
        gf.evaluate("sentiment", Path("reviews.jsonl"))
        gf.evaluate("runs/demo", "grammar", split="test", limit=100)

    model         folder of a run or checkpoint, a bundled model, or one that `load` returned.
    data          a list of (source, reference, ...) or (text, label); the name of a set; the Path
                  of a JSONL, TSV or CSV file; or a tuple of Paths of parallel files: source,
                  reference, and perhaps the reference lower-cased and tokenised.
    split, columns, limit, skip_bad
                  which rows of a set or file; skip_bad leaves out rows that cannot be read.
    to            target language of a translator of two directions. None: its first.
    beam_size, length_penalty
                  of the search. None: 5, and the model's own penalty.
    int8, threads, device
                  as for `load`; not for a model that is loaded already.
    truncate      cut texts that are too long for the model, instead of refusing them. None: cut
                  those of a classifier, whose training text was cut, too.
    tokenised_output, language
                  with tokenised references: whether the output is tokenised already, or
                  the language whose rules tokenise it. None: the target language.
    beams         compare beam sizes, too.
    failures      number of the worst failures to keep; above 0, failures are analysed.
    training_text file of the target side of the training text, to find rare words.
    name, command names of the model and the call on the card. The attention of failures is read
                  from the model in the folder `name`.

    The result prints as tables, shows as tables in a notebook, and has `scores` and `to_json`.
    """
    from glassformer.evaluate.evaluation import How, Tokens, evaluate_classifier
    from glassformer.evaluate.examples import Selection

    loaded = _loaded(model, int8, threads, device, name)
    called = name or (str(model) if isinstance(model, str | Path) else loaded.settings.model.kind)
    watch = partial(show_progress, shown=progress)
    quoted = command or f"glassformer.evaluate({called!r}, ...)"
    cuts = isinstance(loaded, Classifier) if truncate is None else truncate
    how = How(called, quoted, batch_tokens, cuts, threads, watch)
    select = Selection(split, tuple(columns), limit, skip_bad)
    asked = {"beam_size": beam_size, "length_penalty": length_penalty}
    search: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
    if isinstance(loaded, Classifier):
        _refuse_for_a_classifier(
            **asked, to=to, language=language, tokenised_output=tokenised_output or None,
            beams=beams or None, failures=failures or None, training_text=training_text,
        )  # fmt: skip
        examples = read_for(loaded, data, select, progress=progress)
        return evaluate_classifier(loaded, examples, how, say if progress else silent)
    translator = loaded.towards(to or loaded.targets[0])
    tokens = Tokens(tokenised_output, language)
    wanted = tokens != Tokens() or _can_tokenise(data, split, progress)
    one = beams or bool(failures)  # these compare with one reference
    examples = read_for(
        translator, data, select, tokenised=wanted, several=not one, progress=progress
    )
    _check_references(examples, beams, failures)
    text = None if training_text is None else Path(training_text)
    notice = say if progress else silent
    return _evaluated(translator, examples, how, search, tokens, beams, failures, text, notice)


def _evaluated(
    translator: Translator,
    examples: "Examples",
    how: "How",
    search: dict[str, Any],
    tokens: "Tokens",
    beams: bool,
    failures: int,
    training_text: Path | None,
    notice: Callable[[str], None],
) -> "Evaluation":
    """Score a translator; compare beam sizes and analyse failures if asked to."""
    from glassformer.evaluate import evaluation as e

    found = e.evaluate_translator(translator, examples, how, search, tokens)
    if beams:
        found = e.with_beams(found, translator, examples, how, search)
    if failures:
        attentive, has_attention = _attentive(how.name, translator, notice)
        found = e.with_failures(found, attentive, examples, failures, training_text, has_attention)
    return found


def evaluate_sets(
    model: Model,
    sets: Sequence[str],
    *,
    to: str | None = None,
    int8: bool | None = None,
    threads: int | None = None,
    device: str | None = None,
    command: str | None = None,
    **options: Any,
) -> "Suite":
    """Score a translator on several named sets in each direction; `glassformer evaluate --sets`.

    `sets` are SET/SPLIT, as "wmt14/newsdev". `to` chooses one direction. `options` are those of
    `evaluate`.
    """
    from glassformer.evaluate.suite import suite

    named = [_set_and_split(name) for name in sets]
    translator = _translator(model, int8, threads, device)
    called = str(model) if isinstance(model, str | Path) else translator.settings.model.kind
    cards = {}
    for (name, split), label in zip(named, sets, strict=True):
        for target in _targets(translator, to):
            say(f"{label}, {_direction(translator, target)}")
            found = evaluate(translator, name, split=split, to=target, name=called, **options)
            cards[label, _direction(translator, target)] = found.to_json()
    return suite(command or f"glassformer.evaluate_sets({called!r}, ...)", cards)


def _set_and_split(name: str) -> tuple[str, str]:
    found, slash, split = name.partition("/")
    if not slash or not found or not split:
        raise SettingsError(
            f"{name!r} is not the name of a set and its split.",
            "Several sets are named SET/SPLIT with commas between them.",
            "For example: --sets wmt14/newsdev,general/flores-dev.",
        )
    return found, split


def evaluate_behaviour(
    model: Model,
    *,
    to: str | None = None,
    kind: str | None = None,
    int8: bool | None = None,
    threads: int | None = None,
    device: str | None = None,
    **options: Any,
) -> "list[BehaviourReport]":
    """Run the behaviour suite of hand-written cases in each direction of a translator.

    `to` chooses one direction, `kind` one kind of cases. `options` are those of
    `Translator.translate`.
    """
    from glassformer.evaluate import behaviour

    translator = _translator(model, int8, threads, device)
    return [
        behaviour.run(
            _translation(translator, target, options), _direction(translator, target), kind
        )
        for target in _targets(translator, to)
    ]


def _translator(
    model: Model, int8: bool | None, threads: int | None, device: str | None
) -> Translator:
    loaded = _loaded(model, int8, threads, device)
    if not isinstance(loaded, Translator):
        raise CheckpointError(
            f"{model} is not a translator.",
            "The cases of the behaviour suite and the sets are sentences to translate.",
            "Name the run of a translator.",
        )
    return loaded


def _targets(translator: Translator, to: str | None) -> tuple[str, ...]:
    """Return the target languages to evaluate: `to`, or all of the model."""
    if to is None:
        return translator.targets
    translator.check_target(to)
    return (to,)


def _direction(translator: Translator, to: str) -> str:
    return f"{from_language(translator.settings.data, to)}-{to}"


def _translation(
    translator: Translator, to: str, options: dict[str, Any]
) -> Callable[[list[str]], list[str]]:
    def translate(texts: list[str]) -> list[str]:
        return translator.translate(texts, to=to, **options)

    return translate


def _loaded(
    model: Model,
    int8: bool | None,
    threads: int | None,
    device: str | None,
    name: str | None = None,
) -> Translator | Classifier:
    """Load a model, unless it is loaded; refuse a language model."""
    if isinstance(model, str | Path):
        loaded = load(model, int8, threads=threads, device=device or "cpu")
    elif (int8, threads, device) != (None, None, None):
        raise InputError(
            "int8, threads or device were given with a model that is loaded already.",
            "They decide how a model is loaded.",
            "Give them to load(), or name the model's folder.",
        )
    else:
        loaded = model
    if not isinstance(loaded, Translator | Classifier):
        raise CheckpointError(
            f"{name or model} is neither a translator nor a classifier.",
            "The output of a language model has no reference to be compared with.",
            "Name the run of a translator or a classifier.",
        )
    return loaded


def _refuse_for_a_classifier(**options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise InputError(
                f"{name} was given for a classifier.",
                "A classifier answers with labels, not with text.",
                f"Leave {name} out.",
            )


def _check_references(examples: "Examples", beams: bool, failures: int) -> None:
    if examples.several and (beams or failures):
        raise InputError(
            "beams and failures do not go with several references of a source.",
            "They compare each translation with one reference.",
            "Leave them out, or give one reference for each source.",
        )


def read_for(
    model: Translator | Classifier,
    data: "Data",
    select: "Selection",
    *,
    tokenised: bool = False,
    several: bool = False,
    progress: bool = True,
) -> "Examples":
    """Read the examples of a translator in its languages, or of a classifier with its labels."""
    from glassformer.evaluate.evaluation import languages_of
    from glassformer.evaluate.examples import read_examples

    labels = model.spellings if isinstance(model, Classifier) else None
    languages = languages_of(model) if isinstance(model, Translator) else ()
    with _fetching(progress) as watch:
        return read_examples(
            data, languages, labels, select=select, trained_on=_columns_of(model),
            tokenised=tokenised, several=several, progress=watch,
            notice=say if progress else silent,
        )  # fmt: skip


def _columns_of(model: Translator | Classifier) -> tuple[str, ...]:
    """Return the columns of the files that a model was trained on, in its direction."""
    data = model.settings.data
    is_backward = isinstance(model, Translator) and model.to == data.source_language
    return data.columns[::-1] if is_backward else data.columns


@contextmanager
def _fetching(shown: bool) -> Iterator[Fetching]:
    with watched_fetching() if shown else nullcontext(datasets.silent) as watch:
        yield watch


def _can_tokenise(data: "Data", split: str, progress: bool) -> bool:
    """Return whether tokenised references can be scored; print a note if a package is missing."""
    from glassformer.evaluate.examples import has_tokenised
    from glassformer.evaluate.moses import is_available

    if is_available():
        return True
    if progress and isinstance(data, str) and has_tokenised(data, split):
        say("BLEU on tokenised references is left out: sacremoses is not installed")
    return False


def _attentive(
    called: str, translator: Translator, notice: Callable[[str], None]
) -> tuple[Translator, bool]:
    """Return a translator whose attention can be read, and True; else the same one, and False."""
    if all(map(has_torch_module, translator.decoders)):
        return translator, True
    if not is_installed("torch"):
        notice("attention is left out: torch is not installed (pip install 'glassformer[train]')")
    elif not Path(called).exists() and called not in pretrained.names():
        notice('attention is left out: load the model with engine="torch", or give its folder')
    else:
        return load_translator(called, engine="torch").towards(translator.to), True
    return translator, False
