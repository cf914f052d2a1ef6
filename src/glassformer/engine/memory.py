"""Structs that compiled code reads: the model, the workspace of a thread, and a batch.

Addresses are those of arrays that `model.py` and
`decoding.py` keep; a stride is the distance from row to row in floats.
"""

import numpy as np

from glassformer.compiled.structs import struct_type

MODEL = struct_type(
    # Sizes and variants: see config.ModelSettings.
    "d_model", "n_heads", "n_kv_heads", "d_k", "d_ff", "encoder_layers", "decoder_layers",
    "pre_norm", "rms", "activation", "cross",
    # Numbers of matrices: the tables of tokens, the output, the first of each stack.
    "source_table", "target_table", "output", "encoder", "decoder",
    "encoder_norm", "decoder_norm",  # the first norm of each stack
    "source_norm", "target_norm",  # the norm after each embedding; -1: none
    "zero_start",  # the first token of a target has a vector of zeros
    # Weights: see layout.PackedWeights.
    "packed", "scale", "offset", "bias", "matrices", "norms",
    embedding_scale=np.float32,
    eps=np.float32,  # of the norms
)  # fmt: skip

MEMORY = struct_type(
    "thread", "n_threads",  # which of how many threads that work on the same rows this one is
    "counter",  # int64, shared: arrivals of threads at the end of a product
    # Rows on their way through a layer.
    "x", "y", "row",  # the residual stream; normalised, or the output of attention; their stride
    "hidden", "hidden_row",  # inside the feed-forward network
    "quantised", "quantised_row", "x_scale",  # rows in eight bits (stride in bytes), their scales
    "scores", "scores_row", "found",  # of attention, heads × keys; of 16 keys
    "keys", "values", "rotated",  # of the encoder's self-attention; a key on its way
    "wide", "wide_row", "narrow", "narrow_row",  # shared: outputs of products
    # Positions, tables of n_positions; 0 where the scheme has none.
    "n_positions", "position_rows", "cos", "sin", "position_bias",
    # Of each row the largest of each block of 64 logits; of each chunk of blocks the largest and
    # Σ e^(logit - largest); log Σ e^logit.
    "n_blocks", "block_max", "chunk_max", "chunk_sum", "log_sum",
    "logits", "block", "tops",  # logits of a chunk, of a block; the largest of a row's blocks
)  # fmt: skip

BATCH = struct_type(
    "n_sentences", "n_positions", "n_hypotheses",
    # Keys and values of the target, in pages of 16 positions: (pages, layers, 2, 16, heads · d_k),
    # keys as (heads, d_k, 16). A slot is the row of this memory where a page has its first layer's
    # keys, plus position % 16.
    "pages",
    # int32 (sentences, hypotheses): the slot of each hypothesis' page for its next tokens.
    "current",
    # int32 (sentences, hypotheses, positions): the slot of each token of a hypothesis.
    "slots", "spare",
    # Keys of the sources, (layers, cross_blocks, heads, d_k, 16), and values, (layers, cross_rows,
    # heads · d_k); where each sentence begins in rows and in blocks of 16.
    "cross_keys", "cross_values", "cross_blocks", "cross_rows", "starts", "block_starts",
    # One row for each token of a step: the token, and where it stands (see forward.decode).
    "tokens", "places",
)  # fmt: skip


def rounded_up(n: int, to: int) -> int:
    """Return the least multiple of `to` that is not less than n."""
    return -(-n // to) * to
