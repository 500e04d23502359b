"""Pools of flows: those of one definition, and apart from them those that are pinned to one version of it.

A claim asks for the pools that a worker serves, so that flows pinned to other versions cost it nothing.
"""

from collections.abc import Iterable


def pools_of(definitions: Iterable[str], version: str) -> list[str]:
    """The pools of a worker; `version` is empty for one that names none. Migration 0012 has the form of their names."""
    plain = list(definitions)
    return [*plain, *(f"{one} @{version}" for one in plain)] if version else plain
