"""`Handle`: one flow, seen from outside."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, TypeVar

from redrive.client.flow_access import FlowAccess
from redrive.client.results import Results
from redrive.errors import FlowFinishedError
from redrive.failures.duration import read_duration
from redrive.flows.messages import AnyMessage, Cancel, Pause, Resume
from redrive.flows.retry_policy import Timeout
from redrive.policies.backoff import LONGEST_WAIT
from redrive.stores.records import FINISHED, FlowStatus

T_co = TypeVar("T_co", covariant=True)


class Handle(Generic[T_co]):
    """Waits for one flow and controls it. `app.handle(flow_id)` makes another handle of the same flow."""

    def __init__(
        self,
        flow_id: str,
        flows: FlowAccess,
        results: Results,
        read_result: Callable[[str], Any] | None = None,
        is_new: bool = False,
    ) -> None:
        self.id = flow_id
        self.is_new = is_new
        """True when the call that returned this handle started the flow; False when its key was in use already."""
        self._flows = flows
        self._results = results
        self._read_result = read_result

    async def result(self, timeout: Timeout | None = None) -> T_co:
        """Wait for the flow to end; return its result or raise its error.

        timeout: how long to wait before TimeoutError: seconds, a timedelta, or text such as "30s".
        """
        self._flows.check_loop()
        value: T_co = await self._results.wait(self.id, self._read_result, _seconds(timeout))
        return value

    async def status(self) -> FlowStatus:
        return (await self._flows.find(self.id)).status

    async def cancel(self, by: str = "", why: str = "", force: bool = False) -> None:
        """Ask the flow to stop: its waits end at once, running coroutines are cancelled, and its code may clean up.

        force: end the flow without running any more of its code; nothing is compensated.
        """
        await self._send(Cancel(by=by, why=why, force=force))

    async def pause(self, by: str = "", why: str = "") -> None:
        """Start no more attempts until the flow is resumed; running attempts may finish."""
        await self._send(Pause(by=by, why=why))

    async def resume(self, by: str = "", why: str = "") -> None:
        """Continue a paused flow, or a parked one whose code has been fixed."""
        await self._send(Resume(by=by, why=why))

    async def _send(self, message: AnyMessage) -> None:
        status = await self._flows.send(self.id, message)
        if status in FINISHED:
            raise FlowFinishedError(self.id, status)

    def __repr__(self) -> str:
        return f"<flow {self.id}>"


def _seconds(timeout: Timeout | None) -> float | None:
    # The time left until a deadline may be negative or infinite.
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, int | float):
        # An int may be too large for a float.
        return min(timeout, LONGEST_WAIT)
    return None if timeout is None else read_duration(timeout)
