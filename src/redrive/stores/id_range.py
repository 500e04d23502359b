"""The ids that begin with a prefix, as a range: an index serves a range whatever the database's settings."""

_HIGHEST = "\U0010ffff"


def id_range(prefix: str) -> tuple[str, str]:
    """Return the lowest id with the prefix, and a bound above all of them; ids sort by code points."""
    return prefix, prefix + _HIGHEST
