"""Faults that are made on purpose, to count what survives them."""
