"""Close a flow's coroutine where it is suspended."""

from typing import Any

# A discarded coroutine whose cleanup awaits more often than this is left suspended.
MOST_AWAITED = 1000


class _Discarded(BaseException):
    """Closes code that is no longer needed; unlike GeneratorExit, it may be followed by further awaits."""


def close(coroutine: Any) -> None:
    """Close a coroutine, whose `finally` blocks may await. Otherwise the garbage collector would, at any time."""
    for _ in range(MOST_AWAITED):
        try:
            coroutine.throw(_Discarded())
        except BaseException:  # noqa: BLE001 - the coroutine has ended
            return
