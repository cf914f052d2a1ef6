"""Speed and memory, side by side with peers: ratios from one run, contenders interleaved."""
