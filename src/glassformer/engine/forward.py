"""The layers: encoder, decoder and output over rows of tokens.

    x ─ embed ─ [ self-attention ─ (cross-attention) ─ feed-forward ] × N ─ norm ─ output

`encode` reads whole sources, `decode` the next tokens of hypotheses or of prefixes. Each is the
block of `model/encoder.py` and `model/decoder.py` written as loops over rows; sentences have their
own lengths, so there is no padding and no mask.
"""

import numpy as np
from numpy.typing import NDArray

from glassformer.compiled import compiled, inlined, inner
from glassformer.engine.kernels import (
    FLOAT,
    Address,
    Struct,
    activate,
    add_row,
    attend,
    copy,
    embed,
    f32,
    linear,
    multiply,
    normalise,
    quantise_for,
    rotate,
)
from glassformer.engine.vector import BLOCK, exp, exponentiate, floats, int64s, largest, wait_for_all

# Matrices of a layer: the first four of every layer, the others of a translator's decoder.
QKV, ATTENTION_OUTPUT, EXPAND, CONTRACT, CROSS_Q, CROSS_KV, CROSS_OUTPUT = range(7)
MATRICES = 7
SELF_ATTENTION_NORM, FEED_FORWARD_NORM, CROSS_ATTENTION_NORM = range(3)
NORMS = 3
PLACE = 4  # numbers that tell where a row stands: see `decode`
ENDLESS = 1 << 40  # length of an array whose length is known elsewhere
BLOCKS_AT_ONCE = 8  # of logits that are summarised while they are in the first-level cache
HIDDEN = f32(-1e30)  # the logit of a token that may not be taken


@inlined
def embed_token(w: Struct, b: Struct, table: int, token: int, position: int, x: Address) -> None:
    """Embedding(token) · scale + PE(position): the bottom of Figure 1."""
    embed(w, table, token, x)
    if b.position_rows:
        add_row(x, b.position_rows + FLOAT * position * w.d_model, w.d_model)


@inlined
def before(w: Struct, b: Struct, n: int, n_rows: int) -> Address:
    """Return the input of a sub-layer: x, normalised first with pre-norm."""
    if not w.pre_norm:
        return b.x
    normalise(w, n, b.x, b.row, n_rows, b.y)
    return b.y


@inlined
def after(w: Struct, b: Struct, n: int, n_rows: int) -> None:
    """Add the output of a sub-layer to x, and normalise the sum with post-norm."""
    for r in range(n_rows):
        add_row(b.x + FLOAT * r * b.row, b.narrow + FLOAT * r * b.narrow_row, w.d_model)
    if not w.pre_norm:
        normalise(w, n, b.x, b.row, n_rows, b.x)


