"""From batches to a trained model: loss, schedule, optimiser, one step, the loop.

`glassformer.train(...)` is `glassformer.api.train.train`.
"""

from glassformer.callable_module import make_callable

make_callable(__name__, "glassformer.api.train", "train")
