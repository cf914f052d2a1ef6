"""Search: greedy, beam and sampling, over the `Decoder` protocol. Ids in, ids out."""
