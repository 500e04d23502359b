"""redrive's own errors, as they reach a guarded call from another one inside it."""

from redrive.failures.known_errors.entries import Table, permanent, transient, unknown

OWN_ERRORS: Table = {
    # By name, as all are: circuits and stores live in rooms above this one.
    "redrive.resilience.circuit.CircuitOpen": transient("the circuit was open, so nothing was sent", not_sent=True),
    "redrive.stores.errors.StoreUnavailable": transient("the store is away, and may be back soon"),
    "redrive.stores.errors.CommitUnknown": unknown("the commit may have happened"),
    "redrive.stores.errors.StoreUnusable": permanent("the store cannot be used as it is"),
}
