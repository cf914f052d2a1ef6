"""Sizes and numbers that packed weights, workspaces and compiled code agree on."""

import numpy as np

from glassformer.compiled import kernel_name

f32 = np.float32
FLOAT = 4  # bytes
BLOCK = 64  # outputs of a block of packed weights
LINE = 256  # bytes of a block for one k (fp32) or four (INT8)
KERNEL = kernel_name()
LANES = {"avx512-vnni": 16, "avx-vnni": 8, "avx2": 8, "generic": 4}[KERNEL]  # floats of a vector
KEYS = 16  # keys of attention that lie side by side
VECTORS = 4  # running sums of a row in one tile
WIDTH = LANES * VECTORS  # outputs of a tile
# Rows of the largest tile: its sums, the weights and one input must fit the vector registers,
# 32 with AVX-512 and 16 without. Spilling them costs two thirds of the speed.
ROWS = 6 if LANES == 16 else 2
# Largest magnitude of an activation in INT8. Without VNNI, pairs of products are added in 16 bits,
# which overflow beyond 2 · 127 · 127: one bit less.
LEVELS = 63 if KERNEL == "avx2" else 127

RELU, GELU, GELU_TANH, SILU, SWIGLU, GEGLU_TANH = range(6)
HIDDEN = f32(-1e30)  # a score or logit that does not count
COLUMNS = 5  # of the table of matrices: see layout.PackedWeights
# Matrices of a layer: the first four of every layer, the others of a translator's decoder.
QKV, ATTENTION_OUTPUT, EXPAND, CONTRACT, CROSS_Q, CROSS_KV, CROSS_OUTPUT = range(7)
MATRICES = 7
SELF_ATTENTION_NORM, FEED_FORWARD_NORM, CROSS_ATTENTION_NORM = range(3)
NORMS = 3
PLACE = 4  # numbers that tell where a row stands: see forward.decode
CHUNK = 8  # blocks of logits that are summarised at a time, while they are in the cache
