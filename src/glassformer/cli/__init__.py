"""The command line: one small file per verb, and one way to fail."""
