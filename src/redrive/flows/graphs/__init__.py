"""Graphs of steps: planning, progress, compensation, and the driver that runs them."""
