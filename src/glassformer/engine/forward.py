"""The layers: encoder, decoder and output over rows of tokens.

    x ─ embed ─ [ self-attention ─ (cross-attention) ─ feed-forward ] × N ─ norm ─ output

`encode` reads whole sources, `decode` the next tokens of hypotheses or of prefixes. Each is the
block of `model/encoder.py` and `model/decoder.py` written as loops over rows; sentences have their
own lengths, so there is no padding and no mask.
"""

import numpy as np
from numpy.typing import NDArray

from glassformer.compiled.build import floats, inlined, inner, int64s
from glassformer.engine.kernels import (
    Address,
    Struct,
    activate,
    add_row,
    attend,
    attend_rows,
    copy,
    embed,
    linear,
    multiply,
    normalise,
    operand,
    rotate,
    sum_rows,
    write_keys,
    write_source_keys,
)
from glassformer.engine.sizes import (
    ATTENTION_OUTPUT,
    BLOCK,
    CHUNK,
    COLUMNS,
    CONTRACT,
    CROSS_ATTENTION_NORM,
    CROSS_KV,
    CROSS_OUTPUT,
    CROSS_Q,
    EXPAND,
    FEED_FORWARD_NORM,
    FLOAT,
    HIDDEN,
    KEYS,
    MATRICES,
    NORMS,
    PLACE,
    QKV,
    ROWS,
    SELF_ATTENTION_NORM,
    f32,
)
from glassformer.engine.vector import exp, exponentiate, largest, wait_for_all

ENDLESS = 1 << 40  # length of an array whose length is known elsewhere


@inlined
def embed_token(w: Struct, b: Struct, table: int, token: int, position: int, x: Address) -> None:
    """Embedding(token) · scale + PE(position): the bottom of Figure 1."""
    embed(w, table, token, x)
    if b.position_rows:
        add_row(x, b.position_rows + FLOAT * position * w.d_model, w.d_model)


@inlined
def start_from_zeros(w: Struct, b: Struct, x: Address) -> None:
    """Replace the embedding of the first target token: 0 + PE(0)."""
    row = floats(x, w.d_model)
    for k in range(w.d_model):
        row[k] = f32(0.0)
    if b.position_rows:
        add_row(x, b.position_rows, w.d_model)


@inlined
def normalise_embeddings(w: Struct, b: Struct, n: int, n_rows: int) -> None:
    """Apply the norm after the embedding, if there is one."""
    if n >= 0:
        normalise(w, n, b.x, b.row, n_rows, b.y)
        copy(b.y, b.x, n_rows * b.row)


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
        x, y = b.x + FLOAT * r * b.row, b.narrow + FLOAT * r * b.narrow_row
        if w.pre_norm:
            add_row(x, y, w.d_model)
        else:
            sum_rows(x, y, b.y + FLOAT * r * b.row, w.d_model)
    if not w.pre_norm:
        normalise(w, n, b.y, b.row, n_rows, b.x)


