"""The contenders of `bench decode`: one model written for each of them, each loaded from its files.

Ids in, ids out. What an engine needs is imported when it is loaded: a process that measures the
memory of one must not hold the libraries of the others.
"""

from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from glassformer.checkpoint import Checkpoint
    from glassformer.model.transformer import Transformer

Ids = list[list[int]]
PAD, UNK, BOS, EOS = range(4)  # as in data/tokenizer.py, which imports more than CTranslate2 needs


class Lengths(NamedTuple):
    """The fewest and the most tokens of an answer."""

    shortest: int
    longest: int


Engine = Callable[[Ids, int, Lengths], Ids]  # sources, beam size, lengths -> what is said

FP32, INT8 = "glassformer fp32", "glassformer int8"
THEIR_FP32, THEIR_INT8 = "CTranslate2 fp32", "CTranslate2 int8"
MARIAN = "Hugging Face fp32"
OURS, CTRANSLATE2 = (FP32, INT8), (THEIR_FP32, THEIR_INT8)
# The same, and every thread translates a part of a batch by itself, as ours do with large ones.
WORKERS = ", workers"
WITH_WORKERS = tuple(name + WORKERS for name in CTRANSLATE2)
PRECISE = (FP32, THEIR_FP32, MARIAN)


def load(name: str, folder: Path, threads: int) -> Engine:
    """The engine of this name, with what `write` left for it in `folder`."""
    if name in OURS:
        return _glassformer(folder / name, threads)
    if name in CTRANSLATE2:
        return _ctranslate2(folder / name, threads, workers=1)
    if name in WITH_WORKERS:
        return _ctranslate2(folder / name.removesuffix(WORKERS), threads, workers=threads)
    return _marian(folder / name)


def takes_part(name: str, batch: int) -> bool:
    """A sentence has no parts for workers."""
    return name not in WITH_WORKERS or batch > 1


def needs_torch(name: str) -> bool:
    return name == MARIAN


def libraries(name: str) -> None:
    """Import what stands under an engine: what an interpreter that does nothing with it takes."""
    if name in OURS:
        import numba  # noqa: F401
    elif name == MARIAN:
        from transformers import MarianMTModel  # noqa: F401
    else:
        import ctranslate2  # noqa: F401


def able(saved: "Checkpoint") -> list[str]:
    """Who can hold this model: Marian is the paper's architecture and nothing else."""
    from glassformer.errors import InputError
    from glassformer.interop import marian

    try:
        marian.check(model_of(saved))
    except InputError:
        return [*OURS, *CTRANSLATE2, *WITH_WORKERS]
    return [*OURS, *CTRANSLATE2, *WITH_WORKERS, MARIAN]


def write(saved: "Checkpoint", names: list[str], folder: Path, max_length: int) -> None:
    """The same weights for every engine."""
    from glassformer import checkpoint
    from glassformer.checkpoint import Checkpoint
    from glassformer.interop.ctranslate2 import to_ctranslate2
    from glassformer.interop.marian import to_marian
    from glassformer.quantize import quantise_weights

    model = model_of(saved)
    checkpoint.write(Checkpoint(saved.settings, saved.weights), folder / FP32)
    quantised = quantise_weights(saved.weights)
    checkpoint.write(Checkpoint(saved.settings, quantised), folder / INT8)
    source, target = (_names(s.embedding.weight.size(0)) for s in (model.encoder, model.decoder))
    for name in CTRANSLATE2:
        to_ctranslate2(model, folder / name, source, target, max_length, name == THEIR_INT8)
    if MARIAN in names:
        _quiet_transformers()
        to_marian(model, max_length).save_pretrained(folder / MARIAN)


def model_of(saved: "Checkpoint") -> "Transformer":
    """The model as it is trained, in the plain layout that is written from."""
    from glassformer.checkpoint import set_weights
    from glassformer.model.build import build
    from glassformer.model.transformer import Transformer

    model = build(saved.settings.model).eval()
    assert isinstance(model, Transformer), "a translator"
    set_weights(model, saved.weights)
    return model


def _names(n: int) -> list[str]:
    """CTranslate2 speaks of ids by name; a number is as good a name as any."""
    return list(map(str, range(n)))


def _glassformer(folder: Path, threads: int) -> Engine:
    from glassformer import checkpoint
    from glassformer.decode.search import SearchOptions, search
    from glassformer.pipeline import inference_model

    model: Any = inference_model(checkpoint.read(folder), threads=threads)

    def decode(sources: Ids, beam: int, lengths: Lengths) -> Ids:
        options = SearchOptions(
            beam_size=beam,
            length_penalty=0.0,
            min_length=lengths.shortest,
            max_length=lengths.longest,
        )
        return [best.ids for best, *_ in search(model, sources, BOS, EOS, options)]

    return decode


def _ctranslate2(folder: Path, threads: int, workers: int) -> Engine:
    import ctranslate2

    kind = "int8" if folder.name == THEIR_INT8 else "float32"
    engine = ctranslate2.Translator(
        str(folder),
        compute_type=kind,
        inter_threads=workers,
        intra_threads=threads // workers,
    )

    def decode(sources: Ids, beam: int, lengths: Lengths) -> Ids:
        results = engine.translate_batch(
            [list(map(str, source)) for source in sources],
            max_batch_size=ceil(len(sources) / workers),
            beam_size=beam,
            length_penalty=0,
            min_decoding_length=lengths.shortest,
            max_decoding_length=lengths.longest,
        )
        return [list(map(int, result.hypotheses[0])) for result in results]

    return decode


def _marian(folder: Path) -> Engine:
    from transformers import MarianMTModel

    from glassformer.data.batch import pad
    from glassformer.interop.marian import set_positions

    _quiet_transformers()
    model = MarianMTModel.from_pretrained(folder, attn_implementation="sdpa").eval()
    set_positions(model)

    def decode(sources: Ids, beam: int, lengths: Lengths) -> Ids:
        ids = pad(sources)
        penalty: dict[str, Any] = {"length_penalty": 0.0} if beam > 1 else {}
        rows = model.generate(
            input_ids=ids,
            attention_mask=(ids != PAD).long(),
            num_beams=beam,
            do_sample=False,
            min_new_tokens=lengths.shortest,
            max_new_tokens=lengths.longest,
            **penalty,
        ).tolist()
        return [row[1 : row.index(EOS) if EOS in row else None] for row in rows]

    return decode


def _quiet_transformers() -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()
