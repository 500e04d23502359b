"""Workflows: Python classes whose code runs on a deterministic event loop and is replayed from the log."""
