"""The public functions: each does in one call what a verb of the command line does.

They read the data, show progress and return a result object. `glassformer.train` and the like are
these functions; `cli/` parses options, calls them and prints. Importing this package does not
import torch.
"""
