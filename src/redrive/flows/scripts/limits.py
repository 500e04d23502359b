"""How large a script may be."""

LONGEST_SCRIPT = 1_000_000
"""Characters."""
MOST_NESTING = 50
"""Blocks and brackets inside one another."""
