"""The operations of a Transformer over rows of floats, as plain loops.

A matrix product, `linear`, runs in tiles (`vector.py`); everything else is a loop that Numba
vectorises. Rows are tokens: hypotheses of a beam, or positions of a source. No operation looks at
two rows at once except attention, which reads the keys and values it is told to.

Memory is handed on by address, as in C, with its stride from row to row in floats; the arrays
themselves are kept by `model.py`. To Numba an array is nine numbers and a reference count.

Where several threads work on the same rows, they share the outputs of a product among them and do
the rest twice, each in buffers of its own: a norm costs less than waiting for another thread.
"""

from typing import Any

import numpy as np

from glassformer.compiled import fast, inlined, inner
from glassformer.engine.vector import (
    BLOCK,
    LEVELS,
    LINE,
    ROWS,
    WIDTH,
    add_scaled,
    dot,
    exp,
    exponentiate,
    floats,
    fp32_tile_1,
    fp32_tile_2,
    fp32_tile_3,
    fp32_tile_4,
    fp32_tile_5,
    fp32_tile_6,
    int8_tile_1,
    int8_tile_2,
    int8_tile_3,
    int8_tile_4,
    int8_tile_5,
    int8_tile_6,
    int8s,
    int32s,
    int64s,
    largest,
    largest_magnitude,
    uint8s,
    wait_for_all,
)

f32 = np.float32
RELU, GELU, SWIGLU = range(3)
FLOAT = 4  # bytes
COLUMNS = 5  # of the table of matrices
Address = int


Struct = Any  # a MODEL, MEMORY or BATCH: see memory.py


