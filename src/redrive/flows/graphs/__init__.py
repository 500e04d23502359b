"""Graphs of steps: how they are written, planned and carried forward."""
