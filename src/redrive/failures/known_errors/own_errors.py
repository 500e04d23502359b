"""redrive's own errors, as they reach a guarded call from another one inside it."""

from redrive.failures.known_errors.entries import Table, transient

OWN_ERRORS: Table = {
    # By name, as all are: the circuit lives in a room above this one.
    "redrive.resilience.circuit.CircuitOpen": transient("the circuit was open, so nothing was sent", not_sent=True),
}
