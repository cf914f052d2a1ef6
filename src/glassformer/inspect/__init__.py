"""Attention traces, head statistics, word alignment, saliency and figures."""
