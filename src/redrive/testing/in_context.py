"""Replace the clock or the dice for the current context."""

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

# Without scripted dice, jitter is the same in every run.
DEFAULT_SEED = 20_240_229


@contextmanager
def virtual_clock(start: float = 0.0, dice: Dice | None = None, grace: float = GRACE) -> Iterator[VirtualClock]:
    """Use a virtual clock, on which time passes only by waiting: a week of backoff takes a millisecond.

    Jitter draws from `dice`; by default they are seeded, so that a test sees the same waits in every run.

    Async work that hangs is cut at its virtual time limit once it has done nothing for `grace` real seconds, or for 40
    times as long if it may be waiting for a socket or a thread.
    """
    with _in_place(VirtualClock(start, grace)) as clock, use_dice(dice or seeded_dice(DEFAULT_SEED)):
        yield clock


@contextmanager
def no_waits() -> Iterator[NoWaits]:
    """Use the real clock, but skip the waits between attempts and record them in `.waits`."""
    with _in_place(NoWaits()) as clock:
        yield clock


@contextmanager
def scripted_dice(*draws: float) -> Iterator[ScriptedDice]:
    """Make jitter draw these numbers in order, from 0 (the shortest wait) to 1 (the longest)."""
    with use_dice(ScriptedDice(*draws)) as dice:
        assert isinstance(dice, ScriptedDice)  # noqa: S101 - narrows for mypy
        yield dice


@contextmanager
def _in_place(clock: C) -> Iterator[C]:
    # The fast path reads the system clock directly; an unowned scope makes calls take the path that asks for the clock.
    token = CURRENT.set(UNOWNED)
    try:
        with use_clock(clock):
            yield clock
    finally:
        CURRENT.reset(token)
