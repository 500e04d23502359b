"""The two possible decisions about a failed attempt, retry or give up, and the reasons recorded with them."""

from typing import Literal

import msgspec

from redrive.failures.failure import Category, Kind

GiveUpKind = Literal[
    "permanent",  # the failure is permanent
    "unknown",  # the failure is not classified
    "unmatched",  # the failure is transient, but the policy does not retry it
    "not_idempotent",  # it may have taken effect, and repeating it does harm
    "exhausted",  # no attempts are left
    "retry_after",  # the server asked for a longer wait than the policy accepts
    "deadline",  # the next attempt could not start in time
    "budget",  # the dependency's retry budget is spent
    "circuit_open",  # the dependency's circuit would still be open at the next attempt
    "nested",  # an enclosing guarded call owns the retries
    "not_replayable",  # the input was consumed and cannot be sent again
    "output_handed_on",  # a stream broke after its first output, which a retry would repeat
    "rate_limit",  # the dependency's limit of requests, tokens or cost leaves no room in time
    "abandoned",  # the outcome is no longer needed
    "poison",  # the input cannot be read, or each attempt kills its worker
]


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What circuit, retry budget and caller say about one more attempt."""

    circuit: str = "none"
    """ "closed", "open", "half_open", or "none" where there is no circuit."""
    circuit_open_until: float | None = None
    """When the circuit will admit a probe, on the clock of `decide()`'s `now`."""
    budget_left: float | None = None
    """Retries the budget still allows after this one; None: there is no budget."""
    budget_spent: bool = False
    """True when the budget does not allow a retry now."""
    owned_elsewhere: bool = False
    """True inside another guarded call, which owns the retries."""
    replayable: bool = True
    """False when the work's input was consumed by the attempt."""
    handed_on: int = 0
    """Items of a stream that the consumer already has; after the first, a retry would repeat output."""
    wanted: bool = True
    """False when the outcome is no longer needed."""


CLEAR = Conditions()
"""Nothing prevents a retry."""


class Because(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Why `decide()` decided so: everything that went into the decision."""

    rule: str
    """The part of the policy that applied: "rules[0]", "retry_on", "lost", "never_on", or "none"."""
    matched: str = ""
    """The alternative of that part which matched the failure."""
    category: Category
    reason: str
    """Why the failure is in its category."""
    failure_kind: Kind
    attempt: int
    """Number of the attempt that failed, counted from 1."""
    attempts: int | None
    """Total attempts the policy allows; None: no limit."""
    retry_number: int = 0
    """n in the backoff formula: the retries this rule granted before."""
    retries: int | None = None
    """Total retries the rule may grant; None: no limit of its own."""
    raw: float | None = None
    """The backoff in seconds, before cap and jitter."""
    cap: float | None = None
    lifted_to_floor: bool = False
    jitter: str = "none"
    low: float | None = None
    """The shortest wait that jitter could have drawn."""
    high: float | None = None
    """The longest wait that jitter could have drawn."""
    wait: float = 0.0
    """The wait before the next attempt, in seconds."""
    retry_after: float | None = None
    """Seconds the server asked to wait."""
    retry_after_note: str = ""
    deadline_left: float | None = None
    """Seconds left until the deadline; negative when it had passed."""
    budget_left: float | None = None
    circuit: str = "none"
    detail: str = ""
    """Why the retries ended, as a sentence."""


class RetryAt(msgspec.Struct, frozen=True, tag="retry", gc=False):
    """Try again at `when`."""

    when: float
    because: Because


class GiveUp(msgspec.Struct, frozen=True, tag="give_up", gc=False):
    """Do not try again."""

    kind: GiveUpKind
    because: Because


Decision = RetryAt | GiveUp
