"""Storms against real workers, stores and networks, and the checker that compares effects with logs.

`make chaos` runs all of them, `python -m tests.chaos --help` one at a time; tests/chaos/test_*.py are short versions.
"""
