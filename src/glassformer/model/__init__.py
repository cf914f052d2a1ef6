"""The paper, one file per idea. Shapes are written with one legend throughout:

    B batch          S source length     D model width          F feed-forward width
    H heads          T target length     K head width, d_k      V vocabulary
    G key-value heads                    C classes

Read small to large: masks, dropout, attention, positions, norm, feed_forward, residual, embedding,
stack, encoder, decoder, transformer, classifier; then cache, init, build, describe, replace.
"""
