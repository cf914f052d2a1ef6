"""The operations of a Transformer over rows of floats, as plain loops.

A matrix product, `linear`, runs in tiles (`vector.py`); everything else is a loop that Numba
vectorises. Rows are tokens: hypotheses of a beam, or positions of a source. No operation looks at
two rows at once except attention, which reads the keys and values at given addresses.

Memory is handed on by address, as in C, with its stride from row to row in floats; the arrays
themselves are kept by `model.py`. To Numba an array is nine numbers and a reference count.

Where several threads work on the same rows, they share the outputs of a product among them and do
the rest twice, each in buffers of its own: a norm costs less than waiting for another thread.
"""

from typing import Any

import numpy as np

from glassformer.compiled.build import floats, inlined, inner, int8s, int32s, int64s, uint8s
from glassformer.engine.sizes import (
    BLOCK,
    COLUMNS,
    FLOAT,
    GELU,
    GELU_TANH,
    HIDDEN,
    KEYS,
    LEVELS,
    LINE,
    RELU,
    ROWS,
    SILU,
    SWIGLU,
    WIDTH,
    f32,
)
from glassformer.engine.tiles import (
    fp32_tile,
    int8_tile,
    score_keys,
    score_keys_of_rows,
    weigh_values,
    weigh_values_of_rows,
)
from glassformer.engine.vector import (
    exp,
    exponentiate,
    largest,
    largest_magnitude,
    total,
    total_square,
    wait_for_all,
)

Address = int
Struct = Any  # a MODEL, MEMORY or BATCH: see memory.py


@inner
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


@inlined
def sigmoid(x: np.float32) -> np.float32:
    """Return 1 / (1 + e^-x), by the power that cannot overflow."""
    e = exp(-abs(x))
    return (f32(1.0) if x >= f32(0.0) else e) / (f32(1.0) + e)


@inlined
def gelu_tanh(x: np.float32) -> np.float32:
    """Return x/2 (1 + tanh(u)), which is x σ(2u), for u = √(2/π) (x + 0.044715 x³)."""
    return x * sigmoid(f32(1.5957691216057308) * (x + f32(0.044715) * x * x * x))


@inner
def quantise(
    x: Address, stride: int, n_rows: int, width: int, q: Address, q_stride: int, scale: Address
) -> None:
    """Write each row in eight bits: x ≈ (q - LEVELS - 1) · scale, with a scale for each row."""
    scales = floats(scale, n_rows)
    for r in range(n_rows):
        row, bits = floats(x + FLOAT * r * stride, width), uint8s(q + r * q_stride, width)
        size = max(largest_magnitude(x + FLOAT * r * stride, width), f32(1e-30))
        factor = f32(LEVELS) / size
        scales[r] = size / f32(LEVELS)
        for k in range(width):
            bits[k] = np.uint8(np.int32(row[k] * factor + f32(LEVELS + 1.5)))


@inner
def linear(
    w: Struct,
    b: Struct,
    i: int,
    x: Address,
    stride: int,
    n_rows: int,
    out: Address,
    out_stride: int,
) -> None:
    """Write out = x Wᵀ + b for matrix i, each thread its share of the outputs, and wait for all."""
    x, x_row = operand(w, b, i, x, stride, n_rows)
    blocks = int64s(w.matrices + 8 * COLUMNS * i, COLUMNS)[2] // BLOCK
    begin, end = blocks * b.thread // b.n_threads, blocks * (b.thread + 1) // b.n_threads
    multiply(w, i, begin, end, x, x_row, b.x_scale, n_rows, out, out_stride)
    if b.n_threads > 1:
        wait_for_all(b.counter, b.n_threads)


@inlined
def operand(
    w: Struct, b: Struct, i: int, x: Address, stride: int, n_rows: int
) -> tuple[Address, int]:
    """Return the rows that matrix i multiplies and their stride in bytes; INT8 quantises them."""
    matrix = int64s(w.matrices + 8 * COLUMNS * i, COLUMNS)
    if matrix[4]:
        quantise(x, stride, n_rows, matrix[3], b.quantised, b.quantised_row, b.x_scale)
        return b.quantised, b.quantised_row
    return x, FLOAT * stride


@inner
def multiply(
    w: Struct,
    i: int,
    begin: int,
    end: int,
    x: Address,
    x_row: int,
    x_scale: Address,
    n_rows: int,
    out: Address,
    out_stride: int,
) -> None:
    """Write the outputs of blocks `begin` to `end` of matrix i, in tiles of about equal height.

    `x` is an `operand`, with the scales of its rows.
    """
    matrix = int64s(w.matrices + 8 * COLUMNS * i, COLUMNS)
    first, inputs, int8 = matrix[1], matrix[3], matrix[4] == 1
    steps = inputs // 4 if int8 else inputs
    y_row, tiles = FLOAT * out_stride, (n_rows + ROWS - 1) // ROWS
    for n in range(begin * BLOCK, end * BLOCK, WIDTH):
        block = w.packed + matrix[0] + n // BLOCK * steps * LINE + n % BLOCK * 4
        at = FLOAT * (first + n)
        scale, offset, bias, y = w.scale + at, w.offset + at, w.bias + at, out + FLOAT * n
        for part in range(tiles):
            r = n_rows * part // tiles
            height = n_rows * (part + 1) // tiles - r
            xr, sr, yr = x + r * x_row, x_scale + FLOAT * r, y + r * y_row
            if int8:
                int8_tile(height, xr, x_row, block, steps, scale, offset, bias, sr, yr, y_row)
            else:
                fp32_tile(height, xr, x_row, block, steps, scale, offset, bias, sr, yr, y_row)


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


