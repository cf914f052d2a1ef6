"""Checkpoints with one structural change each, and hashes that match it.

`mutate(folder, seed)` changes a checkpoint in place. The same seed makes the same change. A damaged
byte is found by its hash; these changes are not, so each must be refused for what it is, or answer.
"""

import json
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from glassformer.bench.faults.campaign import Campaign, Result, Trial
from glassformer.checkpoint.format import MANIFEST, SETTINGS, SUBWORDS, WEIGHTS
from glassformer.config import RunSettings
from glassformer.errors import GlassformerError
from glassformer.ngrams import ngram_shapes
from glassformer.pipeline import Classifier, Engine, Translator, load

NUMBERS = (
    0,
    -1,
    1,
    2,
    3,
    7,
    10**6,
    10**12,
    2**63,
    10**40,
    1e308,
    "nan",
    "inf",
    '"x"',
    "true",
    "[1]",
)
NAMES = ("/etc/passwd", "../x", "a/../../b", "x" * 5000, "\0", "", ".", "..", "é.spm", MANIFEST)
VALUES = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 0.0, -1.0)
DTYPES = ("F64", "F32", "F16", "BF16", "F8_E4M3", "I64", "I32", "I8", "U8", "BOOL", "F99", "")
DEPTH = 100_000  # of nesting: more than any parser's recursion

Header = dict[str, Any]
Answer = dict[str, float] | None  # the score of a text, or of each label; None: refused


def mutate(folder: Path, seed: int) -> str:
    """Change one thing in the checkpoint, seal it if the manifest is whole; return what changed."""
    random = Random(seed)
    name = random.choice(sorted(MUTATIONS))
    change = MUTATIONS[name]
    change(folder, random)
    if change not in (_manifest, _bad_name, _not_a_file):
        seal(folder)
    return name


def seal(folder: Path) -> None:
    """Write the hashes of the files as they are now into the manifest."""
    manifest = folder / MANIFEST
    names = json.loads(manifest.read_bytes())
    digests = {name: sha256((folder / name).read_bytes()).hexdigest() for name in names}
    manifest.write_text(json.dumps(digests))


def _header(folder: Path, change: Callable[[Header, str], None], random: Random) -> None:
    """Change what the header of the weights says of one tensor; the data stay as they are."""
    content = (folder / WEIGHTS).read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    change(header, random.choice(sorted(header.keys() - {"__metadata__"})))
    changed = json.dumps(header).encode()
    (folder / WEIGHTS).write_bytes(
        len(changed).to_bytes(8, "little") + changed + content[8 + size :]
    )


def _shape(folder: Path, random: Random) -> None:
    sizes = [random.choice((0, 1, 2, 8, 10**9, 2**62)) for _ in range(random.randrange(4))]
    _header(folder, lambda header, name: header[name].update(shape=sizes), random)


def _dtype(folder: Path, random: Random) -> None:
    dtype = random.choice(DTYPES)
    _header(folder, lambda header, name: header[name].update(dtype=dtype), random)


def _offsets(folder: Path, random: Random) -> None:
    def change(header: Header, name: str) -> None:
        begin, end = header[name]["data_offsets"]
        shift = random.choice((1, 2, 3, -1, 10**9, 2**63))
        header[name]["data_offsets"] = random.choice(
            ([begin + shift, end + shift], [begin, end + shift], [end, begin], [begin], "x")
        )

    _header(folder, change, random)


def _tensor_name(folder: Path, random: Random) -> None:
    other = random.choice(("x", "x" * 10**6, "output.weight.scale", "\ud800", ""))

    def change(header: Header, name: str) -> None:
        header[other] = header.pop(name) if random.random() < 0.5 else header[name]

    _header(folder, change, random)


def _values(folder: Path, random: Random) -> None:
    tensors = load_file(folder / WEIGHTS)
    array = tensors[random.choice(sorted(tensors))]
    value = -128 if array.dtype == np.int8 else random.choice(VALUES)
    array.flat[random.randrange(array.size)] = value
    save_file(tensors, folder / WEIGHTS)