@inlined
def split_heads(w: Struct, b: Struct, r: int, position: int, keys: Address, value: Address) -> None:
    """Copy the queries of row r to b.y, its keys and its value to where they are kept."""
    qkv, q = b.wide + FLOAT * r * b.wide_row, b.y + FLOAT * r * b.row
    k = qkv + FLOAT * w.d_model
    if b.cos:
        angle = FLOAT * position * (w.d_k // 2)
        rotate(qkv, w.d_model, b.cos + angle, b.sin + angle, w.d_k, q)
    else:
        copy(qkv, q, w.d_model)
    write_keys(w, b, k, position, keys)
    copy(k + FLOAT * w.n_kv_heads * w.d_k, value, w.n_kv_heads * w.d_k)


@inlined
def bias_at(b: Struct, position: int) -> Address:
    """Return the address of the bias of key 0 for a query at `position`, or 0."""
    bias = b.position_bias
    if bias:
        bias += FLOAT * (b.n_positions - 1 - position)
    return bias


@inner
def feed_forward(w: Struct, b: Struct, i: int, n: int, n_rows: int) -> None:
    """x + FFN(x), with its norm: Equation 2."""
    x = before(w, b, n, n_rows)
    linear(w, b, i + EXPAND, x, b.row, n_rows, b.wide, b.wide_row)
    activate(w.activation, b.wide, b.wide_row, n_rows, b.hidden, b.hidden_row, w.d_ff)
    linear(w, b, i + CONTRACT, b.hidden, b.hidden_row, n_rows, b.narrow, b.narrow_row)
    after(w, b, n, n_rows)


@inlined
def finish(w: Struct, b: Struct, n: int, n_rows: int) -> None:
    """Write the output of a stack to b.y; a pre-norm stack has a final norm."""
    if w.pre_norm:
        normalise(w, n, b.x, b.row, n_rows, b.y)
    else:
        copy(b.x, b.y, n_rows * b.row)


@inlined
def encode(
    w: Struct,
    b: Struct,
    batch: Struct,
    first_sentence: int,
    ids: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> None:
    """Read sentences, ids[starts[i]:starts[i + 1]] each; their output is left in b.y.

    For a translator, keys and values of cross-attention are written to those of `batch`, where
    these sentences are the ones from `first_sentence` on.
    """
    n_rows, n_sentences = starts[-1], len(starts) - 1
    width, none = w.n_kv_heads * w.d_k, b.thread - b.thread  # 0, as a variable: see `decode`
    for s in range(n_sentences):
        for r in range(starts[s], starts[s + 1]):
            x = b.x + FLOAT * r * b.row
            embed_token(w, b, w.source_table, ids[r], r - starts[s], x)
    normalise_embeddings(w, b, w.source_norm, n_rows)
    for layer in range(w.encoder_layers):
        i, n = w.encoder + MATRICES * layer, w.encoder_norm + NORMS * layer
        x = before(w, b, n + SELF_ATTENTION_NORM, n_rows)
        linear(w, b, i + QKV, x, b.row, n_rows, b.wide, b.wide_row)
        for s in range(n_sentences):
            first, length = starts[s], starts[s + 1] - starts[s]
            for p in range(length):
                split_heads(w, b, first + p, p, b.keys, b.values + FLOAT * p * width)
            together = length // ROWS * ROWS
            for p in range(0, together, ROWS):
                y, bias = b.y + FLOAT * (first + p) * b.row, bias_at(b, p)
                attend_rows(w, b, y, b.keys, b.values, length, bias)
            for p in range(together, length):
                y, bias = b.y + FLOAT * (first + p) * b.row, bias_at(b, p)
                attend(w, b, y, b.keys, b.values, FLOAT * width, none, length, bias, y)
        linear(w, b, i + ATTENTION_OUTPUT, b.y, b.row, n_rows, b.narrow, b.narrow_row)
        after(w, b, n + SELF_ATTENTION_NORM, n_rows)
        feed_forward(w, b, i, n + FEED_FORWARD_NORM, n_rows)
    finish(w, b, w.encoder_norm + NORMS * w.encoder_layers, n_rows)
    if batch.cross_keys == 0:  # not a translator, or only the output is wanted
        return
    for layer in range(w.decoder_layers):
        i = w.decoder + MATRICES * layer + CROSS_KV
        linear(w, b, i, b.y, b.row, n_rows, b.wide, b.wide_row)
        for s in range(n_sentences):
            keys, values = source_at(w, batch, layer, first_sentence + s)
            for p in range(starts[s + 1] - starts[s]):
                k = b.wide + FLOAT * (starts[s] + p) * b.wide_row
                write_source_keys(w, k, p, keys)
                copy(k + FLOAT * width, values + FLOAT * p * width, width)
        if b.n_threads > 1:  # b.wide is written again
            wait_for_all(b.counter, b.n_threads)


@inlined
def source_at(w: Struct, batch: Struct, layer: int, s: int) -> tuple[Address, Address]:
    """Return where a layer's keys and values of source s begin."""
    width = w.n_kv_heads * w.d_k
    starts, blocks = int64s(batch.starts, ENDLESS), int64s(batch.block_starts, ENDLESS)
    block = layer * batch.cross_blocks + blocks[s]
    keys = batch.cross_keys + FLOAT * block * width * KEYS
    return keys, batch.cross_values + FLOAT * (layer * batch.cross_rows + starts[s]) * width


@inner
def decode(w: Struct, b: Struct, batch: Struct, n_rows: int) -> None:
    """Run the decoder on one token per row; its output is left in b.y.

    The place of a row: its sentence, the position of its token, its slot (where its keys and value
    are kept), and its row of `batch.slots`: the slots of all tokens up to it.
    """
    ids, place = int64s(batch.tokens, n_rows), int64s(batch.places, PLACE * n_rows)
    starts, n_positions = int64s(batch.starts, ENDLESS), batch.n_positions
    width = w.n_kv_heads * w.d_k
    none = b.thread - b.thread  # 0: Numba would compile `attend` once more for a constant
    for r in range(n_rows):
        x = b.x + FLOAT * r * b.row
        embed_token(w, b, w.target_table, ids[r], place[PLACE * r + 1], x)
        if w.zero_start and place[PLACE * r + 1] == 0:
            start_from_zeros(w, b, x)
    normalise_embeddings(w, b, w.target_norm, n_rows)
    for layer in range(w.decoder_layers):
        i, n = w.decoder + MATRICES * layer, w.decoder_norm + NORMS * layer
        x = before(w, b, n + SELF_ATTENTION_NORM, n_rows)
        linear(w, b, i + QKV, x, b.row, n_rows, b.wide, b.wide_row)
        keys = batch.pages + FLOAT * layer * 2 * KEYS * width
        values = keys + FLOAT * KEYS * width
        for r in range(n_rows):
            p, slot = place[PLACE * r + 1], place[PLACE * r + 2]
            # The keys of position p go to block p // 16 behind the address that is given.
            block = keys + FLOAT * (slot - p) * width
            split_heads(w, b, r, p, block, values + FLOAT * slot * width)
        for r in range(n_rows):
            p, slots = place[PLACE * r + 1], batch.slots + 4 * place[PLACE * r + 3] * n_positions
            y, bias = b.y + FLOAT * r * b.row, bias_at(b, p)
            attend(w, b, y, keys, values, none, slots, p + 1, bias, y)
        linear(w, b, i + ATTENTION_OUTPUT, b.y, b.row, n_rows, b.narrow, b.narrow_row)
        after(w, b, n + SELF_ATTENTION_NORM, n_rows)
        if w.cross:
            x = before(w, b, n + CROSS_ATTENTION_NORM, n_rows)
            linear(w, b, i + CROSS_Q, x, b.row, n_rows, b.wide, b.wide_row)
            for r in range(n_rows):
                s = place[PLACE * r]
                source_keys, source_values = source_at(w, batch, layer, s)
                n_keys = starts[s + 1] - starts[s]
                q, out = b.wide + FLOAT * r * b.wide_row, b.y + FLOAT * r * b.row
                attend(w, b, q, source_keys, source_values, FLOAT * width, none, n_keys, none, out)
            linear(w, b, i + CROSS_OUTPUT, b.y, b.row, n_rows, b.narrow, b.narrow_row)
            after(w, b, n + CROSS_ATTENTION_NORM, n_rows)
        feed_forward(w, b, i, n + FEED_FORWARD_NORM, n_rows)
    finish(w, b, w.decoder_norm + NORMS * w.decoder_layers, n_rows)


@inner
def project(w: Struct, b: Struct, n_rows: int) -> None:
    """Summarise the logits of the rows in b.y: the largest of each block of 64, and log Σ e^logit.

    Logits themselves are not kept: they would leave the cache. `take_best` computes the few that
    it needs once more, to the same bits. A chunk of blocks is the work of one thread, so that the
    order of every sum is the same for any number of threads.
    """
    x, x_row = operand(w, b, w.output, b.y, b.row, n_rows)
    n_blocks, n_chunks = b.n_blocks, (b.n_blocks + CHUNK - 1) // CHUNK
    block_max = floats(b.block_max, n_rows * n_blocks)
    chunk_max, chunk_sum = (
        floats(b.chunk_max, n_rows * n_chunks),
        floats(b.chunk_sum, n_rows * n_chunks),
    )
    begin, end = n_chunks * b.thread // b.n_threads, n_chunks * (b.thread + 1) // b.n_threads
    for chunk in range(begin, end):
        first, last = chunk * CHUNK, min(chunk * CHUNK + CHUNK, n_blocks)
        out = b.logits - FLOAT * first * BLOCK
        multiply(w, w.output, first, last, x, x_row, b.x_scale, n_rows, out, CHUNK * BLOCK)
        for r in range(n_rows):
            at, top = b.logits + FLOAT * r * CHUNK * BLOCK, HIDDEN
            for block in range(first, last):
                of_block = largest(at + FLOAT * (block - first) * BLOCK, BLOCK)
                block_max[r * n_blocks + block] = of_block
                top = max(top, of_block)
            chunk_max[r * n_chunks + chunk] = top
            chunk_sum[r * n_chunks + chunk] = exponentiate(at, top, (last - first) * BLOCK, at)
    if b.n_threads > 1:
        wait_for_all(b.counter, b.n_threads)
    log_sums = floats(b.log_sum, n_rows)
    for r in range(n_rows):
        top = largest(b.chunk_max + FLOAT * r * n_chunks, n_chunks)
        whole = f32(0.0)
        for i in range(r * n_chunks, (r + 1) * n_chunks):
            whole += chunk_sum[i] * exp(chunk_max[i] - top)
        log_sums[r] = top + np.log(whole)


@inlined
def write_logits(w: Struct, b: Struct, n_rows: int, out: Address, out_stride: int) -> None:
    """Write all logits of the rows in b.y."""
    x, x_row = operand(w, b, w.output, b.y, b.row, n_rows)
    multiply(w, w.output, 0 * n_rows, b.n_blocks, x, x_row, b.x_scale, n_rows, out, out_stride)


@inner
def take_best(
    w: Struct,
    b: Struct,
    r: int,
    banned: NDArray[np.int64],
    values: NDArray[np.float32],
    ids: NDArray[np.int64],
    before: float,
    totals: NDArray[np.float64],
) -> None:
    """Write the log-probabilities and ids of the best tokens of row r, the best first.

    The best is in the block with the largest logit; tokens that are banned or taken are hidden.
    `totals` are the best of the whole sentence so far, in order: a token that, with the
    log-probability `before` it, is not among them ends the list. None: the list is complete.
    """
    n = b.n_blocks
    copy(b.block_max + FLOAT * r * n, b.tops, n)
    tops, logits, log_sum = floats(b.tops, n), floats(b.block, BLOCK), floats(b.log_sum, r + 1)[r]
    int8 = int64s(w.matrices + 8 * COLUMNS * w.output, COLUMNS)[4]
    x, x_row = b.y + FLOAT * r * b.row, FLOAT * b.row
    if int8:
        x, x_row = b.quantised + r * b.quantised_row, b.quantised_row
    found, computed, one = 0, -1, n // n
    while found < len(ids):
        block = place_of(b.tops, n)
        if tops[block] <= HIDDEN:  # nothing is left
            break
        if block != computed:
            out = b.block - FLOAT * block * BLOCK
            multiply(w, w.output, block, block + 1, x, x_row, b.x_scale + FLOAT * r, one, out, one)
            computed = block
            for token in banned:
                if token // BLOCK == block:
                    logits[token % BLOCK] = HIDDEN
            for i in range(found):
                if ids[i] // BLOCK == block:
                    logits[ids[i] % BLOCK] = HIDDEN
        at = place_of(b.block, BLOCK * one)
        if logits[at] == tops[block]:
            values[found], ids[found] = logits[at] - log_sum, block * BLOCK + at
            if len(totals) and not insert(totals, before + values[found]):
                break
            logits[at] = HIDDEN
            found += 1
        tops[block] = largest(b.block, BLOCK)
    for i in range(found, len(ids)):
        values[i], ids[i] = -np.inf, 0


@inlined
def insert(totals: NDArray[np.float64], value: float) -> bool:
    """Put a value among the best so far; return whether it is one of them."""
    place = len(totals)
    while place > 0 and value > totals[place - 1]:
        place -= 1
        if place + 1 < len(totals):
            totals[place + 1] = totals[place]
    if place == len(totals):
        return False
    totals[place] = value
    return True


@inlined
def place_of(values: Address, n: int) -> int:
    """Return the place of the largest of n floats, the first of equal ones.

    In two passes, since a loop that remembers a place does not vectorise.
    """
    top, listed = largest(values, n), floats(values, n)
    place = 0
    while place < n - 1 and listed[place] != top:
        place += 1
    return place
