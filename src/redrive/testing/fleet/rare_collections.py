"""Collect garbage rarely while many short histories run: most of the time would go into looking at everything else."""

import gc
from types import TracebackType
from typing import Self

EVERY = 20


class RareCollections:
    """A context manager; call `history_ended` after each history."""

    def __init__(self) -> None:
        self._ended = 0
        self._was_enabled = gc.isenabled()

    def __enter__(self) -> Self:
        gc.disable()
        gc.freeze()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gc.unfreeze()
        if self._was_enabled:
            gc.enable()

    def history_ended(self) -> None:
        self._ended += 1
        if self._ended % EVERY == 0:
            gc.collect()
