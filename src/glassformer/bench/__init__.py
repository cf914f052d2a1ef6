"""Speed and memory beside other libraries, measured in turns and reported as ratios."""
