"""The claims that are made of the Transformer, as experiments that can be run.

experiment is the shape of one, learning and trials what they are made with, experiments/ the
claims; finding, report, drawing and page are what becomes of the numbers. docs/lab.md walks
through them.
"""