@fast
def erf(x: np.float32) -> np.float32:
    """Return the error function to 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    size = abs(x)
    t = f32(1.0) / (f32(1.0) + f32(0.3275911) * size)
    p = f32(1.061405429)
    p = p * t - f32(1.453152027)
    p = p * t + f32(1.421413741)
    p = p * t - f32(0.284496736)
    p = p * t + f32(0.254829592)
    y = f32(1.0) - p * t * exp(-size * size)
    return y if x >= f32(0.0) else -y


@fast
def quantise(x: Address, stride: int, n_rows: int, width: int, q: Address, q_stride: int, scale: Address) -> None:
    """Write each row in eight bits: x ≈ (q - LEVELS - 1) · scale, with a scale for each row."""
    scales = floats(scale, n_rows)
    for r in range(n_rows):
        row, bits = floats(x + FLOAT * r * stride, width), uint8s(q + r * q_stride, width)
        size = max(largest_magnitude(x + FLOAT * r * stride, width), f32(1e-30))
        factor = f32(LEVELS) / size
        scales[r] = size / f32(LEVELS)
        for k in range(width):
            bits[k] = np.uint8(np.int32(row[k] * factor + f32(LEVELS + 1.5)))


@inlined
def linear(w: Struct, b: Struct, i: int, x: Address, stride: int, n_rows: int, out: Address, out_stride: int) -> None:
    """Write out = x Wᵀ + b for matrix i, each thread its share of the outputs, and wait for all."""
    quantise_for(w, b, i, x, stride, n_rows)
    blocks = int64s(w.matrices + 8 * COLUMNS * i, COLUMNS)[2] // BLOCK
    begin, end = blocks * b.thread // b.n_threads, blocks * (b.thread + 1) // b.n_threads
    multiply(w, b, i, begin, end, x, stride, n_rows, out, out_stride)
    if b.n_threads > 1:
        wait_for_all(b.counter, b.n_threads)


@inlined
def quantise_for(w: Struct, b: Struct, i: int, x: Address, stride: int, n_rows: int) -> None:
    """Write the rows in eight bits, if matrix i is in eight bits."""
    matrix = int64s(w.matrices + 8 * COLUMNS * i, COLUMNS)
    if matrix[4]:
        quantise(x, stride, n_rows, matrix[3], b.quantised, b.quantised_row, b.x_scale)


@inner
def multiply(w: Struct, b: Struct, i: int, begin: int, end: int, x: Address, stride: int, n_rows: int, out: Address, out_stride: int) -> None:
    """Write the outputs of blocks `begin` to `end` of matrix i, in tiles of about equal height."""
    matrix = int64s(w.matrices + 8 * COLUMNS * i, COLUMNS)
    first, inputs, int8 = matrix[1], matrix[3], matrix[4] == 1
    steps = inputs // 4 if int8 else inputs
    x, x_row = (b.quantised, b.quantised_row) if int8 else (x, FLOAT * stride)
    y_row, tiles = FLOAT * out_stride, (n_rows + ROWS - 1) // ROWS
    for n in range(begin * BLOCK, end * BLOCK, WIDTH):
        block = w.packed + matrix[0] + n // BLOCK * steps * LINE + n % BLOCK * 4
        at = FLOAT * (first + n)
        scale, offset, bias, y = w.scale + at, w.offset + at, w.bias + at, out + FLOAT * n
        for part in range(tiles):
            r = n_rows * part // tiles
            height = n_rows * (part + 1) // tiles - r
            xr, sr, yr = x + r * x_row, b.x_scale + FLOAT * r, y + r * y_row
            if int8:
                if height == 1:
                    int8_tile_1(xr, x_row, block, steps, scale, offset, bias, sr, yr, y_row)
                elif height == 2:
                    int8_tile_2(xr, x_row, block, steps, scale, offset, bias, sr, yr, y_row)
                elif ROWS > 2 and height == 3:
                    int8_tile_3(xr, x_row, block, steps, scale, offset, bias, sr, yr, y_row)
                elif ROWS > 2 and height == 4:
                    int8_tile_4(xr, x_row, block, steps, scale, offset, bias, sr, yr, y_row)
                elif ROWS > 2 and height == 5:
                    int8_tile_5(xr, x_row, block, steps, scale, offset, bias, sr, yr, y_row)
                elif ROWS > 2:
                    int8_tile_6(xr, x_row, block, steps, scale, offset, bias, sr, yr, y_row)
            elif height == 1:
                fp32_tile_1(xr, x_row, block, steps, scale, offset, bias, sr, yr, y_row)
            elif height == 2:
                fp32_tile_2(xr, x_row, block, steps, scale, offset, bias, sr, yr, y_row)
            elif ROWS > 2 and height == 3:
                fp32_tile_3(xr, x_row, block, steps, scale, offset, bias, sr, yr, y_row)
            elif ROWS > 2 and height == 4:
                fp32_tile_4(xr, x_row, block, steps, scale, offset, bias, sr, yr, y_row)
            elif ROWS > 2 and height == 5:
                fp32_tile_5(xr, x_row, block, steps, scale, offset, bias, sr, yr, y_row)
            elif ROWS > 2:
                fp32_tile_6(xr, x_row, block, steps, scale, offset, bias, sr, yr, y_row)


@inner
def embed(w: Struct, i: int, token: int, out: Address) -> None:
    """Write row `token` of the table that matrix i holds, times the embedding's scale."""
    matrix = int64s(w.matrices + 8 * COLUMNS * i, COLUMNS)
    width, factor = w.d_model, w.embedding_scale
    row, inputs = floats(out, width), matrix[3]
    lane, block = w.packed + matrix[0] + token % BLOCK * 4, token // BLOCK
    if matrix[4]:
        lines = int8s(lane + block * (inputs // 4) * LINE, inputs // 4 * LINE)
        scale = floats(w.scale, matrix[1] + token + 1)[matrix[1] + token] * factor
        for k in range(width):
            row[k] = f32(lines[k // 4 * LINE + k % 4]) * scale
    else:
        column = floats(lane + block * inputs * LINE, inputs * BLOCK)
        for k in range(width):
            row[k] = column[k * BLOCK] * factor


@fast
def normalise(w: Struct, n: int, x: Address, stride: int, n_rows: int, out: Address) -> None:
    """LayerNorm(x) or RMSNorm(x) of each row, with the gain and bias of norm n."""
    width, rms = w.d_model, w.rms
    gain = floats(w.norms + FLOAT * 2 * n * width, width)
    bias = floats(w.norms + FLOAT * (2 * n + 1) * width, width)
    for r in range(n_rows):
        row, to = floats(x + FLOAT * r * stride, width), floats(out + FLOAT * r * stride, width)
        mean = f32(0.0)
        if not rms:
            for k in range(width):
                mean += row[k]
            mean /= f32(width)
        square = f32(0.0)
        for k in range(width):
            square += (row[k] - mean) * (row[k] - mean)
        factor = f32(1.0) / np.sqrt(square / f32(width) + f32(1e-5))
        for k in range(width):
            to[k] = (row[k] - mean) * factor * gain[k] + bias[k]


@fast
def add_row(x: Address, y: Address, width: int) -> None:
    """x += y."""
    row, to = floats(y, width), floats(x, width)
    for k in range(width):
        to[k] += row[k]


@fast
def copy(x: Address, out: Address, width: int) -> None:
    row, to = floats(x, width), floats(out, width)
    for k in range(width):
        to[k] = row[k]


@fast
def activate(kind: int, x: Address, stride: int, n_rows: int, out: Address, out_stride: int, width: int) -> None:
    """ReLU(x), GELU(x), or SiLU(gate) · value of x = [gate, value]."""
    for r in range(n_rows):
        row = floats(x + FLOAT * r * stride, 2 * width)
        to = floats(out + FLOAT * r * out_stride, width)
        if kind == RELU:
            for k in range(width):
                to[k] = max(row[k], f32(0.0))
        elif kind == GELU:
            for k in range(width):
                to[k] = f32(0.5) * row[k] * (f32(1.0) + erf(row[k] * f32(0.7071067811865476)))
        else:
            for k in range(width):
                e = exp(-abs(row[k]))
                sigmoid = (f32(1.0) if row[k] >= f32(0.0) else e) / (f32(1.0) + e)
                to[k] = row[k] * sigmoid * row[width + k]


@fast
def rotate(x: Address, n_pairs: int, cos: Address, sin: Address, d_k: int, out: Address) -> None:
    """Copy heads and turn each pair of their values by the angle of its position (RoPE)."""
    row, to = floats(x, 2 * n_pairs), floats(out, 2 * n_pairs)
    c, s = floats(cos, d_k // 2), floats(sin, d_k // 2)
    for head in range(0, 2 * n_pairs, d_k):
        for i in range(d_k // 2):
            a, b = row[head + 2 * i], row[head + 2 * i + 1]
            to[head + 2 * i] = a * c[i] - b * s[i]
            to[head + 2 * i + 1] = a * s[i] + b * c[i]


@fast
def attend(w: Struct, b: Struct, q: Address, keys_values: Address, rows: Address, n: int, bias: Address, out: Address) -> None:
    """softmax(q Kᵀ / √d_k + bias) V for one query and all its heads (Equation 1).

    Key and value j stand in row rows[j] of `keys_values`: keys of all heads, then values. `bias`
    is the address of the first key's bias in the first head, or 0.
    """
    n_heads, n_kv_heads, d_k = w.n_heads, w.n_kv_heads, w.d_k
    scores, scores_row, bias_row = b.scores, b.scores_row, 2 * b.n_positions - 1
    listed, group, head = int32s(rows, n), n_heads // n_kv_heads, FLOAT * d_k
    scale = f32(1.0) / np.sqrt(f32(d_k))
    table, row = floats(scores, n_heads * scores_row), FLOAT * w.kv_row
    for j in range(n):
        key = keys_values + listed[j] * row
        for h in range(n_heads):
            table[h * scores_row + j] = dot(q + h * head, key + h // group * head, d_k) * scale
    for h in range(n_heads):
        at = scores + FLOAT * h * scores_row
        weights = floats(at, n)
        if bias:
            added = floats(bias + FLOAT * h * bias_row, n)
            for j in range(n):
                weights[j] += added[j]
        factor = f32(1.0) / exponentiate(at, largest(at, n), n, at)
        for j in range(n):
            weights[j] *= factor
    result = floats(out, n_heads * d_k)
    for k in range(n_heads * d_k):
        result[k] = f32(0.0)
    for j in range(n):
        value = keys_values + n_kv_heads * head + listed[j] * row
        for h in range(n_heads):
            add_scaled(out + h * head, value + h // group * head, table[h * scores_row + j], d_k)
