"""Weights in and out of other libraries' models."""
