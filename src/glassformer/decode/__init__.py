"""Ids in, ids out: how a trained model says something."""
