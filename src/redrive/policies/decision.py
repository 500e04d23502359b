"""The two answers to a failure, each with its reasons."""

from typing import Literal

import msgspec

from redrive.failures.failure import Category, Kind

GiveUpKind = Literal[
    "permanent",  # the failure will not pass
    "unknown",  # nobody said that it may pass
    "unmatched",  # it may pass, but the policy does not name it
    "not_idempotent",  # it may have taken effect, and doing it twice does harm
    "exhausted",  # the attempts are used up
    "retry_after",  # the other side asked for a longer wait than the policy accepts
    "deadline",  # the next attempt could not begin in time
    "budget",  # the dependency's share of retries is used up
    "circuit_open",  # the dependency's circuit is open beyond the next attempt
    "nested",  # an enclosing guarded call owns the retries
    "not_replayable",  # the work cannot be repeated: its input was consumed
    "abandoned",  # nobody needs its outcome any more
    "poison",  # trying it does harm: its input cannot be read, or its workers die
]


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """How the dependency is doing: what circuit and budget say about one more attempt."""

    circuit: str = "none"
    """ "closed", "open", "half_open", or "none" where there is no circuit."""
    circuit_open_until: float | None = None
    """When the circuit will let a probe through, on the clock `decide()` is given."""
    budget_left: float | None = None
    """Retries the budget still allows after this one; None where there is no budget."""
    budget_spent: bool = False
    """True when the budget allows no retry now."""
    owned_elsewhere: bool = False
    """True inside another guarded attempt: that call owns the retries."""
    replayable: bool = True
    """False when the work's input was consumed by the attempt."""
    wanted: bool = True
    """False when nobody needs the outcome any more."""


CLEAR = Conditions()


class Because(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Why it was decided so: everything that went into the answer."""

    rule: str
    """What answered: "rules[0]", "retry_on", "lost", "never_on", or "none"."""
    matched: str = ""
    """What in the rule matched the failure."""
    category: Category
    reason: str
    """Why the failure is in its category."""
    failure_kind: Kind
    attempt: int
    """The attempt that failed, from 1."""
    attempts: int | None
    """Attempts allowed in all."""
    retry_number: int = 0
    """n in the backoff formula: retries this rule had granted before."""
    retries: int | None = None
    """Retries the rule may grant in all."""
    raw: float | None = None
    """The backoff before cap and jitter, in seconds."""
    cap: float | None = None
    lifted_to_floor: bool = False
    jitter: str = "none"
    low: float | None = None
    """The shortest wait chance could have drawn."""
    high: float | None = None
    """The longest wait chance could have drawn."""
    wait: float = 0.0
    """The wait that was decided."""
    retry_after: float | None = None
    """Seconds the other side asked for."""
    retry_after_note: str = ""
    deadline_left: float | None = None
    """Time left when it was decided; negative when the deadline had passed."""
    budget_left: float | None = None
    circuit: str = "none"
    detail: str = ""
    """What ended the retries, in words."""


class RetryAt(msgspec.Struct, frozen=True, tag="retry", gc=False):
    """Try again at `when`."""

    when: float
    because: Because


class GiveUp(msgspec.Struct, frozen=True, tag="give_up", gc=False):
    """Do not try again."""

    kind: GiveUpKind
    because: Because


Decision = RetryAt | GiveUp
