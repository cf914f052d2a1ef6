"""Weights in safetensors: one file, or several shards with the index that Hugging Face writes."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from glassformer.interop.foreign import Array, Shape, Tensors, damaged, read_json, refused

INDEX = "model.safetensors.index.json"
SHARD = 5_000_000_000  # bytes of a written file, at most, unless one tensor is larger


def read_tensors(folder: Path) -> Tensors:
    """Return the tensors of a folder: those of its index, or of its one safetensors file."""
    if (folder / INDEX).is_file():
        return _read_shards(folder / INDEX)
    found = sorted(folder.glob("*.safetensors"))
    if len(found) != 1:
        raise refused(
            f"{folder} has {len(found)} safetensors files and no {INDEX}.",
            "Weights are read from one file of safetensors, or from the shards that an index "
            "names; never from a pickle (.bin, .pt).",
            "Download the whole model, or save it with save_pretrained.",
        )
    file = SafeTensors(found[0])
    return Tensors(file.path.name, file.shapes, file.read)


def _read_shards(index: Path) -> Tensors:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(one, str) for one in places.values()):
        raise damaged(index, "weight_map does not give a file for each tensor")
    files = {name: _shard(index, name) for name in sorted(set(places.values()))}
    held = {(tensor, name) for name, file in files.items() for tensor in file.shapes}
    for tensor, name in sorted(held ^ places.items()):
        fault = "lacks" if (tensor, name) not in held else "holds, unlike the index says,"
        raise refused(
            f"{name} {fault} {tensor}.",
            f"{index.name} names the file of each tensor.",
            "Copy or download the whole model again: its shards belong together.",
        )
    shapes = {tensor: files[name].shapes[tensor] for tensor, name in places.items()}
    return Tensors(index.name, shapes, lambda tensor: files[places[tensor]].read(tensor))


def _shard(index: Path, name: str) -> "SafeTensors":
    """Open a shard, which must lie beside its index."""
    if Path(name).name != name or not name.endswith(".safetensors"):
        raise damaged(index, f"it names the file {name[:60]!r}")
    if not (index.parent / name).is_file():
        raise refused(
            f"{index.parent} has no {name}.",
            f"{index.name} names it.",
            "Download the whole model: every shard of it.",
        )
    return SafeTensors(index.parent / name)


class SafeTensors:
    """A safetensors file, read tensor by tensor. The library checks sizes before it reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with safe_open(path, "np") as file:
                slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                self.shapes: dict[str, Shape] = {n: tuple(x.get_shape()) for n, x in slices.items()}
                self.short = {n for n, x in slices.items() if x.get_dtype() == "BF16"}
        except (OSError, ValueError, SafetensorError) as error:
            raise damaged(path, str(error)[:120]) from None

    def read(self, name: str) -> Array:
        if name in self.short:
            return self._bf16(name)
        try:
            with safe_open(self.path, "np") as file:
                array: Array = file.get_tensor(name)
        except (OSError, ValueError, TypeError, AttributeError, SafetensorError) as error:
            raise damaged(self.path, f"{name}: {str(error)[:80]}") from None
        return array

    def _bf16(self, name: str) -> Array:
        """Return a tensor in bf16, which numpy lacks: the upper halves of fp32."""
        with self.path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")  # safe_open has checked the header
            begin, end = json.loads(file.read(length))[name]["data_offsets"]
            file.seek(8 + length + begin)
            halves = np.frombuffer(file.read(end - begin), np.dtype("<u2"))
        return (halves.astype(np.uint32) << 16).view(np.float32).reshape(self.shapes[name])


def write_tensors(
    weights: Mapping[str, NDArray[np.float32]], folder: Path, shard: int = SHARD
) -> None:
    """Write tensors as one file, or as shards of up to `shard` bytes with their index."""
    shards: list[list[str]] = [[]]
    filled = 0
    for name, values in weights.items():
        if shards[-1] and filled + values.nbytes > shard:
            shards.append([])
            filled = 0
        shards[-1].append(name)
        filled += values.nbytes
    places: dict[str, str] = {}
    for number, names in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        file = file if len(shards) > 1 else "model.safetensors"
        # transformers refuses a file whose metadata do not name the library that wrote it.
        save_file(
            {n: np.ascontiguousarray(weights[n]) for n in names}, folder / file, {"format": "pt"}
        )
        places |= dict.fromkeys(names, file)
    if len(shards) > 1:
        total = {"total_size": sum(values.nbytes for values in weights.values())}
        index = {"metadata": total, "weight_map": places}
        (folder / INDEX).write_text(json.dumps(index, indent=2), "utf-8")
