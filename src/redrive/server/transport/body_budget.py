"""Limit the bytes of request bodies that the server holds at once, in total and for each caller."""

import asyncio
from collections import Counter, deque

FREE = 64 * 1024
"""Bytes of each body that are not counted: small requests never wait for large ones."""


class BodyBudget:
    """A body that is larger than `FREE` claims its size before it is read, and waits in line if that is too much."""

    def __init__(self, total: int, per_caller: int, patience: float) -> None:
        self._total = total
        self._per_caller = per_caller
        self._patience = patience
        self._claimed = 0
        self._by_caller: Counter[str] = Counter()
        self._line: deque[tuple[asyncio.Future[None], str, int]] = deque()

    @property
    def claimed(self) -> int:
        return self._claimed

    def _fits(self, caller: str, size: int) -> bool:
        # A body that is larger than a whole share is read once its caller has no other.
        mine = self._by_caller[caller]
        return (not mine or mine + size <= self._per_caller) and (
            not self._claimed or self._claimed + size <= self._total
        )

    async def claim(self, caller: str, size: int) -> bool:
        """Claim bytes for a body; False if there was no room for it in time."""
        if not self._in_line(caller) and self._fits(caller, size):
            self._add(caller, size)
            return True
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (turn, caller, size)
        self._line.append(entry)
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except TimeoutError:
            # The turn may have come in the same moment.
            return turn.done() and not turn.cancelled()
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(caller, size)
            raise
        finally:
            if entry in self._line:
                self._line.remove(entry)
                # Smaller bodies of its caller stood behind it.
                self._serve_line()
        return True

    def release(self, caller: str, size: int) -> None:
        self._add(caller, -size)
        self._serve_line()

    def _serve_line(self) -> None:
        """Let those in line that fit now have their turn."""
        for entry in list(self._line):
            turn, waiting, wanted = entry
            if not turn.done() and self._fits(waiting, wanted):
                self._line.remove(entry)
                self._add(waiting, wanted)
                turn.set_result(None)

    def _in_line(self, caller: str) -> bool:
        return any(waiting == caller for _, waiting, _ in self._line)

    def _add(self, caller: str, size: int) -> None:
        self._claimed += size
        self._by_caller[caller] += size
        if not self._by_caller[caller]:
            del self._by_caller[caller]


class BodyClaim:
    """The part of the budget that one request has claimed; released when the request ends."""

    def __init__(self, budget: BodyBudget, caller: str) -> None:
        self._budget = budget
        self._caller = caller
        self._size = 0

    async def claim(self, size: int) -> bool:
        """Claim bytes for the body, once; False if there was no room for it in time."""
        if self._size:
            return True
        if await self._budget.claim(self._caller, size):
            self._size = size
            return True
        return False

    def release(self) -> None:
        if self._size:
            self._budget.release(self._caller, self._size)
            self._size = 0
