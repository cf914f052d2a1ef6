"""Every source of randomness draws the same in every process, whatever the seed of its hashes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.checkpoint import weights_of
from glassformer.config import RunSettings
from glassformer.data.prepare import prepare
from glassformer.data.tokenizer import BOS, EOS
from glassformer.decode.options import SearchOptions
from glassformer.decode.search import search
from glassformer.decode.torch_decoder import TorchDecoder
from glassformer.model.build import build
from glassformer.train.batches import reading
from glassformer.train.distributed import ALONE
from glassformer.train.start import start
from train.runs import TINY, text, trained, unexpected

BATCHES = 12  # more than an epoch of any of the texts here


def batches(settings: RunSettings) -> str:
    """The batches of the first updates."""
    run = start(prepare(settings, threads=1), Path("unused"), ALONE, False, unexpected)
    return str([[one.inputs[0].tolist() for one in read] for read in islice(reading(run), BATCHES)])


def order(folder: Path, seed: int) -> str:
    return batches(TINY.replace(train={"seed": seed}))


def hidden(folder: Path, seed: int) -> str:
    model = {"kind": "masked-language-model"}
    data = {"hidden": 0.3, "batch_tokens": 200}
    return batches(text(folder, model=model, data=data, train={"seed": seed}))


def bpe(folder: Path, seed: int, kind: str = "bpe") -> str:
    data = {"subwords": kind, "subword_sampling": 0.3, "batch_tokens": 96}
    return batches(text(folder, data=data, train={"seed": seed}))


def unigram(folder: Path, seed: int) -> str:
    return bpe(folder, seed, "unigram")


def mixture(folder: Path, seed: int) -> str:
    """Two sources in both directions, with noise."""
    settings = text(folder, model={"vocab_size": 420}, train={"seed": seed})
    files = {"files": settings.data.train, "weight": 1}
    data = {
        "name": "mixture",
        "train": (),
        "valid": (),
        "sources": [files | {"name": name} for name in ("one", "other")],
        "valid_sets": [{"name": "valid", "files": settings.data.valid}],
        "epoch_tokens": 300,
        "batch_tokens": 128,
        "directions": "both",
        "byte_fallback": True,
        "normalization": "identity",
        "noise": {"lower": 0.2, "joined": 0.2, "copied": 0.3},
    }
    return batches(settings.replace(data=data))


def dropout(folder: Path, seed: int) -> str:
    """The weights of a run, with their initialisation."""
    settings = TINY.replace(model={"dropout": 0.3}, train={"seed": seed, "max_steps": 3})
    run, _ = trained(prepare(settings, threads=1), folder / f"run-{seed}")
    return str({name: weight.tolist() for name, weight in weights_of(run.model).items()})


def sampled_search(folder: Path, seed: int) -> str:
    torch.manual_seed(1)
    decoder = TorchDecoder(build(TINY.model.replace(vocab_size=30)).eval())
    options = SearchOptions(sample=True, n_best=2, beam_size=2, max_length=12, seed=seed)
    found = search(decoder, [[5, 6, EOS], [7, EOS]], BOS, EOS, options)
    return str([[answer.ids for answer in answers] for answers in found])


SOURCES: dict[str, Callable[[Path, int], str]] = {
    function.__name__: function
    for function in (order, hidden, bpe, unigram, mixture, dropout, sampled_search)
}


def digests(folder: Path, seed: int) -> dict[str, str]:
    drawn = {name: source(folder / name, seed) for name, source in SOURCES.items()}
    return {name: sha256(text.encode()).hexdigest() for name, text in drawn.items()}


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """Return the draws of two processes with one seed, and of one of them with another."""
    found: list[dict[str, Any]] = []
    for number in ("1", "2"):
        folder = tmp_path_factory.mktemp("process")
        environment = {
            **os.environ,
            "PYTHONHASHSEED": number,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path]),
            "XDG_CACHE_HOME": str(folder / "cache"),  # nothing is shared, not even subwords
        }
        seeds = ("3", "4") if number == "2" else ("3",)
        command = [sys.executable, "-m", "train.test_processes", str(folder), *seeds]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        found += json.loads(done.stdout)
    return found


@pytest.mark.parametrize("source", SOURCES)
def test_every_process_draws_the_same_and_another_seed_draws_otherwise(
    processes: list[dict[str, str]], source: str
) -> None:
    one, other, reseeded = (drawn[source] for drawn in processes)
    assert one == other
    assert reseeded != other


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, *seeds = sys.argv[1:]
    sys.stdout.write(json.dumps([digests(Path(folder), int(seed)) for seed in seeds]))
