"""The local server: translation over HTTP, and a page to look inside models with.

`glassformer serve` starts it. It speaks the API of LibreTranslate for translators, that of OpenAI
for language models, and its own for classifiers and traces; docs/serve.md shows each.
"""
