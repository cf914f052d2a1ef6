"""Claims about the Transformer as experiments that you can run.

experiment defines an experiment, learning and trials run it, experiments/ holds the claims;
finding, report, drawing and page store and show the results. See docs/lab.md.
"""
