"""How large a script may be, and what its builtins take."""

LONGEST_SCRIPT = 250_000
"""Characters."""
MOST_LINES = 5_000
LONGEST_STORED = 1_000_000
"""Characters of a text that a flow was started with: an earlier version took longer ones."""
MOST_NESTING = 50
"""Blocks and brackets inside one another."""
LONGEST_RANGE = 10_000_000
"""Numbers of a range."""
MOST_DIGITS = 1000
"""Digits that a number is rounded to."""
