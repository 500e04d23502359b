"""Randomness: jitter draws from here, and tests can script the draws for their context."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Dice = Callable[[], float]
"""Each call draws one number in [0, 1]."""

# Jitter spreads load and protects nothing, so the fast generator is enough.
SYSTEM_DICE: Dice = random.random
_dice: ContextVar[Dice] = ContextVar("redrive_dice", default=SYSTEM_DICE)


def current_dice() -> Dice:
    """Return the dice of this context."""
    return _dice.get()


Random = random.Random


def seeded_random(seed: int | str) -> Random:
    """Return a generator that draws the same numbers for the same seed."""
    return random.Random(seed)  # noqa: S311 - repeatable on purpose, and no secret


def seeded_dice(seed: int | str) -> Dice:
    """Return dice that draw the same numbers for the same seed."""
    return seeded_random(seed).random


def put_dice(dice: Dice) -> None:
    """Set the dice for the rest of this context."""
    _dice.set(dice)


@contextmanager
def use_dice(dice: Dice) -> Iterator[Dice]:
    """Use `dice` in this context, and in the tasks and threads that inherit it."""
    token = _dice.set(dice)
    try:
        yield dice
    finally:
        _dice.reset(token)
