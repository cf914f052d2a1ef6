"""How good what a model says is."""