@inner
def normalise(w: Struct, n: int, x: Address, stride: int, n_rows: int, out: Address) -> None:
    """LayerNorm(x) or RMSNorm(x) of each row, with the gain and bias of norm n."""
    width, rms = w.d_model, w.rms
    gain = floats(w.norms + FLOAT * 2 * n * width, width)
    bias = floats(w.norms + FLOAT * (2 * n + 1) * width, width)
    for r in range(n_rows):
        at = x + FLOAT * r * stride
        row, to = floats(at, width), floats(out + FLOAT * r * stride, width)
        mean = f32(0.0) if rms else total(at, width) / f32(width)
        square = total_square(at, mean, width)
        factor = f32(1.0) / np.sqrt(square / f32(width) + w.eps)
        for k in range(width):
            to[k] = (row[k] - mean) * factor * gain[k] + bias[k]


@inner
def add_row(x: Address, y: Address, width: int) -> None:
    """x += y."""
    row, to = floats(y, width), floats(x, width)
    for k in range(width):
        to[k] += row[k]


@inner
def sum_rows(x: Address, y: Address, out: Address, width: int) -> None:
    """Write x + y to other memory: LLVM does not vectorise a loop that reads what it writes."""
    first, second, to = floats(x, width), floats(y, width), floats(out, width)
    for k in range(width):
        to[k] = first[k] + second[k]


@inner
def copy(x: Address, out: Address, width: int) -> None:
    row, to = floats(x, width), floats(out, width)
    for k in range(width):
        to[k] = row[k]


@inner
def activate(
    kind: int, x: Address, stride: int, n_rows: int, out: Address, out_stride: int, width: int
) -> None:
    """ReLU(x), GELU(x), SiLU(x), or SiLU(gate) · value or GELU(gate) · value of [gate, value]."""
    for r in range(n_rows):
        row = floats(x + FLOAT * r * stride, 2 * width)
        to = floats(out + FLOAT * r * out_stride, width)
        if kind == RELU:
            for k in range(width):
                to[k] = max(row[k], f32(0.0))
        elif kind == GELU:
            for k in range(width):
                to[k] = f32(0.5) * row[k] * (f32(1.0) + erf(row[k] * f32(0.7071067811865476)))
        elif kind == GELU_TANH:
            for k in range(width):
                to[k] = gelu_tanh(row[k])
        elif kind == SILU:
            for k in range(width):
                to[k] = row[k] * sigmoid(row[k])
        elif kind == SWIGLU:
            for k in range(width):
                to[k] = row[k] * sigmoid(row[k]) * row[width + k]
        else:
            for k in range(width):
                to[k] = gelu_tanh(row[k]) * row[width + k]


@inner
def rotate(x: Address, width: int, cos: Address, sin: Address, d_k: int, out: Address) -> None:
    """Copy heads and turn each pair of their values by the angle of its position (RoPE).

    The first values of all pairs come before the second ones: see `layout.row_order`.
    """
    half = d_k // 2
    c, s = floats(cos, half), floats(sin, half)
    for head in range(0, FLOAT * width, FLOAT * d_k):
        first, second = floats(x + head, half), floats(x + head + FLOAT * half, half)
        to, then = floats(out + head, half), floats(out + head + FLOAT * half, half)
        for i in range(half):
            to[i] = first[i] * c[i] - second[i] * s[i]
        for i in range(half):
            then[i] = first[i] * s[i] + second[i] * c[i]


