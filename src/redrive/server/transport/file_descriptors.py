"""How many connections the process may open."""

KEPT = 200
"""Descriptors for the store, the worker's own requests, log files and what is loaded later."""
FEWEST = 100


def spare_descriptors() -> int:
    """Return how many file descriptors the system leaves for connections."""
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return 2**16
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 2**16
    return max(FEWEST, soft - KEPT)
