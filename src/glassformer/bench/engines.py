"""The contenders of `bench decode`: each is loaded from files that hold the same weights.

Input and output are token ids. A library is imported when its contender is loaded: a process that
measures the memory of one must not hold the libraries of the others.
"""

from collections.abc import Callable, Iterable
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.checkpoint import Checkpoint

Ids = list[list[int]]
# (batches of sources, beam size, longest output) -> (seconds, output ids of all sources)
Contender = Callable[[list[Ids], int, int], tuple[float, Ids]]
PAD, UNK, BOS, EOS = range(4)  # as in data/tokenizer.py, which imports more than CTranslate2 needs

FP32, INT8 = "glassformer fp32", "glassformer int8"
THEIR_FP32, THEIR_INT8 = "CTranslate2 fp32", "CTranslate2 int8"
MARIAN = "Hugging Face fp32"
WORKERS = ", workers"  # a batch in as many parts as there are threads, a worker for each part
OURS, CTRANSLATE2 = (INT8, FP32), (THEIR_INT8, THEIR_FP32)
WITH_WORKERS = tuple(name + WORKERS for name in CTRANSLATE2)
PRECISE = (FP32, THEIR_FP32, MARIAN)


def is_int8(name: str) -> bool:
    return "int8" in name


def takes_part(name: str, batch: int) -> bool:
    """Return whether a contender runs with this batch size: one sentence has no parts."""
    return name not in WITH_WORKERS or batch > 1


def capable(saved: "Checkpoint") -> list[str]:
    """Return the contenders that can hold this model; Marian has the paper's architecture only."""
    from glassformer.errors import InputError
    from glassformer.interop import marian

    names = [*OURS, *CTRANSLATE2, *WITH_WORKERS]
    try:
        marian.check(torch_translator(saved))
    except InputError:
        return names
    return [*names, MARIAN]


def torch_translator(saved: "Checkpoint") -> Any:
    from glassformer.pipeline.torch_models import torch_model

    return torch_model(saved)


def write(saved: "Checkpoint", names: list[str], folder: Path, longest: int) -> None:
    """Write the same fp32 weights for every contender, quantised by each in its own way."""
    from glassformer import checkpoint
    from glassformer.checkpoint import Checkpoint
    from glassformer.interop.ctranslate2 import to_ctranslate2
    from glassformer.interop.marian import to_marian
    from glassformer.quantize import quantise_weights

    model = torch_translator(saved)
    checkpoint.write(Checkpoint(saved.settings, saved.weights), folder / FP32)
    checkpoint.write(Checkpoint(saved.settings, quantise_weights(saved.weights)), folder / INT8)
    # CTranslate2 identifies ids by tokens; their numbers serve.
    sides = (model.encoder, model.decoder)
    source, target = ([str(i) for i in range(side.embedding.weight.size(0))] for side in sides)
    for name in CTRANSLATE2:
        to_ctranslate2(model, folder / name, source, target, longest + 1, is_int8(name))
    if MARIAN in names:
        _quiet_transformers()
        to_marian(model, longest + 1).save_pretrained(folder / MARIAN)


def import_libraries(name: str) -> None:
    """Import the libraries of a contender."""
    if name in OURS:
        import numpy  # noqa: F401
    elif name == MARIAN:
        from transformers import MarianMTModel  # noqa: F401
    else:
        import ctranslate2  # noqa: F401


def load(name: str, folder: Path, threads: int) -> Contender:
    """Load a contender from the files of `write` in `folder`."""
    if name in OURS:
        return _glassformer(folder / name, threads)
    if name in CTRANSLATE2:
        return _ctranslate2(folder / name, threads, workers=1)
    if name in WITH_WORKERS:
        return _ctranslate2(folder / name.removesuffix(WORKERS), threads, workers=threads)
    return _marian(folder / name, threads)


def _glassformer(folder: Path, threads: int) -> Contender:
    from glassformer import checkpoint
    from glassformer.decode.search import SearchOptions, search
    from glassformer.pipeline import inference_model

    model: Any = inference_model(checkpoint.read(folder), threads=threads)

    def decode(batch: Ids, beam: int, longest: int) -> Any:
        options = SearchOptions(beam_size=beam, length_penalty=0.0, max_length=longest)
        return search(model, batch, BOS, EOS, options)

    return _timed(decode, lambda hypotheses: hypotheses[0].ids)


def _timed(
    decode: Callable[[Any, int, int], Iterable[Any]],
    output_ids: Callable[[Any], list[int]],
    prepare: Callable[[Ids], Any] = lambda batch: batch,
) -> Contender:
    """Return a contender that times `decode`; preparing inputs and reading outputs do not count."""

    def run(batches: list[Ids], beam: int, longest: int) -> tuple[float, Ids]:
        prepared = [prepare(batch) for batch in batches]
        begin = perf_counter()
        found = [decode(batch, beam, longest) for batch in prepared]
        seconds = perf_counter() - begin
        return seconds, [output_ids(one) for batch in found for one in batch]

    return run


def _ctranslate2(folder: Path, threads: int, workers: int) -> Contender:
    import ctranslate2

    translator = ctranslate2.Translator(
        str(folder),
        compute_type="int8" if is_int8(folder.name) else "float32",
        inter_threads=workers,
        intra_threads=threads // workers,
    )

    def decode(batch: list[list[str]], beam: int, longest: int) -> Any:
        return translator.translate_batch(
            batch,
            max_batch_size=ceil(len(batch) / workers),
            beam_size=beam,
            length_penalty=0,
            min_decoding_length=0,  # its default forbids an empty output
            max_decoding_length=longest,
        )

    return _timed(
        decode,
        lambda found: list(map(int, found.hypotheses[0])),
        lambda batch: [list(map(str, source)) for source in batch],
    )


def _marian(folder: Path, threads: int) -> Contender:
    import torch
    from transformers import MarianMTModel

    from glassformer.data.batch import pad
    from glassformer.interop.marian import set_positions

    torch.set_num_threads(threads)
    _quiet_transformers()
    model = MarianMTModel.from_pretrained(folder, attn_implementation="sdpa").eval()
    set_positions(model)

    def generate(batch: Ids, beam: int, longest: int) -> Any:
        ids = pad(batch)
        penalty: dict[str, Any] = {"length_penalty": 0.0} if beam > 1 else {}
        return model.generate(
            input_ids=ids,
            attention_mask=(ids != PAD).long(),
            num_beams=beam,
            do_sample=False,
            max_new_tokens=longest,
            **penalty,
        )

    def output_ids(row: Any) -> list[int]:
        ids: list[int] = row.tolist()
        return ids[1 : ids.index(EOS) if EOS in ids else None]

    return _timed(generate, output_ids)


def _quiet_transformers() -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()
