"""`bench classify`: the engine beside torch, ONNX Runtime and CTranslate2, with the same weights.

ONNX Runtime has the whole classifier as one graph. CTranslate2 has an encoder and no classifier:
pooling and the output layer are numpy's. The votes of n-grams are the same numpy code for all.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer import checkpoint
from glassformer.bench.contender_process import ContenderProcess
from glassformer.bench.engines import (
    CTRANSLATE2,
    FP32,
    INT8,
    OURS,
    THEIR_FP32,
    WITH_WORKERS,
    WORKERS,
    Ids,
    is_int8,
)
from glassformer.bench.race import PAUSE
from glassformer.bench.report import Report
from glassformer.bench.sentences import read_model
from glassformer.checkpoint import Checkpoint
from glassformer.data import datasets
from glassformer.data.batching import TokenBatches
from glassformer.data.corpus import Corpus, TextFiles
from glassformer.data.tokenizer import BOS
from glassformer.errors import DataError
from glassformer.evaluate.card import Row, Table
from glassformer.measure import Tick, best_of_rounds
from glassformer.pipeline.batches import BATCH_TOKENS, encode_sources, max_source

TORCH = "torch fp32"
ONNX_FP32, ONNX_INT8 = "onnxruntime fp32", "onnxruntime int8"
ONNX = (ONNX_INT8, ONNX_FP32)
ONNX_WORKERS = tuple(name + WORKERS for name in ONNX)
CONTENDERS = (*OURS, TORCH, *ONNX, *ONNX_WORKERS, *CTRANSLATE2, *WITH_WORKERS)
ORIGINAL = "checkpoint"  # folder of the weights that ours and torch read
TOLERANCE = 1e-2  # between logits in fp32: sums are taken in other orders
# Log-normal lengths of random reviews in subwords, about those of IMDB: median 220, mean 265.
MEDIAN_LENGTH, LOG_SPREAD = 220, 0.6

Logits = NDArray[np.float32]
Contender = Callable[[list[Ids]], tuple[float, Logits]]
POOLING: dict[str, Callable[[Logits], Logits]] = {
    "mean": lambda x: x.mean(0),
    "max": lambda x: x.max(0),
    "first": lambda x: x[0],
}


@dataclass(frozen=True)
class Plan:
    """Sizes of the measurement."""

    threads: int = 2
    rounds: int = 5
    limit: int = 256  # texts
    batch_tokens: int = BATCH_TOKENS
    pause: float = PAUSE

    @property
    def steps(self) -> int:
        return len(CONTENDERS) * (self.rounds + 1)


def bench_classify(
    name: str, plan: Plan, command: str, file: Path | None = None, tick: Tick = lambda: None
) -> Report:
    """Measure texts per second from token ids to logits, in batches as the pipeline makes them."""
    saved = read_model(name, "classifier")
    about, rows = texts(saved, file, plan.limit)
    lengths = np.array([len(row) for row in rows])
    chosen = TokenBatches(lengths, plan.batch_tokens).epoch(0, shuffle=False)
    batches = [[rows[i] for i in indices] for indices in chosen]
    with TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        write(saved, folder)
        contenders: dict[str, Contender] = {
            name: stack.enter_context(ContenderProcess(load, name, folder, plan.threads))
            for name in CONTENDERS
        }
        seconds, logits = race(contenders, batches, plan, tick)
    check_same(logits)
    title = (
        f"{Path(name).name}: {len(rows):,} {about}, {lengths.mean():.0f} tokens on average, "
        f"{plan.threads} threads"
    )
    ratios = ratios_of(seconds)
    tables = [speed_table(title, seconds, logits, len(rows)), ratio_table(ratios)]
    notes = [
        "Token ids in, logits out; tokenisation and loading left out. The best round counts.",
        f"ONNX Runtime {version('onnxruntime')} runs torch's export of the classifier, with "
        f"padding. CTranslate2 {version('ctranslate2')} runs the encoder; pooling, output layer "
        "and n-grams are numpy's. Workers: a batch for each thread at a time.",
        "`same label`: texts with the label of torch.",
    ]
    return Report(command, tables, ratios, notes, plan.threads)


def texts(saved: Checkpoint, file: Path | None, limit: int) -> tuple[str, Ids]:
    """Return a description of the texts and their ids: a file's, IMDB's if present, or random."""
    files = TextFiles((file,), format="lines") if file else _imdb()
    if files is None:
        return "random texts", random_texts(saved, limit)
    tokenizer = next(iter(saved.tokenizers.values()))
    lines = [row[0] for row in islice(Corpus(files), limit)]
    encoded = encode_sources(tokenizer, lines, max_source(saved.settings), truncate=True)
    return f"texts of {file.name}" if file else "reviews of IMDB", [[BOS, *ids] for ids in encoded]


def _imdb() -> TextFiles | None:
    try:
        return datasets.find("imdb", "test_a", ("text",), download=False)
    except DataError:  # it is not on this machine
        return None


def random_texts(saved: Checkpoint, limit: int) -> Ids:
    """Return random tokens in lengths like those of reviews."""
    numbers, longest = np.random.default_rng(0), max_source(saved.settings)
    drawn = numbers.lognormal(np.log(MEDIAN_LENGTH), LOG_SPREAD, limit).astype(int)
    size = saved.settings.model.vocab_size
    return [[BOS, *numbers.integers(4, size, n).tolist()] for n in drawn.clip(1, longest)]


def write(saved: Checkpoint, folder: Path) -> None:
    """Write the weights for all contenders."""
    from glassformer.interop.ctranslate2 import encoder_to_ctranslate2
    from glassformer.interop.onnx_model import classifier_to_onnx, quantise_onnx
    from glassformer.pipeline.torch_models import torch_model

    model: Any = torch_model(saved)
    checkpoint.write(replace(saved, tokenizers={}), folder / ORIGINAL)
    for name in CTRANSLATE2:
        encoder_to_ctranslate2(model.encoder, folder / name, is_int8(name))
    classifier_to_onnx(model, folder / ONNX_FP32)
    quantise_onnx(folder / ONNX_FP32, folder / ONNX_INT8)


def load(name: str, folder: Path, threads: int) -> Contender:
    from glassformer.pipeline import inference_model

    saved = checkpoint.read(folder / ORIGINAL)
    if name in (*OURS, TORCH):
        engine: Any = "torch" if name == TORCH else "compiled"
        model: Any = inference_model(
            saved, None if name == TORCH else name == INT8, engine, threads
        )
        return _timed(_with_votes(model.classify, saved))
    workers, path = threads if WORKERS in name else 1, folder / name.removesuffix(WORKERS)
    if name in (*ONNX, *ONNX_WORKERS):
        return _onnxruntime(saved, path, threads, workers)
    return _ctranslate2(saved, path, threads, workers)


def _timed(classify: Callable[[Ids], Logits], workers: int = 1) -> Contender:
    def run(batches: list[Ids]) -> tuple[float, Logits]:
        begin = perf_counter()
        if workers == 1:
            found = [classify(batch) for batch in batches]
        else:
            with ThreadPoolExecutor(workers) as pool:
                found = list(pool.map(classify, batches))
        return perf_counter() - begin, np.concatenate(found)

    return run


def _onnxruntime(saved: Checkpoint, path: Path, threads: int, workers: int) -> Contender:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads // workers, 1
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    pad_id = saved.settings.model.pad_id

    def classify(batch: Ids) -> Logits:
        ids = np.full((len(batch), max(map(len, batch))), pad_id, np.int64)
        for row, text in zip(ids, batch, strict=True):
            row[: len(text)] = text
        logits: Logits = session.run(None, {"ids": ids})[0]
        return logits

    return _timed(_with_votes(classify, saved), workers)


def _ctranslate2(saved: Checkpoint, folder: Path, threads: int, workers: int) -> Contender:
    import ctranslate2

    from glassformer.quantize import dequantise_weights

    s, weights = saved.settings.model, dequantise_weights(saved.weights)
    encoder = ctranslate2.Encoder(
        str(folder),
        compute_type="int8" if is_int8(folder.name) else "float32",
        inter_threads=workers,
        intra_threads=threads // workers,
    )
    pool = POOLING[s.pooling]
    weight, bias = np.asarray(weights["output.weight"]), np.asarray(weights["output.bias"])

    def classify(batch: Ids) -> Logits:
        hidden = np.array(encoder.forward_batch(batch).last_hidden_state)
        pooled = [pool(x[: len(row)]) for x, row in zip(hidden, batch, strict=True)]
        logits: Logits = np.stack(pooled) @ weight.T + bias
        return logits

    return _timed(_with_votes(classify, saved), workers)


def _with_votes(classify: Callable[[Ids], Logits], saved: Checkpoint) -> Callable[[Ids], Logits]:
    from glassformer.pipeline.engines import ngram_votes

    votes = ngram_votes(saved)
    if votes is None:
        return classify
    return lambda batch: votes.mixed(classify(batch), batch)


def race(
    contenders: dict[str, Contender], batches: list[Ids], plan: Plan, tick: Tick
) -> tuple[dict[str, float], dict[str, Logits]]:
    """Return the seconds of each contender's best round, and its logits."""
    logits: dict[str, Logits] = {}

    def turn(name: str) -> float:
        seconds, logits[name] = contenders[name](batches)
        return seconds

    turns = {name: partial(turn, name) for name in contenders}
    return best_of_rounds(turns, plan.rounds, tick, pause=plan.pause), logits


