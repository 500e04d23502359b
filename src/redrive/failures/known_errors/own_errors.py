"""redrive's own errors, as an outer guarded call sees them."""

from redrive.failures.known_errors.entries import Table, permanent, transient, unknown

OWN_ERRORS: Table = {
    # By name, like all others: circuits and stores are in packages above this one.
    "redrive.errors.CircuitOpenError": transient("the circuit was open, so nothing was sent", not_sent=True),
    "redrive.errors.StoreUnavailableError": transient("the store is unavailable and may be back soon"),
    "redrive.errors.CommitUnknownError": unknown("the commit may or may not have happened"),
    "redrive.errors.StoreUnusableError": permanent("the store cannot be used as it is"),
}
