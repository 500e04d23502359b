"""How large a script may be, and what its builtins take."""

LONGEST_SCRIPT = 1_000_000
"""Characters."""
MOST_NESTING = 50
"""Blocks and brackets inside one another."""
LONGEST_RANGE = 10_000_000
"""Numbers of a range."""
MOST_DIGITS = 1000
"""Digits that a number is rounded to."""
