"""Long work on a log as generators that yield between chunks, so that other tasks get a turn, such as lease renewal."""

from collections.abc import Generator, Iterator, Sequence
from typing import TypeVar, cast

T = TypeVar("T")

CHUNK_SIZE = 1000
LONG_LOG = 1000
"""Lines from which a log is rendered in a thread."""


def in_chunks(lines: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(lines), CHUNK_SIZE):
        yield lines[first : first + CHUNK_SIZE]


def run_to_completion(work: Generator[None, None, T]) -> T:
    """Run all chunks without yielding in between."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return cast("T", end.value)
