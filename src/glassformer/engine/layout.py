"""Layout of weights in memory: packed once for the tiles, each matrix held once.

An embedding that is also the output projection is looked up in the packed output.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.config import ModelSettings, check_together
from glassformer.engine.checks import Tensors, check_names, checked
from glassformer.engine.memory import rounded_up
from glassformer.engine.shapes import bias_name, expected_shape, matrix_names, norm_names
from glassformer.engine.sizes import BLOCK, COLUMNS, HIDDEN, LEVELS
from glassformer.quantize import MIN_ROWS, SCALE, quantise_rows

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


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
