"""Taking turns at a connection."""

import asyncio
from collections import deque


class Turns:
    """One at a time, in the order they come.

    As asyncio.Lock, but quick where nobody waits: whoever finds it not `taken` takes it, and hands it on in the end.
    """

    def __init__(self) -> None:
        self.taken = False
        self._line: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Until it is our turn; for who finds it taken."""
        turn = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except BaseException:
            if turn in self._line:
                self._line.remove(turn)
            else:
                self.hand_on()
            raise

    def hand_on(self) -> None:
        """To whoever has waited longest."""
        if not self._line:
            self.taken = False
            return
        turn = self._line.popleft()
        # One that was cancelled and does not know it yet hands it on by itself.
        if not turn.done():
            turn.set_result(None)
