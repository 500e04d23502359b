"""Durable definitions, without I/O: events, history, the deterministic loop and the workflow that runs on it."""