def check_same(logits: dict[str, Logits]) -> None:
    """Check that contenders in fp32 compute the same logits."""
    for name in (FP32, THEIR_FP32, ONNX_FP32):
        error = float(np.abs(logits[name] - logits[TORCH]).max())
        assert error < TOLERANCE, f"logits of {name} differ by {error} from those of {TORCH}"


def ratios_of(seconds: dict[str, float]) -> dict[str, float]:
    def best(names: Iterable[str]) -> float:
        return min(seconds[name] for name in names)

    return {
        "best ÷ torch": seconds[TORCH] / best(OURS),
        "best ÷ best of onnxruntime": best((*ONNX, *ONNX_WORKERS)) / best(OURS),
        "best ÷ best of CTranslate2": best((*CTRANSLATE2, *WITH_WORKERS)) / best(OURS),
        "fp32 ÷ fp32 of onnxruntime": best((ONNX_FP32, ONNX_FP32 + WORKERS)) / seconds[FP32],
        "fp32 ÷ fp32 of CTranslate2": best((THEIR_FP32, THEIR_FP32 + WORKERS)) / seconds[FP32],
    }


def speed_table(
    title: str, seconds: dict[str, float], logits: dict[str, Logits], n_texts: int
) -> Table:
    ours, expected = min(seconds[name] for name in OURS), logits[TORCH].argmax(1)
    rows: list[Row] = []
    for name, took in seconds.items():
        same = int((logits[name].argmax(1) == expected).sum())
        rows.append([name, n_texts / took, took / ours, same])
    return Table(title, ["contender", "texts/s", "ours ÷ it", "same label"], rows)


def ratio_table(ratios: dict[str, float]) -> Table:
    rows: list[Row] = [[name, value] for name, value in ratios.items()]
    return Table("How many times as fast", ["ratio", "measured"], rows)
