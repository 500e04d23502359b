"""EOFError from network libraries: how they report that the peer has hung up."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Lookup, Table, transient

# Python raises the same class where input is incomplete (stdin, pickle, gzip), which a retry does not change. Only the
# module that raised it tells them apart.
_NETWORK_LIBRARIES = frozenset({"paramiko", "dns", "ftplib", "multiprocessing"})


def _end_of_stream(error: BaseException, _lookup: Lookup) -> Verdict | None:
    if _raised_in(error).partition(".")[0] in _NETWORK_LIBRARIES:
        return transient("the peer closed the connection; a retry may get through")
    return None


def _raised_in(error: BaseException) -> str:
    """Return the name of the module that raised the error; empty when it was never raised."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return "" if place is None else str(place.tb_frame.f_globals.get("__name__", ""))


END_OF_STREAM_ERRORS: Table = {"builtins.EOFError": _end_of_stream}
