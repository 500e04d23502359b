"""Errors of Python itself, the operating system, the standard library and redrive."""
