"""Claims about the Transformer as experiments that you can run.

experiment defines an experiment, learning and trials run it, experiments/ holds the claims;
finding, report, drawing and page store and show the results. See docs/lab.md.

`glassformer.lab(...)` is `glassformer.api.lab.lab`.
"""

from glassformer.callable_module import make_callable

make_callable(__name__, "glassformer.api.lab", "lab")
