"""Layout of a model in memory: weights packed once for the tiles, positions as tables.

Every matrix is held once. An embedding that is also the output projection is looked up in the
packed output.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.config import ModelSettings, check_together
from glassformer.engine.memory import rounded_up
from glassformer.engine.sizes import (
    ATTENTION_OUTPUT,
    BLOCK,
    COLUMNS,
    CONTRACT,
    CROSS_KV,
    CROSS_OUTPUT,
    CROSS_Q,
    EXPAND,
    GEGLU_TANH,
    GELU,
    GELU_TANH,
    HIDDEN,
    LEVELS,
    MATRICES,
    NORMS,
    QKV,
    RELU,
    SILU,
    SWIGLU,
    f32,
)
from glassformer.errors import CheckpointError
from glassformer.ngrams import PREFIX, ngram_shapes
from glassformer.quantize import MIN_ROWS, SCALE, is_matrix, quantise_rows

Tensors = Mapping[str, NDArray[np.generic]]
TensorType = tuple[tuple[int, ...], type[np.generic]]  # shape and dtype, or kind of dtype
FIRST_LAYER = 3  # number of the first matrix of a layer, behind two tables and the output
MAX_DISTANCE = 16  # of relative positions, where the settings say nothing
BUCKETS = 32  # of relative positions in buckets
LARGEST = 1_000_000  # magnitude of a weight: trained ones stay below 100, and sums do not overflow
ALIGNMENT = 64  # bytes: a cache line, and the widest vector
PARTS = {
    "self_attention.qkv": QKV,
    "self_attention.output": ATTENTION_OUTPUT,
    "feed_forward.expand": EXPAND,
    "feed_forward.contract": CONTRACT,
    "cross_attention.q": CROSS_Q,
    "cross_attention.kv": CROSS_KV,
    "cross_attention.output": CROSS_OUTPUT,
}
RESIDUALS = {"self_attention": 0, "feed_forward": 1, "cross_attention": 2}
ACTIVATIONS = {
    "relu": RELU,
    "gelu": GELU,
    "gelu-tanh": GELU_TANH,
    "silu": SILU,
    "swiglu": SWIGLU,
    "geglu-tanh": GEGLU_TANH,
}
GATED = ("swiglu", "geglu-tanh")  # feed-forward networks whose first product is a gate and a value


class PackedWeights(NamedTuple):
    """All matrices, one behind the other, and what belongs to each output of each matrix.

    Row i of `matrices`: where matrix i begins in `packed` (bytes), where its outputs begin in
    `scale`, `offset` and `bias`, its outputs and its inputs (each rounded up as it is packed), and
    1 if its weights have eight bits.
    """

    packed: NDArray[np.uint8]
    scale: NDArray[np.float32]  # INT8: what one unit of a weight is
    offset: NDArray[np.int32]  # INT8: what the offset of unsigned activations adds to a sum
    bias: NDArray[np.float32]
    matrices: NDArray[np.int64]
    norms: NDArray[np.float32]  # (norms, 2, D): gain and bias

    def addresses(self) -> dict[str, int]:
        return {name: array.ctypes.data for name, array in self._asdict().items()}


def sizes_of(s: ModelSettings) -> dict[str, Any]:
    """Return what the struct MODEL says of a model's shape.

    Matrices and norms are numbered: tables and output first, then layer by layer.
    """
    encoder, decoder = has_encoder(s), has_decoder(s)
    separate = s.kind == "translator" and not s.tie_source_target
    encoder_layers = s.encoder_layers if encoder else 0
    n_kv_heads, d_k = s.n_kv_heads or s.n_heads, s.d_model // s.n_heads
    decoder_layers = s.decoder_layers if decoder else 0
    decoder_norm = NORMS * encoder_layers + 1 if encoder else 0
    embedding_norms = decoder_norm + NORMS * decoder_layers + 1  # numbered behind all others
    return {
        "d_model": s.d_model,
        "n_heads": s.n_heads,
        "n_kv_heads": n_kv_heads,
        "d_k": d_k,
        "d_ff": s.d_ff,
        "encoder_layers": encoder_layers,
        "decoder_layers": decoder_layers,
        "pre_norm": s.residual == "pre-norm",
        "rms": s.norm == "rms-norm",
        "activation": ACTIVATIONS[s.feed_forward],
        "cross": encoder and decoder,
        "source_table": 1 if separate else 0,
        "target_table": 0,
        "output": 0 if is_tied(s) else 2,
        "encoder": FIRST_LAYER,
        "decoder": FIRST_LAYER + MATRICES * encoder_layers,
        "encoder_norm": 0,
        "decoder_norm": decoder_norm,
        "source_norm": embedding_norms if s.embedding_norm else -1,
        "target_norm": embedding_norms + 1 if s.embedding_norm else -1,
        "zero_start": s.start_vector == "zeros",
        "embedding_scale": f32(1 if s.embedding_scale == "none" else sqrt(s.d_model)),
        "eps": f32(s.norm_eps),
    }


def has_encoder(s: ModelSettings) -> bool:
    return s.kind != "language-model"


def has_decoder(s: ModelSettings) -> bool:
    return s.kind in ("translator", "language-model")


def is_tied(s: ModelSettings) -> bool:
    """Return whether the output projection is the embedding's table; an embedder has none."""
    tied = s.tie_target_output and s.kind not in ("classifier", "tagger")
    return tied or s.kind == "embedder"


