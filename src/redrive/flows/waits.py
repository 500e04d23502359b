"""What a work item of the retry queue waits for."""

from typing import Literal

WaitsFor = Literal[
    "",  # nothing: its attempt runs
    "backoff",  # the wait that the policy sets before the next attempt
    "retry_after",  # the time that the server asked to wait
    "circuit",  # the dependency's open circuit
    "recovery",  # its turn while the dependency recovers from an outage
    "budget",  # the dependency's retry budget
    "limit",  # the dependency's limit of requests
    "snooze",  # the time that the attempt itself asked for, or its worker was stopped
    "redrive",  # a worker, after a redrive
]

HELD_BACK: tuple[WaitsFor, ...] = ("circuit", "recovery", "budget", "limit")
"""The waits for a dependency, which spend no attempt."""
