"""Flows in memory, for tests and for work that need not survive the process."""
