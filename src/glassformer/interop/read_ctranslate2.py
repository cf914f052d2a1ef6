"""Import of CTranslate2's encoder-decoder models, such as OPUS-MT as Argos distributes it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.checkpoint.format import Checkpoint
from glassformer.config import RunSettings
from glassformer.data.foreign_tokenizer import Description, read_tokenizer
from glassformer.data.tokenizer import Tokenizer
from glassformer.interop.ctranslate2_file import CTranslate2File
from glassformer.interop.foreign import (
    MAX_LAYERS,
    Array,
    Config,
    Shape,
    damaged,
    read_json,
    refused,
)
from glassformer.quantize import SCALE

ACTIVATIONS = {0: "relu", 1: "gelu-tanh", 2: "silu", 3: "gelu"}  # by CTranslate2's number
PARTS = {
    "self_attention.qkv": "self_attention/linear_0",
    "self_attention.output": "self_attention/linear_1",
    "feed_forward.expand": "ffn/linear_0",
    "feed_forward.contract": "ffn/linear_1",
    "cross_attention.q": "attention/linear_0",
    "cross_attention.kv": "attention/linear_1",
    "cross_attention.output": "attention/linear_2",
}
NORMS = {
    "self_attention": "self_attention/layer_norm",
    "feed_forward": "ffn/layer_norm",
    "cross_attention": "attention/layer_norm",
}
# Variables that ask for an architecture which the compiled engine does not have, with the value
# that asks for nothing.
ABSENT = {
    "alibi": 0,
    "embeddings_merge": 0,
    "scale_alibi": 0,
    "multi_query_attention": 0,
    "alibi_use_positive_positions": 0,
}
NO_PART = ("alignment_heads", "alignment_layer")  # they only tell which heads align words
PLACES = 10_000.0


def import_ctranslate2(folder: Path) -> Checkpoint:
    """Return a model of CTranslate2 as a checkpoint; weights in eight bits stay so.

    `folder` has model.bin, or is an Argos package with it in `model/`.
    """
    inner = folder if (folder / "model.bin").is_file() else folder / "model"
    file = CTranslate2File(inner / "model.bin")
    if file.spec != "TransformerSpec":
        raise refused(f"model.bin holds a {file.spec[:40]}.", "A TransformerSpec is imported.")
    reader = _Reader(file)
    settings = reader.settings(Config("config.json", _config(inner)))
    weights = reader.weights(settings)
    tokenizers, languages = _tokenizers(folder, inner, settings)
    longest = settings["max_positions"] - 1
    run = RunSettings.of(
        model=settings, data={"name": "files", "max_length": min(longest, 512), **languages}
    )
    return Checkpoint(run, weights, tokenizers)


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    return read_json(path) if path.is_file() else {}


class _Reader:
    """Reads the architecture from the variables of a file, and the weights in our names."""

    def __init__(self, file: CTranslate2File) -> None:
        self.file, self.taken = file, set[str]()

    def settings(self, config: Config) -> dict[str, Any]:
        source, target = (self._shape(f"{name}/weight", 2) for name in self._tables())
        layers = {stack: self._count_layers(stack) for stack in ("encoder", "decoder")}
        heads = {stack: int(self._number(f"{stack}/num_heads", 8)) for stack in layers}
        d_ff = self._shape("encoder/layer_0/ffn/linear_0/weight", 2)[0]
        if not 1 <= heads["encoder"] <= source[1] or heads["encoder"] != heads["decoder"]:
            raise refused(f"The stacks have {heads} heads.", "They must have the same number.")
        for stack in layers:
            for name, value in ABSENT.items():
                if self._number(f"{stack}/{name}", value) != value:
                    raise refused(f"model.bin: {stack}/{name} is set.", "It is not known here.")
            self.taken |= {f"{stack}/{name}" for name in NO_PART}
        activation, pre_norm = (self._common(name) for name in ("activation", "pre_norm"))
        if activation not in ACTIVATIONS:
            raise refused(f"model.bin: activation {activation}.", f"Known are {ACTIVATIONS}.")
        tables = [self._read(f"{stack}/position_encodings/encodings") for stack in layers]
        embedding, output = "decoder/embeddings/weight", "decoder/projection/weight"
        tied = self._same(embedding, output)
        return {
            "kind": "translator",
            "vocab_size": target[0],
            "source_vocab_size": None if self._is_shared() else source[0],
            "tie_source_target": self._is_shared(),
            "tie_target_output": tied,
            "d_model": source[1],
            "n_heads": heads["encoder"],
            "d_ff": d_ff,
            "encoder_layers": layers["encoder"],
            "decoder_layers": layers["decoder"],
            **_positions(tables, source[1]),
            "residual": "pre-norm" if pre_norm else "post-norm",
            "norm_eps": config.number("layer_norm_epsilon", 1e-5),
            "feed_forward": ACTIVATIONS[activation],
            "embedding_scale": self._scale(source[1]),
            "embedding_norm": "encoder/layernorm_embedding/gamma" in self.file,
            "attention_bias": "encoder/layer_0/self_attention/linear_0/bias" in self.file,
            "feed_forward_bias": "encoder/layer_0/ffn/linear_0/bias" in self.file,
            "output_bias": "decoder/projection/bias" in self.file,
            "start_vector": "zeros"
            if self._number("decoder/start_from_zero_embedding", 0)
            else "token",
            "dropout": 0.0,
        }

    def weights(self, s: Mapping[str, Any]) -> dict[str, Array]:
        """Return the weights; in eight bits if all matrices of the file are."""
        weights: dict[str, Array] = {}
        source, target = self._tables()
        size = s["source_vocab_size"] or s["vocab_size"]
        weights |= self._matrix("encoder.embedding", source, (size, s["d_model"]))
        if not s["tie_source_target"]:
            weights |= self._matrix("decoder.embedding", target, (s["vocab_size"], s["d_model"]))
        if not s["tie_target_output"]:
            shape = (s["vocab_size"], s["d_model"])
            weights |= self._matrix("output", "decoder/projection", shape)
        if s["output_bias"]:
            weights["output.bias"] = self._take("decoder/projection/bias", (s["vocab_size"],))
        self.taken |= {"decoder/projection/weight", "decoder/projection/weight_scale"}
        self.taken |= {f"{target}/weight", f"{target}/weight_scale"}
        for stack in ("encoder", "decoder"):
            weights |= self._stack(s, stack)
        self._finish()
        if any(a.dtype == np.int8 for a in weights.values()):
            mixed = [n for n, a in weights.items() if a.dtype == np.float32 and a.ndim == 2]
            if wrong := [name for name in mixed if not name.endswith("positions.weight")]:
                raise refused(f"model.bin: {wrong[0]} is not in eight bits; others are.", "")
        return weights

    def _stack(self, s: Mapping[str, Any], stack: str) -> dict[str, Array]:
        d, d_ff = s["d_model"], s["d_ff"]
        shapes = {"qkv": (3 * d, d), "kv": (2 * d, d)}
        shapes |= {"expand": (d_ff, d), "contract": (d, d_ff)}
        weights: dict[str, Array] = {}
        if s["positions"] == "learned":
            table = f"{stack}/position_encodings/encodings"
            weights[f"{stack}.positions.weight"] = self._take(table, (s["max_positions"], d))
        if s["embedding_norm"]:
            weights |= self._norm(f"{stack}.embedding_norm", f"{stack}/layernorm_embedding", d)
        if s["residual"] == "pre-norm":
            weights |= self._norm(f"{stack}.final_norm", f"{stack}/layer_norm", d)
        for i in range(s[f"{stack}_layers"]):
            ours, theirs = f"{stack}.layers.{i}", f"{stack}/layer_{i}"
            for part, name in PARTS.items():
                if stack == "decoder" or not part.startswith("cross"):
                    shape = shapes.get(part.partition(".")[2], (d, d))
                    biased = s["feed_forward_bias" if "feed" in part else "attention_bias"]
                    place = f"{ours}.{part}", f"{theirs}/{name}"
                    weights |= self._matrix(*place, shape, biased)
            for part, name in NORMS.items():
                if stack == "decoder" or not part.startswith("cross"):
                    norm = f"{ours}.{part}_residual.norm"
                    weights |= self._norm(norm, f"{theirs}/{name}", d)
        return weights

    def _matrix(
        self, ours: str, theirs: str, shape: Shape, biased: bool = False
    ) -> dict[str, Array]:
        values = self._take(f"{theirs}/weight", shape)
        found = {f"{ours}.weight": values}
        if values.dtype == np.int8:
            own = self.file.aliases.get(f"{theirs}/weight", f"{theirs}/weight")
            scale = self._take(f"{own}_scale", shape[:1])
            if (values == -128).any() or not (np.isfinite(scale) & (scale > 0)).all():
                raise damaged(self.file.path, f"{theirs}/weight has no scale of eight bits")
            found[f"{ours}.weight{SCALE}"] = np.float32(1) / scale
        if biased:
            found[f"{ours}.bias"] = self._take(f"{theirs}/bias", shape[:1])
        return found

    def _norm(self, ours: str, theirs: str, d: int) -> dict[str, Array]:
        return {
            f"{ours}.gain": self._take(f"{theirs}/gamma", (d,)),
            f"{ours}.bias": self._take(f"{theirs}/beta", (d,)),
        }

    def _take(self, name: str, shape: Shape) -> Array:
        if self._shape(name, len(shape)) != shape:
            given = self.file.variables[name].shape
            raise refused(f"model.bin: {name} is {given}.", f"Its other tensors ask for {shape}.")
        values = self._read(name)
        if values.dtype in (np.int16, np.int32):
            raise refused(f"model.bin: {name} is of {values.dtype}.", "Known: float32, int8, …")
        return values if values.dtype == np.int8 else np.asarray(values, np.float32)

    def _shape(self, name: str, rank: int) -> Shape:
        """Return the shape of a variable; refuse one that is absent or of another rank."""
        if name not in self.file or len(self.file.variables[name].shape) != rank:
            given = self.file.variables[name].shape if name in self.file else "absent"
            raise refused(f"model.bin: {name} is {given}.", f"A table of {rank} axes is needed.")
        shape = self.file.variables[name].shape
        if not all(shape):
            raise damaged(self.file.path, f"{name} is empty")
        return shape

    def _read(self, name: str) -> Array:
        if name not in self.file:
            raise refused(
                f"model.bin: {name} is absent.",
                "Models with relative positions or without a table of positions are not imported.",
            )
        self.taken.add(name)
        return self.file.read(name)

    def _number(self, name: str, default: float) -> float:
        self.taken.add(name)
        return self.file.number(name, default)

    def _common(self, name: str) -> int:
        """Return a number that encoder and decoder must share."""
        values = {self._number(f"{stack}/{name}", 0) for stack in ("encoder", "decoder")}
        if len(values) > 1:
            raise refused(f"model.bin: {name} differs between the stacks.", "They must agree.")
        return int(values.pop())

    def _tables(self) -> tuple[str, str]:
        source = "encoder/embeddings_0"  # a merged embedding has several
        return source if f"{source}/weight" in self.file else "encoder/embeddings", (
            "decoder/embeddings"
        )

    def _same(self, name: str, other: str) -> bool:
        names = (self.file.aliases.get(one, one) for one in (name, other))
        return len(set(names)) == 1

    def _is_shared(self) -> bool:
        source, target = self._tables()
        return self._same(f"{source}/weight", f"{target}/weight")

    def _scale(self, d_model: int) -> str:
        factors = {self._number(f"{stack}/scale_embeddings", 1) for stack in ("encoder", "decoder")}
        if factors <= {1.0, float(np.float32(d_model**0.5))} and len(factors) == 1:
            flag = self.file.variables.get("encoder/scale_embeddings")
            one = flag is not None and flag.dtype == np.float32 and factors == {1.0}
            return "none" if one else "sqrt-d_model"
        if factors == {0.0}:
            return "none"
        raise refused(f"model.bin: scale_embeddings is {factors}.", "It is 1 or √d_model here.")

    def _count_layers(self, stack: str) -> int:
        n = 0
        while f"{stack}/layer_{n}/self_attention/linear_0/weight" in self.file and n <= MAX_LAYERS:
            n += 1
        if not 1 <= n <= MAX_LAYERS:
            raise refused(f"model.bin has {n} layers of {stack}.", "It needs one or more.")
        return n

    def _finish(self) -> None:
        known = {self.file.aliases.get(name, name) for name in self.taken}
        rest = [name for name in sorted(self.file.variables) if name not in self.taken | known]
        rest = [name for name in rest if self.file.aliases.get(name) not in known]
        if rest:
            raise refused(
                f"model.bin has {rest[0]}, for which this architecture has no place.",
                f"{len(rest)} variables would be left out: {', '.join(rest[:4])}.",
            )


def _positions(tables: list[Array], d: int) -> dict[str, Any]:
    """Return the settings of positions: sines where the tables are sines, else learned rows."""
    if any(t.ndim != 2 or t.shape != (len(t), d) or not len(t) for t in tables):
        raise refused("model.bin: the tables of positions do not fit.", f"Rows have {d} values.")
    rows = min(map(len, tables))
    angle = np.arange(rows)[:, None] / PLACES ** (np.arange(0, d, 2) / d)
    sines = np.concatenate((np.sin(angle), np.cos(angle)[:, : d // 2]), 1)
    if all(np.abs(np.asarray(t, np.float64)[:rows] - sines).max() < SINE_ERROR for t in tables):
        return {"positions": "sinusoidal-halves", "max_positions": rows}
    return {"positions": "learned", "max_positions": rows}


SINE_ERROR = 1e-4  # of tables that were computed in fp32


def _tokenizers(
    folder: Path, inner: Path, s: dict[str, Any]
) -> tuple[dict[str, Tokenizer], dict[str, str]]:
    """Return the tokenizers of both sides and the languages, and set the padding id."""
    config = _config(inner)
    sides = ("source", "target")
    vocabularies = {side: _vocabulary(inner, side) for side in sides}
    metadata = folder / "metadata.json"
    languages = read_json(metadata) if metadata.is_file() else {}
    found: dict[str, Tokenizer] = {}
    for side, pieces in vocabularies.items():
        size = s["source_vocab_size"] or s["vocab_size"] if side == "source" else s["vocab_size"]
        if len(pieces) != size or len(set(pieces)) != size:
            raise refused(f"The {side} vocabulary has {len(pieces)} entries.", f"Not {size}.")
        s["pad_id"] = pieces.index("<pad>") if "<pad>" in pieces else -1
        marks = {}
        for key, mark in (("bos_id", "decoder_start_token"), ("eos_id", "eos_token")):
            name = config.get(mark, "</s>" if key == "eos_id" else "<s>")
            if key == "bos_id" and name not in pieces and s["start_vector"] == "zeros":
                marks[key] = max(s["pad_id"], 0)  # its vector is never looked up
                continue
            if name not in pieces:
                raise refused(f"config.json: {mark} is {str(name)[:40]!r}.", "It has no id.")
            marks[key] = pieces.index(name)
        end = config.get("add_source_eos", False)
        found[side] = read_tokenizer(
            Description.of_pieces(
                pieces, _subwords(folder, inner, side), pad_id=s["pad_id"],
                unk_id=pieces.index("<unk>") if "<unk>" in pieces else -1, **marks,
                after=(marks["eos_id"],) if end else (),
            ).to_bytes()
        )  # fmt: skip
    names = {"source_language": "from_code", "target_language": "to_code"}
    codes = {n: languages[c] for n, c in names.items() if isinstance(languages.get(c), str)}
    return found, codes


def _vocabulary(folder: Path, side: str) -> list[str]:
    """Return the pieces in the order of their ids, from JSON or, of older models, from lines."""
    for name in (f"{side}_vocabulary", "shared_vocabulary"):
        path = folder / f"{name}.json"
        if path.is_file() and path.stat().st_size < 1 << 26:
            try:
                pieces = json.loads(path.read_bytes())
            except (ValueError, RecursionError):
                raise damaged(path, "it is no JSON") from None
            if not isinstance(pieces, list) or not all(isinstance(p, str) for p in pieces):
                raise damaged(path, "it is no list of texts")
            return pieces
        path = folder / f"{name}.txt"
        if path.is_file() and path.stat().st_size < 1 << 26:
            return path.read_text("utf-8", "replace").removesuffix("\n").split("\n")
    raise refused(f"{folder} has no {side}_vocabulary and no shared_vocabulary.", "Ids need names.")


def _subwords(folder: Path, inner: Path, side: str) -> bytes:
    """Return the sentencepiece model of one side."""
    for path in (folder / "sentencepiece.model", inner / f"{side}.spm", inner / "joint.spm"):
        if path.is_file() and path.stat().st_size < 1 << 24:
            return path.read_bytes()
    raise refused(
        f"{folder} has no sentencepiece.model and no {side}.spm.",
        "CTranslate2 keeps ids and pieces, not what splits a text into them.",
        "Put the sentencepiece model of the original beside model.bin.",
    )
