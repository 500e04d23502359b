"""Chance: jitter draws come from here, and a test can script them for its context."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Dice = Callable[[], float]
"""Each call draws one number in [0, 1]."""

# Jitter spreads load; it guards nothing, so the fast generator will do.
SYSTEM_DICE: Dice = random.random
_dice: ContextVar[Dice] = ContextVar("redrive_dice", default=SYSTEM_DICE)


def current_dice() -> Dice:
    return _dice.get()


Random = random.Random


def seeded_random(seed: int | str) -> Random:
    """Chance that draws the same numbers for the same seed."""
    return random.Random(seed)  # noqa: S311 - repeatable on purpose, and no secret


def seeded_dice(seed: int | str) -> Dice:
    """Dice that draw the same numbers for the same seed."""
    return seeded_random(seed).random


def put_dice(dice: Dice) -> None:
    """Make `dice` the current ones for the rest of this context."""
    _dice.set(dice)


@contextmanager
def use_dice(dice: Dice) -> Iterator[Dice]:
    """Make `dice` the current ones for this context, and for the tasks and threads that inherit it."""
    token = _dice.set(dice)
    try:
        yield dice
    finally:
        _dice.reset(token)