def _stored_type(folder: Path, random: Random) -> None:
    """Store one tensor, or a matrix and not its scale, in another type with the same meaning."""
    tensors = load_file(folder / WEIGHTS)
    name = random.choice(sorted(tensors))
    kind = random.choice((np.float16, np.float64, np.int8, np.int64, np.float32, np.bool_))
    tensors[name] = tensors[name].astype(kind)
    save_file(tensors, folder / WEIGHTS)


def _tensors(folder: Path, random: Random) -> None:
    """Leave one tensor out, add one, or swap two."""
    tensors = load_file(folder / WEIGHTS)
    one, other = random.sample(sorted(tensors), 2)
    match random.randrange(3):
        case 0:
            del tensors[one]
        case 1:
            tensors[f"{one}.scale"] = tensors[other].copy()
        case _:
            tensors[one], tensors[other] = tensors[other], tensors[one]
    save_file(tensors, folder / WEIGHTS)


def _setting(folder: Path, random: Random) -> None:
    """Give one setting another value."""
    lines = (folder / SETTINGS).read_text().splitlines()
    i = random.choice([i for i, line in enumerate(lines) if "=" in line])
    words = ('"both"', '"classifier"', '"language-model"', '"rope"', '"learned"', '["a", "a"]')
    lines[i] = f"{lines[i].partition('=')[0]}= {random.choice((*NUMBERS, *words))}"
    (folder / SETTINGS).write_text("\n".join(lines))


def _bytes(folder: Path, random: Random) -> None:
    change_bytes(
        folder / random.choice(sorted(p.name for p in folder.iterdir() if p.name != MANIFEST)),
        random,
    )


def change_bytes(path: Path, random: Random) -> None:
    """Spoil the bytes of a file: cut, lengthen, replace some or all of them."""
    content = bytearray(path.read_bytes())
    place = random.randrange(min(len(content), random.choice((16, 1000, len(content)))))
    match random.randrange(6):
        case 0:
            del content[place:]
        case 1:
            content += random.randbytes(1 + place)
        case 2:
            content = bytearray(random.randbytes(len(content)))
        case 3:
            content[:8] = random.choice((0, 2**40, 2**63, len(content))).to_bytes(8, "little")
        case _:
            for _ in range(random.randrange(1, 9)):
                content[random.randrange(place + 1)] = random.randrange(256)
    path.write_bytes(content)


def _nested(folder: Path, random: Random) -> None:
    """Nest JSON or TOML deeper than a parser can recurse."""
    if random.random() < 0.5:
        (folder / SETTINGS).write_text("x = " + "[" * DEPTH)
    else:
        header = b'{"a":' * DEPTH
        (folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header)


def _subwords(folder: Path, random: Random) -> None:
    """Exchange the subwords for those of another model."""
    from glassformer.data.tokenizer import Tokenizer

    some = [" ".join(random.choices("abcdefgh", k=9)) for _ in range(50)]
    for path in folder.glob(f"*{SUBWORDS}"):
        path.write_bytes(Tokenizer.train(some, 24).model)


def _manifest(folder: Path, random: Random) -> None:
    contents = (b"{", b"null", b"[]", b"\xff\xfe{", b"[" * DEPTH, b'{"a":' * DEPTH, b" " * 10**8)
    (folder / MANIFEST).write_bytes(random.choice(contents))


def _bad_name(folder: Path, random: Random) -> None:
    digests: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
    if random.random() < 0.7:
        digests[random.choice(NAMES)] = random.choice(("0" * 64, "", None, 1, [], {}))
    else:
        digests[random.choice(sorted(digests))] = random.choice(("0" * 64, "", None, 1, [], {}))
    (folder / MANIFEST).write_text(json.dumps(digests))


def _not_a_file(folder: Path, random: Random) -> None:
    """Put a pipe, a folder, a device or a link out of the folder in the place of a file."""
    path = folder / random.choice(sorted(p.name for p in folder.iterdir()))
    outside = folder.with_name(f"{folder.name}-{path.name}")
    path.replace(outside)
    match random.randrange(5):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to("/dev/zero")
        case 3:
            path.symlink_to(path.name)  # itself
        case _:
            path.symlink_to(outside.resolve())


