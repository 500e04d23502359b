"""redrive's own errors, as they reach a guarded call from another one inside it."""

from redrive.failures.known_errors.entries import Table, permanent, transient, unknown

OWN_ERRORS: Table = {
    # By name, as all are: circuits and stores live in rooms above this one.
    "redrive.errors.CircuitOpenError": transient("the circuit was open, so nothing was sent", not_sent=True),
    "redrive.errors.StoreUnavailableError": transient("the store is away, and may be back soon"),
    "redrive.errors.CommitUnknownError": unknown("the commit may have happened"),
    "redrive.errors.StoreUnusableError": permanent("the store cannot be used as it is"),
}
