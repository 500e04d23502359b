"""The records of activity: what the workers' attempts and flows came to, minute by minute."""

from typing import Literal

import msgspec

LONGEST_ACTIVITY = 48 * 3600.0
"""How many seconds activity is kept: each report removes what is older."""
MINUTE = 60.0
OTHER = "(other)"
"""Stands for the names of what is counted together because there are too many names."""

ActivityOutcome = Literal[
    "succeeded",  # of attempts
    "retried",  # failed, and made again
    "gave_up",  # failed for good
    "deferred",  # not begun: the dependency is held back by its circuit, budget or limit
    "flow_started",
    "flow_completed",
    "flow_failed",
    "flow_cancelled",
]
ATTEMPT_OUTCOMES: tuple[ActivityOutcome, ...] = ("succeeded", "retried", "gave_up", "deferred")
ActivityName = Literal["definition", "step", "dependency"]


class ActivityRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How often something happened within a minute. Reports add to what the store has."""

    at: float
    """When the minute began."""
    definition: str = ""
    step: str = ""
    """Empty for flows."""
    dependency: str = ""
    """What the step talks to; empty for none."""
    outcome: ActivityOutcome
    count: int
    seconds: float = 0.0
    """How long the attempts, or the flows, took together."""


class ActivityQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which activity to sum up, minute by minute and outcome by outcome."""

    since: float
    """Leave out minutes that began earlier."""
    by: tuple[ActivityName, ...] = ()
    """The names to keep apart; the others are empty in the answer."""
    definition: str | None = None
    dependency: str | None = None