def has_output_bias(s: ModelSettings) -> bool:
    biased = s.output_bias and s.kind != "embedder"
    return biased or s.kind in ("classifier", "tagger")


def matrix_names(s: ModelSettings) -> Iterator[tuple[int, str]]:
    """Yield the number of each matrix and its name in a checkpoint."""
    sizes = sizes_of(s)
    if sizes["source_table"]:
        yield 0, "decoder.embedding"
        yield 1, "encoder.embedding"
    else:
        yield 0, "encoder.embedding" if has_encoder(s) else "decoder.embedding"
    if sizes["output"]:
        yield sizes["output"], "output"
    for stack in ("encoder", "decoder"):
        for layer in range(sizes[f"{stack}_layers"]):
            for part, i in PARTS.items():
                if not part.startswith("cross") or (stack == "decoder" and sizes["cross"]):
                    yield sizes[stack] + MATRICES * layer + i, f"{stack}.layers.{layer}.{part}"


def norm_names(s: ModelSettings) -> Iterator[tuple[int, str]]:
    """Yield the number of each norm and its name in a checkpoint."""
    sizes = sizes_of(s)
    for stack in ("encoder", "decoder"):
        first, layers = sizes[f"{stack}_norm"], sizes[f"{stack}_layers"]
        for layer in range(layers):
            for part, n in RESIDUALS.items():
                if not part.startswith("cross") or (stack == "decoder" and sizes["cross"]):
                    yield first + NORMS * layer + n, f"{stack}.layers.{layer}.{part}_residual.norm"
        if layers and sizes["pre_norm"]:
            yield first + NORMS * layers, f"{stack}.final_norm"
        embedding = sizes["source_norm" if stack == "encoder" else "target_norm"]
        if layers and embedding >= 0:
            yield embedding, f"{stack}.embedding_norm"


def pack(s: ModelSettings, tensors: Tensors, int8: bool | None) -> PackedWeights:
    """Pack the weights of a checkpoint, one matrix after the other.

    `int8` None keeps what the checkpoint has; True quantises matrices that are in fp32; False
    turns eight bits into fp32.
    """
    check_together(s)
    check_names(s, tensors)
    names = dict(matrix_names(s))
    kinds = {m: _is_int8(name, tensors, int8) for m, name in names.items()}
    table = np.zeros((max(names) + 1, COLUMNS), np.int64)
    n_bytes = n_outputs = 0
    for m, name in names.items():
        outputs, inputs = expected_shape(s, name)
        outputs, inputs = rounded_up(outputs, BLOCK), rounded_up(inputs, 4 if kinds[m] else 1)
        table[m] = n_bytes, n_outputs, outputs, inputs, kinds[m]
        n_bytes += rounded_up(outputs * inputs * (1 if kinds[m] else 4), ALIGNMENT)
        n_outputs += outputs
    weights = PackedWeights(
        packed=aligned(n_bytes),
        scale=np.zeros(n_outputs, np.float32),
        offset=np.zeros(n_outputs, np.int32),
        bias=np.zeros(n_outputs, np.float32),
        matrices=table,
        norms=np.zeros(
            (max((n for n, _ in norm_names(s)), default=0) + 1, 2, s.d_model), np.float32
        ),
    )
    for m, name in names.items():
        _pack_matrix(s, weights, m, name, tensors, int8=kinds[m])
    for n, name in norm_names(s):
        weights.norms[n, 0] = checked(tensors, f"{name}.gain", (s.d_model,))
        if s.norm == "layer-norm":
            weights.norms[n, 1] = checked(tensors, f"{name}.bias", (s.d_model,))
    return weights


