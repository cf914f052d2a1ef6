"""Inference compiled from Python: the forward pass of every variant as plain loops, without torch.

Read in this order: `kernels` (one operation each), `forward` (the layers), `steps` (the loop of a
search), `shapes`, `layout` and `positions` (weights and positions in memory), `decoding` (a batch
on its way to its answers), `model`. `vector` and `tiles` hold the inner loops that need the
processor's own instructions. Only what compiles imports Numba: see `entries`.
"""
