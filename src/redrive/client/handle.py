"""`Handle`: one flow, seen from outside."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Generic, TypeVar

from redrive.client.flow_access import FlowAccess
from redrive.client.forced_end import end_if_nobody_would
from redrive.client.queries import ask
from redrive.client.results import Results
from redrive.client.updates import update as send_update
from redrive.client.version_moves import move_to_version
from redrive.errors import FlowFinishedError, FlowNotFoundError
from redrive.failures.duration import read_duration
from redrive.flows.messages import AnyMessage, Cancel, Pause, Resume, RetryNow, check_by_and_why
from redrive.flows.policy_change import policy_change
from redrive.flows.retry_policy import Retry, Timeout
from redrive.flows.workflows.handlers import UpdateMethod
from redrive.flows.workflows.signal_arguments import signal_arguments
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
        on_connection: bool = False,
    ) -> None:
        """on_connection: the flow was started in a transaction of the caller, which need not have committed."""
        self.id = flow_id
        self.is_new = is_new
        """True when the call that returned this handle started the flow; False when its key was in use already."""
        self._flows = flows
        self._results = results
        self._read_result = read_result
        self._on_connection = on_connection

    async def result(self, timeout: Timeout | None = None) -> T_co:
        """Wait for the flow to end; return its result or raise its error.

        timeout: how long to wait before TimeoutError: seconds, a timedelta, or text such as "30s".
        """
        self._flows.check_loop()
        with self._says_why_missing():
            value: T_co = await self._results.wait(self.id, self._read_result, seconds_of(timeout))
        return value

    async def status(self) -> FlowStatus:
        with self._says_why_missing():
            return (await self._flows.find(self.id)).status

    async def cancel(self, by: str = "", why: str = "", force: bool = False) -> None:
        """Ask the flow to stop: its waits end at once, running coroutines are cancelled, and its code may clean up.

        force: end the flow without running any more of its code; nothing is compensated. Where no live worker would
        claim the flow, it is ended here.
        """
        request = Cancel(by=by, why=why, force=force)
        await self._send(request)
        if force:
            await end_if_nobody_would(self._flows, self.id, request)

    async def pause(self, by: str = "", why: str = "") -> None:
        """Start no more attempts until the flow is resumed; running attempts may finish."""
        await self._send(Pause(by=by, why=why))

    async def resume(self, by: str = "", why: str = "") -> None:
        """Continue a paused flow, or a parked one whose code has been fixed."""
        await self._send(Resume(by=by, why=why))

    async def retry_now(self, by: str = "", why: str = "") -> None:
        """Begin the next attempts now, instead of at the times for which they wait; no attempt is spent or granted.

        An open circuit, a spent budget or a paused queue still holds them back. InvalidStateError when nothing waits,
        or while the flow is paused or parked.
        """
        check_by_and_why(by, why)
        with self._says_why_missing():
            await self._flows.check_waits_for_attempt(self.id)
        await self._send(RetryNow(by=by, why=why))

    async def change_policy(self, policy: Retry, *, step: str = "", by: str = "", why: str = "") -> None:
        """Give the flow's open work another retry policy: `await handle.change_policy("attempts: 10", why="no hurry")`.

        What is decided from now on follows it. Waits between attempts are decided anew, from the failure that they
        followed: they become longer or shorter, or the work gives up. Work that begins later follows its code.

        policy: text in redrive's own notation changes what it names, and the rest stays; any other policy replaces it.
        step: only the work of this step or action; by default, all that is open. InvalidStateError when there is none.
        """
        said = policy_change(policy, step, by, why)
        with self._says_why_missing():
            await self._flows.check_change_of_policy(self.id, said)
        await self._send(said)

    async def move_to_version(self, version: str | None, by: str = "", why: str = "") -> None:
        """Pin the flow to another version of the code, whose workers then go on with it; None: to any.

        Its code must fit the flow's log: `redrive replay` tells. InvalidStateError while a worker has the flow.
        """
        with self._says_why_missing():
            await move_to_version(self._flows, self.id, version or "", by, why)

    async def signal(self, signal: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        """Send the flow a signal: `await handle.signal("approved", by="ann")`.

        When this returns, the signal is stored: the flow receives it once, in order, also if it has not begun yet.
        FlowFinishedError when the flow has ended.

        signal: its name; or the @signal method, `Order.approved`, whose type hints then check the arguments.
        """
        name, arguments = signal_arguments(signal, args, kwargs)
        with self._says_why_missing():
            await self._flows.send_signal(self.id, name, arguments)

    async def query(self, query: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Ask the flow something: `await handle.query("status")`. The flow is not changed, and may have ended.

        This process answers, by replaying the flow's log: it needs the workflow's code.

        query: its name, or the @query method: `Order.status`.
        """
        with self._says_why_missing():
            return await ask(self._flows, self.id, query, args, kwargs)

    async def update(
        self, update: "str | UpdateMethod", /, *args: Any, timeout: Timeout | None = None, **kwargs: Any
    ) -> Any:
        """Send the flow an update and wait for its answer: `await handle.update("set_address", street="...")`.

        Returns what the workflow's @update method returns, and raises what it raises. SignalRefusedError when its
        validator refuses the update, or there is no such update; FlowFinishedError when the flow ends before.

        update: its name; or the @update method, `Order.set_address`.
        timeout: how long to wait before UpdateTimeoutError; the update may take effect later. An argument of that name
            is given by position, or with `app.update`.
        """
        with self._says_why_missing():
            return await send_update(self._flows, self.id, update, args, kwargs, seconds_of(timeout))

    async def _send(self, message: AnyMessage) -> None:
        with self._says_why_missing():
            status = await self._flows.send(self.id, message)
        if status in FINISHED:
            raise FlowFinishedError(self.id, status)

    @contextmanager
    def _says_why_missing(self) -> Iterator[None]:
        try:
            yield
        except FlowNotFoundError:
            if not self._on_connection:
                raise
            why = "it was started on your connection, whose transaction has not committed yet or was rolled back"
            raise FlowNotFoundError(self.id, self._flows.store.address, why) from None

    def __repr__(self) -> str:
        return f"<flow {self.id}>"


def moved(handle: Handle[T_co], other: Handle[Any]) -> Handle[T_co]:
    """Return a handle of the same flow, which uses the app of `other`."""
    flows, results = other._flows, other._results
    return Handle(handle.id, flows, results, handle._read_result, handle.is_new, handle._on_connection)


def seconds_of(timeout: Timeout | None) -> float | None:
    # The time left until a deadline may be negative or infinite.
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, int | float):
        # An int may be too large for a float.
        return min(timeout, LONGEST_WAIT)
    return None if timeout is None else read_duration(timeout)
