"""Verdicts on the errors of Python and of common libraries, by class name, so that no library is ever imported."""