def expected_shapes(s: ModelSettings) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a model by its name in a checkpoint."""
    shapes: dict[str, tuple[int, ...]] = {}
    for _, name in matrix_names(s):
        outputs, inputs = expected_shape(s, name)
        shapes[f"{name}.weight"] = outputs, inputs
        if bias_name(s, name):
            shapes[bias_name(s, name)] = (outputs,)
    for _, name in norm_names(s):
        parts = ("gain", "bias") if s.norm == "layer-norm" else ("gain",)
        shapes |= {f"{name}.{part}": (s.d_model,) for part in parts}
    positions = {
        "learned": (s.max_positions, s.d_model),
        "relative": (2 * (s.max_distance or MAX_DISTANCE) + 1, s.n_heads),
        "relative-bucketed": (BUCKETS, s.n_heads),
    }
    if s.positions in positions:
        stacks = {"encoder": has_encoder(s), "decoder": has_decoder(s)}
        for stack in (name for name, there in stacks.items() if there):
            shapes[f"{stack}.positions.weight"] = positions[s.positions]
    return shapes


def check_types(s: ModelSettings, types: Mapping[str, TensorType]) -> None:
    """Refuse tensors of another model by names, shapes and dtypes, before any of them is read.

    A quantised checkpoint has int8 and a scale for every matrix, and floats for the rest. That of a
    classifier may hold votes of n-grams too.
    """
    layers = s.encoder_layers * has_encoder(s) + s.decoder_layers * has_decoder(s)
    if layers > len(types):  # before the names of so many layers are made
        raise CheckpointError(
            f"The settings ask for {layers:,} layers, and the weights have {len(types):,} tensors.",
            "Each layer has several tensors.",
            "Load a checkpoint with the settings that lie in its folder.",
        )
    shapes = expected_shapes(s) | ngram_shapes(s)
    expected: dict[str, TensorType] = {n: (shape, np.floating) for n, shape in shapes.items()}
    if any(name.endswith(SCALE) for name in types):
        for name in (n for n, shape in shapes.items() if is_matrix(n, shape)):
            expected[name] = shapes[name], np.int8
            expected[name + SCALE] = shapes[name][:1], np.floating
    for name in sorted(expected.keys() | types.keys()):
        wanted, given = expected.get(name), types.get(name)
        same = wanted and given and wanted[0] == given[0] and np.issubdtype(given[1], wanted[1])
        if not same:
            raise CheckpointError(
                f"The weights are of another model: {name} is {_described(given, 'absent')}.",
                f"The settings ask for {_described(wanted, 'no such tensor')}.",
                "Load a checkpoint with the settings that lie in its folder.",
            )


def _described(kind: TensorType | None, none: str) -> str:
    return f"{kind[0]} of {kind[1].__name__}" if kind else none


def check_names(s: ModelSettings, tensors: Iterable[str]) -> None:
    """Refuse weights of another model: a tensor that is missing, or that the settings lack."""
    wanted = set(expected_shapes(s))
    given = {n for n in tensors if not (n.endswith(SCALE) or n.startswith(PREFIX))}
    if wanted != given:
        name = min(wanted ^ given)
        raise CheckpointError(
            f"The weights are of another model: {name} is {'absent' if name in wanted else 'new'}.",
            f"The settings ask for {'this' if name in wanted else 'no such'} tensor.",
            "Load a checkpoint with the settings that lie in its folder.",
        )


def bias_name(s: ModelSettings, name: str) -> str:
    """Return the name of the bias of a matrix; nothing where it has none.

    The bias of a tied output is that of the table, where no look-up sees it.
    """
    tables = {number: table for number, table in matrix_names(s) if number < FIRST_LAYER}
    if name in tables.values():
        is_output = name == tables[sizes_of(s)["output"]]
        return "output.bias" if is_output and has_output_bias(s) else ""
    biased = s.feed_forward_bias if "feed_forward" in name else s.attention_bias
    return f"{name}.bias" if biased else ""


def _is_int8(name: str, tensors: Tensors, wanted: bool | None) -> bool:
    stored = f"{name}.weight{SCALE}" in tensors
    if not wanted:
        return stored and wanted is None
    return stored or len(tensors[f"{name}.weight"]) >= MIN_ROWS


def aligned(n_bytes: int) -> NDArray[np.uint8]:
    """Return memory that begins at a cache line."""
    memory = np.empty(n_bytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + n_bytes]


def expected_shape(s: ModelSettings, name: str) -> tuple[int, int]:
    """Return outputs and inputs of a matrix by its name."""
    d, kv = s.d_model, 2 * (s.n_kv_heads or s.n_heads) * (s.d_model // s.n_heads)
    if name == "output":
        return (s.n_classes if s.kind in ("classifier", "tagger") else s.vocab_size), d
    if name.endswith("embedding"):
        source = name.startswith("encoder") and s.kind == "translator" and not s.tie_source_target
        return (s.source_vocab_size or s.vocab_size) if source else s.vocab_size, d
    return {
        "self_attention.qkv": (d + kv, d),
        "self_attention.output": (d, d),
        "cross_attention.q": (d, d),
        "cross_attention.kv": (kv, d),
        "cross_attention.output": (d, d),
        "feed_forward.expand": (s.d_ff * (2 if s.feed_forward in GATED else 1), d),
        "feed_forward.contract": (d, s.d_ff),
    }[name.split(".", 3)[3]]


def _pack_matrix(
    s: ModelSettings, w: PackedWeights, m: int, name: str, tensors: Tensors, int8: bool
) -> None:
    outputs, inputs = expected_shape(s, name)
    start, first, n_outputs, n_inputs, _ = w.matrices[m].tolist()
    stored, scale, order = tensors[f"{name}.weight"], None, row_order(s, name)
    if stored.dtype == np.int8:
        weight = checked(tensors, f"{name}.weight", (outputs, inputs), np.int8)
        scale = checked(tensors, f"{name}.weight{SCALE}", (outputs,))
        if not int8:
            weight = weight * scale[:, None]
    else:
        weight = checked(tensors, f"{name}.weight", (outputs, inputs))
        if int8:
            weight, scale = quantise_rows(weight)
    weight = weight[order]
    n_bytes = n_outputs * n_inputs * (1 if int8 else 4)
    place = w.packed[start : start + n_bytes]
    if n_outputs != outputs or n_inputs != inputs:
        weight = np.pad(weight, ((0, n_outputs - outputs), (0, n_inputs - inputs)))
    if int8:
        assert scale is not None
        words = np.ascontiguousarray(weight).view(np.int32)  # four inputs each
        w.scale[first : first + outputs] = scale[order]
        w.offset[first : first + n_outputs] = weight.sum(1, dtype=np.int32) * (LEVELS + 1)
    else:
        words = weight.view(np.int32)
    blocks = words.reshape(-1, BLOCK, words.shape[1])
    place.view(np.int32).reshape(len(blocks), -1, BLOCK)[...] = blocks.transpose(0, 2, 1)
    if bias := bias_name(s, name):
        w.bias[first : first + outputs] = checked(tensors, bias, (outputs,))[order]
    w.bias[first + outputs : first + n_outputs] = HIDDEN  # never the best of the logits


def row_order(s: ModelSettings, name: str) -> NDArray[np.int64] | slice:
    """Return the order in which the rows of a matrix are packed.

    Where RoPE turns neighbours (2i, 2i + 1) of a query or key, all first ones of a head are packed
    before all second ones, so that `kernels.rotate` works on whole vectors; q · k is the same sum.
    """
    neighbours = s.positions == "rope" and s.rope_pairs == "neighbours"
    if not neighbours or not name.endswith("self_attention.qkv"):
        return slice(None)
    d_k, n_kv_heads = s.d_model // s.n_heads, s.n_kv_heads or s.n_heads
    rows = np.arange((s.n_heads + 2 * n_kv_heads) * d_k).reshape(-1, d_k)
    turned = rows[: s.n_heads + n_kv_heads]  # queries and keys, not values
    turned[:] = turned.reshape(-1, d_k // 2, 2).transpose(0, 2, 1).reshape(-1, d_k)
    return rows.reshape(-1)


def checked(
    tensors: Tensors, name: str, shape: tuple[int, ...], kind: type = np.float32
) -> NDArray[Any]:
    """Return a tensor, if it is there, of this shape, and finite."""
    tensor = tensors.get(name)
    if tensor is None or tensor.shape != shape:
        raise CheckpointError(
            f"The weights are of another model: {name} is "
            f"{'absent' if tensor is None else tensor.shape}.",
            f"The settings ask for {shape}.",
            "Load a checkpoint with the settings that lie in its folder.",
        )
    check_values(name, tensor)
    return tensor if kind is np.int8 else tensor.astype(np.float32, copy=False)


def check_values(name: str, tensor: NDArray[Any]) -> None:
    """Refuse weights that no training and no quantisation makes."""
    tensor = np.asarray(tensor)
    with np.errstate(over="ignore"):  # float64 beyond float32 becomes infinity, and is refused
        values = tensor.astype(np.float32, copy=False)
    if tensor.dtype == np.int8:
        wrong = "-128, and eight bits are read from -127 to 127" if (tensor == -128).any() else ""
    elif not np.isfinite(values).all():
        wrong = "NaN or infinity"
    elif np.abs(values).max(initial=0) > LARGEST:
        wrong = f"a value beyond {LARGEST:,}"
    else:
        wrong = "a scale of 0 or less" if name.endswith(SCALE) and (tensor <= 0).any() else ""
    if wrong:
        raise CheckpointError(
            f"{name} holds {wrong}.",
            "Every answer would be garbage.",
            "Use an earlier checkpoint of the run.",
        )


class PositionTables(NamedTuple):
    """Tables by position; those that the scheme does not use are empty."""

    position_rows: NDArray[np.float32]  # (positions, D): to the embedding
    cos: NDArray[np.float32]  # (positions, K/2): the angle by which RoPE turns a head
    sin: NDArray[np.float32]
    position_bias: NDArray[np.float32]  # (H, 2 positions - 1): to scores, by key - query

    def addresses(self) -> dict[str, int]:
        tables = self._asdict().items()
        return {name: table.ctypes.data if table.size else 0 for name, table in tables}


def positions_of(s: ModelSettings, tensors: Tensors, n: int, stack: str) -> PositionTables:
    """Return the tables of `n` positions for the encoder or the decoder."""
    none, d_k = np.zeros((0, 0), np.float32), s.d_model // s.n_heads
    rows = cos = sin = bias = none
    if s.positions == "sinusoidal":
        angle = _angles(n, s.d_model)
        rows = np.stack((np.sin(angle), np.cos(angle)), -1).reshape(n, -1)[:, : s.d_model]
    elif s.positions == "sinusoidal-halves":
        angle = _angles(n, s.d_model)
        rows = np.concatenate((np.sin(angle), np.cos(angle)[:, : s.d_model // 2]), 1)
    elif s.positions == "learned":
        shape = (s.max_positions, s.d_model)
        rows = checked(tensors, f"{stack}.positions.weight", shape)[:n]
    elif s.positions == "rope":
        angle = _angles(n, d_k, s.rope_base)
        cos, sin = np.cos(angle), np.sin(angle)
    elif s.positions != "none":
        bias = _bias(s, tensors, np.arange(1 - n, n), stack)
    kept = (np.ascontiguousarray(table, np.float32) for table in (rows, cos, sin, bias))
    return PositionTables(*kept)


def _angles(n: int, width: int, base: float = 10_000.0) -> NDArray[np.float64]:
    """pos / base^(2i/width): see model/positions.py."""
    return np.arange(n)[:, None] / base ** (np.arange(0, width, 2) / width)


def _bias(
    s: ModelSettings, tensors: Tensors, distance: NDArray[np.int64], stack: str
) -> NDArray[Any]:
    """Return the bias of each head, (H, distances), by the distance of key and query."""
    if s.positions == "alibi":
        return -np.array(alibi_slopes(s.n_heads))[:, None] * np.abs(distance)
    if s.positions == "relative":
        most = s.max_distance or MAX_DISTANCE
        bucket, n_buckets = distance.clip(-most, most) + most, 2 * most + 1
    else:
        n_buckets = BUCKETS
        bucket = _t5_buckets(distance, n_buckets, s.max_distance or 128, stack == "encoder")
    table = checked(tensors, f"{stack}.positions.weight", (n_buckets, s.n_heads))
    return table[bucket].T


def alibi_slopes(n_heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), …; for n between powers of two, the rest are from the next power's."""
    power = 1 << (n_heads.bit_length() - 1)
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    between = [2 ** (-4 * i / power) for i in range(1, 2 * power + 1, 2)]
    return slopes + between[: n_heads - power]


def _t5_buckets(
    distance: NDArray[np.int64], n_buckets: int, max_distance: int, both: bool
) -> NDArray[np.int64]:
    """T5's buckets: near distances one each, far ones shared logarithmically."""
    n = n_buckets // 2 if both else n_buckets
    ahead = (distance > 0) * n if both else 0
    far = np.abs(distance) if both else (-distance).clip(0)
    exact = n // 2
    growth = np.log((far.clip(1) / exact).astype(np.float32)) / f32(log(max_distance / exact))
    shared = (exact + (growth * f32(n - exact)).astype(np.int64)).clip(max=n - 1)
    return ahead + np.where(far < exact, far, shared)