MUTATIONS: dict[str, Callable[[Path, Random], None]] = {
    "shape in the header": _shape,
    "dtype in the header": _dtype,
    "offsets in the header": _offsets,
    "name in the header": _tensor_name,
    "values of a tensor": _values,
    "type of a tensor": _stored_type,
    "set of tensors": _tensors,
    "a setting": _setting,
    "bytes of a file": _bytes,
    "nesting": _nested,
    "subwords": _subwords,
    "manifest": _manifest,
    "name in the manifest": _bad_name,
    "not a file": _not_a_file,
}


# The campaign

TEXTS = ["a dog", "the old cat sees a dog", "two children want some tea", "un vieux chat voit"]
KINDS: dict[str, dict[str, Any]] = {
    "classifier": {"ngrams": 2, "ngram_buckets": 50},  # in eight bits
    "translator": {"tie_target_output": False},
}
ENGINES: tuple[Engine, ...] = ("compiled", "torch")
# Changes that make another model, which may be whole; others are refused or change no answer.
OTHER_MODEL = {"values of a tensor", "type of a tensor", "set of tensors", "a setting"}
OTHER_MODEL |= {"bytes of a file", "subwords"}


def write_originals(root: Path) -> None:
    """Write a translator in fp32 and a quantised classifier with n-grams."""
    import torch

    from glassformer import checkpoint
    from glassformer.data.tokenizer import Tokenizer
    from glassformer.model.build import build
    from glassformer.quantize import quantise_weights

    tokenizer = Tokenizer.train(TEXTS * 5, 60)
    for kind, changes in KINDS.items():
        settings = RunSettings.of(
            model={
                "kind": kind, "vocab_size": len(tokenizer), "d_model": 16, "n_heads": 2,
                "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1, **changes,
            },
            data={"max_length": 30, "labels": ("sad", "glad") if kind == "classifier" else ()},
        )  # fmt: skip
        torch.manual_seed(0)
        weights: Any = checkpoint.as_arrays(checkpoint.weights_of(build(settings.model)))
        for name, shape in ngram_shapes(settings.model).items():
            weights[name] = np.zeros(shape, np.float32)
        weights = quantise_weights(weights) if kind == "classifier" else weights
        saved = checkpoint.Checkpoint(settings, weights, {"joint": tokenizer})
        checkpoint.write(saved, root / kind)


def answer(folder: Path, engine: Engine) -> Answer:
    """Return the answer of a checkpoint, or None if it is refused."""
    try:
        model = load(folder, engine=engine, threads=1)
        if isinstance(model, Classifier):
            return model.classify("a dog").probabilities
        assert isinstance(model, Translator), "KINDS has classifiers and translators"
        (found,) = model.n_best(["a dog"], model.options(beam_size=1, max_length=5))
        return {found[0].text: found[0].score}
    except GlassformerError:
        return None


def begin(folder: Path) -> Trial:
    """Ask both engines for the answer of a mutated checkpoint."""
    write_originals(folder)
    originals = {(kind, e): answer(folder / kind, e) for kind in KINDS for e in ENGINES}

    def trial(seed: int) -> Result:
        kind = sorted(KINDS)[seed % 2]
        place = folder / "trial" / "copy"
        shutil.copytree(folder / kind, place)
        name = mutate(place, seed)
        answers = [answer(place, engine) for engine in ENGINES]
        shutil.rmtree(place.parent)
        expected = [originals[kind, engine] for engine in ENGINES]
        problem = f"{name}: {answers}, not {expected}"
        return Result(lost=() if holds(name, answers, expected) else (problem,))

    return trial


def holds(name: str, answers: list[Answer], expected: list[Answer]) -> bool:
    """Return whether each engine refuses, or answers as before; or both as another model."""
    if all(one is None or alike(one, e) for one, e in zip(answers, expected, strict=True)):
        return True
    one, other = answers
    return name in OTHER_MODEL and one is not None and other is not None and alike(one, other)


def alike(one: Answer, other: Answer) -> bool:
    """Return whether two answers are the same text or labels, with scores that differ a little."""
    if one is None or other is None or one.keys() != other.keys():
        return False
    return all(abs(one[key] - other[key]) < TOLERANCE for key in one)


TOLERANCE = 0.02  # of probabilities and scores: the compiled engine computes in eight bits
CAMPAIGN = Campaign("checkpoints", begin, trials=600, quick=30, seconds=60.0, memory=2 << 30)
