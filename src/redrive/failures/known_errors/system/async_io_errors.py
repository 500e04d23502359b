"""Errors of trio and anyio."""

from redrive.failures.known_errors.entries import Table, transient
from redrive.failures.known_errors.system.stdlib_errors import BODY_CUT_OFF, TIMEOUT

_LOST = transient("the connection was lost midway; a retry may get through")

ASYNC_IO_ERRORS: Table = {
    "trio.TooSlowError": TIMEOUT,
    "trio.BrokenResourceError": _LOST,
    "anyio.BrokenResourceError": _LOST,
    "anyio.IncompleteRead": BODY_CUT_OFF,
    "anyio.ConnectionFailed": transient("no connection could be made; a retry may get through", not_sent=True),
}
