"""Attention traces, head statistics, word alignment, saliency, and pictures of them.

`glassformer.inspect(...)` is `glassformer.api.inspect.inspect`.
"""

from glassformer.callable_module import make_callable

make_callable(__name__, "glassformer.api.inspect", "inspect")