@inlined
def split_heads(w: Struct, b: Struct, r: int, position: int, kv: Address) -> None:
    """Copy the queries of row r to b.y and its keys and values to `kv`; RoPE rotates them."""
    qkv, q = b.wide + FLOAT * r * b.wide_row, b.y + FLOAT * r * b.row
    width = w.n_kv_heads * w.d_k
    k = qkv + FLOAT * w.d_model
    if b.cos:
        angle = FLOAT * position * (w.d_k // 2)
        rotate(qkv, w.d_model // 2, b.cos + angle, b.sin + angle, w.d_k, q)
        rotate(k, width // 2, b.cos + angle, b.sin + angle, w.d_k, kv)
    else:
        copy(qkv, q, w.d_model)
        copy(k, kv, width)
    copy(k + FLOAT * width, kv + FLOAT * width, width)


@inlined
def attend_itself(w: Struct, b: Struct, r: int, position: int, kv: Address, rows: Address, n: int) -> None:
    """Self-attention of the query in row r of b.y over the keys and values in `rows`."""
    bias = b.position_bias
    if bias:
        bias += FLOAT * (b.n_positions - 1 - position)
    y = b.y + FLOAT * r * b.row
    attend(w, b, y, kv, rows, n, bias, y)


@inlined
def feed_forward(w: Struct, b: Struct, i: int, n: int, n_rows: int) -> None:
    """x + FFN(x), with its norm: Equation 2."""
    x = before(w, b, n, n_rows)
    linear(w, b, i + EXPAND, x, b.row, n_rows, b.wide, b.wide_row)
    activate(w.activation, b.wide, b.wide_row, n_rows, b.hidden, b.hidden_row, w.d_ff)
    linear(w, b, i + CONTRACT, b.hidden, b.hidden_row, n_rows, b.narrow, b.narrow_row)
    after(w, b, n, n_rows)


@inlined
def finish(w: Struct, b: Struct, n: int, n_rows: int) -> None:
    """Write the output of a stack to b.y; a pre-norm stack ends in a norm."""
    if w.pre_norm:
        normalise(w, n, b.x, b.row, n_rows, b.y)
    else:
        copy(b.x, b.y, n_rows * b.row)


@compiled
def encode(w: Struct, b: Struct, ids: NDArray[np.int64], starts: NDArray[np.int64], every: Address, cross: Address, cross_rows: int) -> None:
    """Read sentences, ids[starts[i]:starts[i + 1]] each; their output is left in b.y.

    `every` lists the rows 0, 1, 2, …. For a translator the keys and values of cross-attention are
    written to `cross`, (layers, cross_rows, 2 G K).
    """
    n_rows, n_sentences = starts[-1], len(starts) - 1
    for s in range(n_sentences):
        for r in range(starts[s], starts[s + 1]):
            x = b.x + FLOAT * r * b.row
            embed_token(w, b, w.source_table, ids[r], r - starts[s], x)
    for layer in range(w.encoder_layers):
        i, n = w.encoder + MATRICES * layer, w.encoder_norm + NORMS * layer
        x = before(w, b, n + SELF_ATTENTION_NORM, n_rows)
        linear(w, b, i + QKV, x, b.row, n_rows, b.wide, b.wide_row)
        for s in range(n_sentences):
            first, length = starts[s], starts[s + 1] - starts[s]
            for position in range(length):
                r = first + position
                split_heads(w, b, r, position, b.keys_values + FLOAT * r * w.kv_row)
            for position in range(length):
                rows = every + 4 * first
                attend_itself(w, b, first + position, position, b.keys_values, rows, length)
        linear(w, b, i + ATTENTION_OUTPUT, b.y, b.row, n_rows, b.narrow, b.narrow_row)
        after(w, b, n + SELF_ATTENTION_NORM, n_rows)
        feed_forward(w, b, i, n + FEED_FORWARD_NORM, n_rows)
    finish(w, b, w.encoder_norm + NORMS * w.encoder_layers, n_rows)
    if cross:
        for layer in range(w.decoder_layers):
            out = cross + FLOAT * layer * cross_rows * w.kv_row
            i = w.decoder + MATRICES * layer + CROSS_KV
            linear(w, b, i, b.y, b.row, n_rows, out, w.kv_row)


@inlined
def decode(w: Struct, b: Struct, batch: Struct, n_rows: int) -> None:
    """Run the decoder on one token per row; its output is left in b.y.

    The place of a row: its sentence, the position of its token, the row of the cache in which its
    keys and values are kept, and the row of `ancestors` that lists those of all tokens up to it.
    """
    ids, place = int64s(batch.tokens, n_rows), int64s(batch.places, PLACE * n_rows)
    starts = int64s(batch.starts, ENDLESS)
    no_bias = b.thread - b.thread  # 0; Numba would compile `attend` once more for a constant
    for r in range(n_rows):
        x = b.x + FLOAT * r * b.row
        embed_token(w, b, w.target_table, ids[r], place[PLACE * r + 1], x)
    for layer in range(w.decoder_layers):
        i, n = w.decoder + MATRICES * layer, w.decoder_norm + NORMS * layer
        own = batch.own + FLOAT * layer * batch.own_rows * w.kv_row
        x = before(w, b, n + SELF_ATTENTION_NORM, n_rows)
        linear(w, b, i + QKV, x, b.row, n_rows, b.wide, b.wide_row)
        for r in range(n_rows):
            kv = own + FLOAT * place[PLACE * r + 2] * w.kv_row
            split_heads(w, b, r, place[PLACE * r + 1], kv)
        for r in range(n_rows):
            position = place[PLACE * r + 1]
            rows = batch.ancestors + 4 * place[PLACE * r + 3] * batch.n_positions
            attend_itself(w, b, r, position, own, rows, position + 1)
        linear(w, b, i + ATTENTION_OUTPUT, b.y, b.row, n_rows, b.narrow, b.narrow_row)
        after(w, b, n + SELF_ATTENTION_NORM, n_rows)
        if w.cross:
            x = before(w, b, n + CROSS_ATTENTION_NORM, n_rows)
            linear(w, b, i + CROSS_Q, x, b.row, n_rows, b.wide, b.wide_row)
            source = batch.cross + FLOAT * layer * batch.cross_rows * w.kv_row
            for r in range(n_rows):
                first = starts[place[PLACE * r]]
                length = starts[place[PLACE * r] + 1] - first
                q, out = b.wide + FLOAT * r * b.wide_row, b.y + FLOAT * r * b.row
                attend(w, b, q, source, batch.every + 4 * first, length, no_bias, out)
            linear(w, b, i + CROSS_OUTPUT, b.y, b.row, n_rows, b.narrow, b.narrow_row)
            after(w, b, n + CROSS_ATTENTION_NORM, n_rows)
        feed_forward(w, b, i, n + FEED_FORWARD_NORM, n_rows)
    finish(w, b, w.decoder_norm + NORMS * w.decoder_layers, n_rows)


@inlined
def project(w: Struct, b: Struct, n_rows: int) -> None:
    """Write the logits of the rows in b.y, and summarise them while they are in cache."""
    quantise_for(w, b, w.output, b.y, b.row, n_rows)
    n_blocks, width = b.n_blocks, b.n_blocks * BLOCK
    tops, sums = floats(b.block_max, n_rows * n_blocks), floats(b.block_sum, n_rows * n_blocks)
    begin, end = n_blocks * b.thread // b.n_threads, n_blocks * (b.thread + 1) // b.n_threads
    for first in range(begin, end, BLOCKS_AT_ONCE):
        last = min(first + BLOCKS_AT_ONCE, end)
        multiply(w, b, w.output, first, last, b.y, b.row, n_rows, b.logits, width)
        for r in range(n_rows):
            for block in range(first, last):
                at = b.logits + FLOAT * (r * width + block * BLOCK)
                top = largest(at, BLOCK)
                tops[r * n_blocks + block] = top
                sums[r * n_blocks + block] = exponentiate(at, top, BLOCK, b.block)
    if b.n_threads > 1:
        wait_for_all(b.counter, b.n_threads)
    log_sums = floats(b.log_sum, n_rows)
    for r in range(n_rows):
        top = largest(b.block_max + FLOAT * r * n_blocks, n_blocks)
        whole = f32(0.0)
        for block in range(r * n_blocks, (r + 1) * n_blocks):
            whole += sums[block] * exp(tops[block] - top)
        log_sums[r] = top + np.log(whole)


@compiled
def score_rows(w: Struct, b: Struct, n_rows: int) -> None:
    """Write the logits of the rows in b.y."""
    project(w, b, n_rows)


@inner
def take_best(b: Struct, r: int, banned: NDArray[np.int64], values: NDArray[np.float32], ids: NDArray[np.int64]) -> None:
    """Write the log-probabilities and ids of the best tokens of row r, the best first.

    Tokens that are taken or banned are hidden meanwhile.
    """
    n = b.n_blocks
    row = floats(b.logits + FLOAT * r * n * BLOCK, n * BLOCK)
    tops = floats(b.block_max + FLOAT * r * n, n)
    log_sum = floats(b.log_sum, r + 1)[r]
    hidden = floats(b.block, BLOCK)  # `decoding` allows no more banned tokens
    for i in range(len(banned)):
        hidden[i] = row[banned[i]]
        set_logit(b, r, banned[i], HIDDEN)
    found = 0
    while found < len(ids):
        block = place_of(b.block_max + FLOAT * r * n, n)
        at = block * BLOCK + place_of(b.logits + FLOAT * (r * n + block) * BLOCK, BLOCK)
        if row[at] <= HIDDEN:  # nothing is left
            break
        values[found], ids[found] = row[at], at
        if len(ids) > 1:
            set_logit(b, r, at, HIDDEN)
        found += 1
    for i in range(len(ids)):
        if i >= found:
            values[i], ids[i] = -np.inf, 0
            continue
        row[ids[i]] = values[i]
        tops[ids[i] // BLOCK] = max(tops[ids[i] // BLOCK], values[i])
        values[i] -= log_sum
    for i in range(len(banned)):
        row[banned[i]] = hidden[i]
        tops[banned[i] // BLOCK] = max(tops[banned[i] // BLOCK], hidden[i])


@inlined
def set_logit(b: Struct, r: int, token: int, value: np.float32) -> None:
    """Change a logit, and find the largest of its block again."""
    block = r * b.n_blocks + token // BLOCK
    at = b.logits + FLOAT * BLOCK * block
    floats(at, BLOCK)[token % BLOCK] = value
    floats(b.block_max, block + 1)[block] = largest(at, BLOCK)


@inlined
def place_of(values: Address, n: int) -> int:
    """Return the place of the largest of n floats, the first of equal ones.

    In two passes, since a loop that remembers a place does not vectorise.
    """
    top, listed = largest(values, n), floats(values, n)
    for i in range(n):
        if listed[i] == top:
            return i
    return 0
