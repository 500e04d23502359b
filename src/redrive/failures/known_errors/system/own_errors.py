"""redrive's own errors, as an outer guarded call sees them."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Lookup, Table, attribute, permanent, transient, unknown

_NO_ROOM = transient("a limit of the dependency was reached, so nothing was sent", not_sent=True)
_TOO_LARGE = permanent("the call alone is larger than a limit of the dependency")


def _limit_reached(error: BaseException, _lookup: Lookup) -> Verdict:
    return _TOO_LARGE if attribute(error, "retry_in") is None else _NO_ROOM


OWN_ERRORS: Table = {
    # By name, like all others: circuits and stores are in packages above this one.
    "redrive.errors.CircuitOpenError": transient("the circuit was open, so nothing was sent", not_sent=True),
    "redrive.errors.LimitReachedError": _limit_reached,
    "redrive.errors.StoreUnavailableError": transient("the store is unavailable and may be back soon"),
    "redrive.errors.CommitUnknownError": unknown("the commit may or may not have happened"),
    "redrive.errors.StoreUnusableError": permanent("the store cannot be used as it is"),
}