@inner
def write_keys(w: Struct, b: Struct, k: Address, position: int, keys: Address) -> None:
    """Put the keys of a token, rotated where there is RoPE, among those of 16 positions.

    Keys of all heads lie as (blocks of 16 positions, heads, d_k, 16): a query meets 16 at once.
    """
    if b.cos:
        angle, width = FLOAT * position * (w.d_k // 2), w.n_kv_heads * w.d_k
        rotate(k, width, b.cos + angle, b.sin + angle, w.d_k, b.rotated)
        k = b.rotated
    write_source_keys(w, k, position, keys)


@inner
def write_source_keys(w: Struct, k: Address, position: int, keys: Address) -> None:
    """Put the keys of a token among those of 16 positions."""
    width = w.n_kv_heads * w.d_k
    block = keys + FLOAT * (position // KEYS) * width * KEYS
    row, to = floats(k, width), floats(block + FLOAT * (position % KEYS), width * KEYS)
    for i in range(width):
        to[i * KEYS] = row[i]


@inlined
def score_heads(
    w: Struct, q: Address, keys: Address, scale: np.float32, out: Address, stride: int
) -> None:
    """Score 16 keys for every head of a query; neighbouring heads may share their keys."""
    head = FLOAT * w.d_k
    for _ in range(w.n_kv_heads):
        for _ in range(w.n_heads // w.n_kv_heads):
            score_keys(q, head, keys, w.d_k, scale, out, stride)
            q, out = q + head, out + stride
        keys += head * KEYS


@inner
def attend(
    w: Struct,
    b: Struct,
    q: Address,
    keys: Address,
    values: Address,
    step: int,
    slots: Address,
    n: int,
    bias: Address,
    out: Address,
) -> None:
    """softmax(q Kᵀ / √d_k + bias) V for one query and all its heads (Equation 1).

    Keys of 16 positions are one block, of 16 rows. Blocks follow each other, or with `slots` the
    token at position p is in row slots[p] - p % 16 of `keys`. The value of position p is at
    values + p · step, or slots[p] rows behind. `bias` is the address of the first key's bias in
    the first head, or 0.
    """
    n_heads, d_k = w.n_heads, w.d_k
    scores, scores_row, bias_row = b.scores, b.scores_row, 2 * b.n_positions - 1
    head, row = FLOAT * d_k, FLOAT * w.n_kv_heads * d_k
    scale, group = f32(1.0) / np.sqrt(f32(d_k)), n_heads // w.n_kv_heads
    listed, table, found = (
        int32s(slots, n),
        floats(scores, n_heads * scores_row),
        floats(b.found, n_heads * KEYS),
    )
    for first in range(0, n, KEYS):
        last, block = min(first + KEYS, n), keys + first * row
        alike = True
        if slots:
            for p in range(first + 1, last):
                alike &= listed[p] == listed[first] + p - first
            block = keys + listed[first] * row
        if alike:
            score_heads(w, q, block, scale, scores + FLOAT * first, FLOAT * scores_row)
            continue
        for p in range(first, last):  # hypotheses of a beam parted within these positions
            is_new = True
            for e in range(first, p):
                is_new &= listed[e] - e != listed[p] - p
            if is_new:
                own = keys + (listed[p] + first - p) * row
                score_heads(w, q, own, scale, b.found, FLOAT * KEYS)
                for h in range(n_heads):
                    for e in range(p, last):
                        if listed[e] - e == listed[p] - p:
                            table[h * scores_row + e] = found[h * KEYS + e - first]
    whole = (n + KEYS - 1) // KEYS * KEYS
    value, shared = values, 0
    for h in range(n_heads):
        at = scores + FLOAT * h * scores_row
        weights = floats(at, whole)
        if bias:
            added = floats(bias + FLOAT * h * bias_row, n)
            for p in range(n):
                weights[p] += added[p]
        for p in range(n, whole):
            weights[p] = HIDDEN  # e^HIDDEN is 0: whole vectors without a rest
        found[0] = f32(1.0) / exponentiate(at, largest(at, whole), whole, at)
        weigh_values(at, row, value, step, slots, row, n, d_k, b.found, out + h * head, row)
        shared += 1
        if shared == group:
            value, shared = value + head, 0


@inner
def attend_rows(
    w: Struct, b: Struct, q: Address, keys: Address, values: Address, n: int, bias: Address
) -> None:
    """Replace the next ROWS queries of one sequence by their attention to its n tokens.

    It computes what `attend` does, for several neighbouring queries at once: keys and values are
    loaded once for all of them. `bias` is that of the first query, or 0.
    """
    d_k, scores, scores_row, bias_row = w.d_k, b.scores, b.scores_row, 2 * b.n_positions - 1
    head, row, stride = FLOAT * d_k, FLOAT * w.n_kv_heads * d_k, FLOAT * b.row
    scale, group = f32(1.0) / np.sqrt(f32(d_k)), w.n_heads // w.n_kv_heads
    whole, none = (n + KEYS - 1) // KEYS * KEYS, b.thread - b.thread
    table, factors = floats(scores, ROWS * scores_row), floats(b.found, ROWS)
    for h in range(w.n_heads):
        shared = h // group
        block = keys + shared * head * KEYS
        for first in range(0, n, KEYS):
            to = scores + FLOAT * first
            score_keys_of_rows(q, stride, block, d_k, scale, to, FLOAT * scores_row)
            block += KEYS * row
        for r in range(ROWS):
            at = r * scores_row
            if bias:
                added = floats(bias + FLOAT * (h * bias_row - r), n)
                for p in range(n):
                    table[at + p] += added[p]
            for p in range(n, whole):
                table[at + p] = HIDDEN
            place = scores + FLOAT * at
            factors[r] = f32(1.0) / exponentiate(place, largest(place, whole), whole, place)
        value = values + shared * head
        weigh_values_of_rows(
            scores, FLOAT * scores_row, value, row, none, row, n, d_k, b.found, q, stride
        )
        q += head
