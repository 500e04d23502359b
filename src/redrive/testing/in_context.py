"""Put a test's clock or dice in place for the current context."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from redrive.calls.scope import CURRENT, UNOWNED
from redrive.determinism.clock import Clock, use_clock
from redrive.determinism.dice import Dice, seeded_dice, use_dice
from redrive.testing.no_waits import NoWaits
from redrive.testing.scripted_dice import ScriptedDice
from redrive.testing.virtual_clock import GRACE, VirtualClock

C = TypeVar("C", bound=Clock)

# Where a test scripts no dice, its jitter is the same in every run.
DEFAULT_SEED = 20_240_229


@contextmanager
def virtual_clock(start: float = 0.0, dice: Dice | None = None, grace: float = GRACE) -> Iterator[VirtualClock]:
    """Time that passes only by waiting: a week of backoff takes a millisecond.

    Jitter draws from `dice`; without them chance is seeded, so that a test sees the same waits in every run.

    Async work that hangs is cut at its virtual time limit, once it has done nothing for `grace` real seconds, or 40
    times as long where it may wait for a socket or a thread.
    """
    with _in_place(VirtualClock(start, grace)) as clock, use_dice(dice or seeded_dice(DEFAULT_SEED)):
        yield clock


@contextmanager
def no_waits() -> Iterator[NoWaits]:
    """The real clock, but waits between attempts take no time; they are noted in `.waits`."""
    with _in_place(NoWaits()) as clock:
        yield clock


@contextmanager
def scripted_dice(*draws: float) -> Iterator[ScriptedDice]:
    """Jitter draws these numbers, from 0 (the shortest wait) to 1 (the longest), in this order."""
    with use_dice(ScriptedDice(*draws)) as dice:
        assert isinstance(dice, ScriptedDice)  # noqa: S101 - narrows for mypy
        yield dice


@contextmanager
def _in_place(clock: C) -> Iterator[C]:
    # The success path reads the system clock without asking; an unowned scope sends calls the way that asks.
    token = CURRENT.set(UNOWNED)
    try:
        with use_clock(clock):
            yield clock
    finally:
        CURRENT.reset(token)
