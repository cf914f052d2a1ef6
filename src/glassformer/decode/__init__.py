"""Search over token ids: greedy, beam, sampling. Models are reached through the `Decoder` protocol."""
