"""Check of this installation: versions, processor, compiled code, models and a self-test.

for section in examine(): print(section.title, section.rows)
"""

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

from glassformer import __version__, pretrained
from glassformer.checkpoint import read
from glassformer.compiled import cache_folder, kernel_name
from glassformer.device import found, runs_on_cpu
from glassformer.errors import GlassformerError
from glassformer.extras import EXTRAS, is_installed
from glassformer.machine import cpu_name, peak_memory, usable_threads
from glassformer.pipeline import load_translator

CORE = ("numpy", "numba", "llvmlite", "safetensors", "sentencepiece", "sacrebleu")
SENTENCE = "A man is riding a red bicycle."
SENTENCES = 64  # of a batch in the self-test
SAME_SCORE = 1e-2  # nats between two devices in fp32: rounding, summed over a sentence
SECONDS = 2.0  # of repeated batches: enough for a speed within a few percent


@dataclass(frozen=True)
class Section:
    """Rows of (name, finding, whether it is in order)."""

    title: str
    rows: list[tuple[str, str, bool]]

    @property
    def is_fine(self) -> bool:
        return all(fine for _, _, fine in self.rows)


def examine(device: str = "cpu") -> Iterator[Section]:
    """Yield the sections of the report; the self-tests, which take seconds, come last."""
    yield Section("versions", [(name, found, True) for name, found in versions().items()])
    yield processor()
    yield devices()
    yield compiled_code()
    yield bundled_models()
    yield extras()
    yield self_test()
    if not runs_on_cpu(device):
        yield device_test(device)


def versions() -> dict[str, str]:
    """Return the versions of this package and of its dependencies."""
    return {
        "glassformer": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in CORE},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def processor() -> Section:
    """Return the processor and the instructions that the engine uses on it."""
    cores = f"{usable_threads()} of {os.cpu_count()}"
    rows = [("name", cpu_name(), True), ("kernel", kernel_name(), True), ("threads", cores, True)]
    return Section("processor", rows)


def devices() -> Section:
    """Return the devices that torch can train on, the one that `auto` takes first."""
    if not is_installed("torch"):
        return Section("devices", [("cpu", "the compiled engine; torch is not installed", True)])
    return Section("devices", [(name, what, True) for name, what in found()])


def compiled_code() -> Section:
    """Return the state of the folder where compiled code is kept."""
    folder = cache_folder()
    files = [file for file in folder.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files) / 1e6
    writable = os.access(folder, os.W_OK)
    held = f"{len(files)} files, {size:.1f} MB" if files else "empty: the next run compiles"
    rows = [
        ("folder", _short(folder), True),
        ("holds", held, True),
        ("writable", "yes" if writable else "no: every run compiles", writable),
    ]
    return Section("compiled code", rows)


def _short(path: Path) -> str:
    """Write the home folder as ~, so that a report can be published."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def bundled_models() -> Section:
    """Return each bundled model, and whether its checksums hold."""
    rows = [_model(name) for name in pretrained.names()]
    return Section("bundled models", rows or [("none", "reinstall the package", False)])


def _model(name: str) -> tuple[str, str, bool]:
    try:
        kind = read(pretrained.folder(name)).settings.model.kind
    except GlassformerError as error:
        return name, error.what, False
    return name, f"{kind}, {pretrained.size(name) / 1e6:.1f} MB, checksums hold", True


def extras() -> Section:
    """Return the extras of this package, and which of them are installed."""
    rows = []
    for extra, (package, needed_for) in EXTRAS.items():
        there = f"{package} {_version(package)}" if is_installed(package) else "not installed"
        rows.append((extra, f"{there}: {needed_for}", True))
    return Section("extras", rows)


def self_test(model: str = pretrained.TRANSLATOR) -> Section:
    """Translate with a bundled model for about two seconds, and measure its speed."""
    try:
        return Section("self-test", _measured(model))
    except GlassformerError as error:
        return Section("self-test", [("failed", error.what, False)])


def device_test(device: str, model: str = pretrained.TRANSLATOR) -> Section:
    """Translate by the torch model on a device and on the CPU, and compare texts and scores."""
    here, there = (load_translator(model, engine="torch", device=name) for name in ("cpu", device))
    options = here.options(beam_size=5)
    ((expected, *_),), ((got, *_),) = (one.n_best([SENTENCE], options) for one in (here, there))
    begin = perf_counter()
    greedy = there.n_best([SENTENCE] * SENTENCES, there.options(beam_size=1))
    rate = sum(len(best.ids) + 1 for best, *_ in greedy) / (perf_counter() - begin)
    apart = abs(got.score - expected.score)
    rows = [
        ("translation", got.text, got.text == expected.text),
        ("score", f"{apart:.1e} from the CPU's", apart < SAME_SCORE),
        ("speed", f"{rate:,.0f} tokens/s, greedy, {SENTENCES} sentences at once", True),
    ]
    return Section(f"device {there.model.output.weight.device}", rows)


def _measured(model: str) -> list[tuple[str, str, bool]]:
    begin = perf_counter()
    translator = load_translator(model)
    loaded = perf_counter()
    answer = translator.translate(SENTENCE)
    first = perf_counter()
    again = translator.translate(SENTENCE)
    second = perf_counter()
    tokens, rounds = 0, 0
    options = translator.options(beam_size=1)
    while perf_counter() - second < SECONDS or not rounds:
        found = translator.n_best([SENTENCE] * SENTENCES, options)
        tokens += sum(len(best.ids) + 1 for best, *_ in found)
        rounds += 1
    rate = tokens / (perf_counter() - second)
    memory, beam = peak_memory(), f"beam {translator.options().beam_size}"
    return [
        ("text", SENTENCE, True),
        ("translation", answer, bool(answer) and answer == again),
        ("load", f"{loaded - begin:.2f} s", True),
        ("first answer", f"{first - loaded:.2f} s, with compilation if needed", True),
        ("next answer", f"{1000 * (second - first):.1f} ms, {beam}", True),
        ("speed", f"{rate:,.0f} tokens/s, greedy, {SENTENCES} sentences at once", True),
        ("peak memory", "unknown" if memory is None else f"{memory / 2**20:,.0f} MiB", True),
    ]
