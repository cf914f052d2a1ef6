"""Scores of models: BLEU, chrF, perplexity, accuracy, calibration, failures, behaviour.

`glassformer.evaluate(...)` is `glassformer.api.evaluate.evaluate`.
"""

from glassformer.callable_module import make_callable

make_callable(__name__, "glassformer.api.evaluate", "evaluate")
