"""Long work on a log, in pieces: between them others may have the processor, such as who renews the worker's lease."""

from collections.abc import Generator, Iterator, Sequence
from typing import TypeVar, cast

T = TypeVar("T")

LINES_AT_ONCE = 1000


def parts_of(things: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(things), LINES_AT_ONCE):
        yield things[first : first + LINES_AT_ONCE]


def at_once(pieces: Generator[None, None, T]) -> T:
    """All of them, with nobody between."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return cast("T", end.value)
