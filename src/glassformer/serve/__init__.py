"""The local server: translation over HTTP, and a page to look inside models with.

`glassformer serve` and `glassformer.serve(...)` start it. It has the API of LibreTranslate for
translators, that of OpenAI for language models, and its own for classifiers and traces;
docs/serve.md shows each.
"""

from glassformer.callable_module import make_callable

make_callable(__name__, "glassformer.serve.run", "serve")
