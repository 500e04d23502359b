"""How large a script may be. What a running script may do is bounded by `redrive.expressions.limits`."""

LONGEST_SCRIPT = 250_000
"""Characters."""
MOST_LINES = 5_000
MOST_CALLS = 100
"""Calls of functions inside one another."""
