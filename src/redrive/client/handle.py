"""A flow from outside: its result, and what may be told to it."""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from redrive.errors import FlowFinishedError
from redrive.failures.duration import read_duration
from redrive.flows.messages import AnyMessage, Cancel, Pause, Resume
from redrive.flows.retry_policy import Timeout
from redrive.policies.backoff import LONGEST_WAIT
from redrive.stores.records import FINISHED, FlowStatus

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.client.results import Results

T = TypeVar("T")


class Handle(Generic[T]):
    """One flow. It can be made again from its id: `app.handle(flow_id)`."""

    def __init__(
        self,
        app: "App",
        results: "Results",
        flow_id: str,
        read_result: Callable[[str], Any] | None = None,
        is_new: bool = False,
    ) -> None:
        self.id = flow_id
        self.is_new = is_new
        """Whether the call that gave this handle started the flow; False where its key had been used before."""
        self._app = app
        self._results = results
        self._read_result = read_result

    async def result(self, timeout: Timeout | None = None) -> T:
        """Wait for the flow to end: its result, or its error raised.

        timeout: TimeoutError after so long: seconds, a timedelta, or text such as "30s".
        """
        self._app.check_loop()
        value: T = await self._results.wait(self.id, self._read_result, _seconds(timeout))
        return value

    async def status(self) -> FlowStatus:
        return (await self._app.find(self.id)).status

    async def cancel(self, by: str = "", why: str = "", force: bool = False) -> None:
        """Ask it to stop: waits end at once, running coroutines are cancelled, its code may clean up.

        force: end it whatever its code would do; none of it runs any more, and nothing is undone.
        """
        await self._tell(Cancel(by=by, why=why, force=force))

    async def pause(self, by: str = "", why: str = "") -> None:
        """Begin no more attempts until it is resumed; those that run may end."""
        await self._tell(Pause(by=by, why=why))

    async def resume(self, by: str = "", why: str = "") -> None:
        """Go on after a pause, or after its code was mended."""
        await self._tell(Resume(by=by, why=why))

    async def _tell(self, message: AnyMessage) -> None:
        status = await self._app.send(self.id, message)
        if status in FINISHED:
            raise FlowFinishedError(self.id, status)

    def __repr__(self) -> str:
        return f"<flow {self.id}>"


def _seconds(timeout: Timeout | None) -> float | None:
    # What is left until a deadline may be less than nothing, or have no end.
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, int | float):
        # An int may be too large for a float.
        return min(timeout, LONGEST_WAIT)
    return None if timeout is None else read_duration(timeout)
