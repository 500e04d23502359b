"""Kinds of findings that are known and being mended; each with its reason. Nothing is at present."""

KNOWN: frozenset[str] = frozenset()
