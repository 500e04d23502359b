"""Exceptions as data: stored in the log, and rebuilt for the code that catches them."""
