"""`SyncHandle`: one flow, seen from a program without an event loop."""

from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from redrive.client.app import App
from redrive.client.handle import Handle, moved
from redrive.flows.retry_policy import Retry, Timeout
from redrive.flows.workflows.handlers import UpdateMethod
from redrive.stores.records import FlowStatus

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Run(Protocol):
    """Runs a call in the app's event loop and waits for it."""

    def __call__(self, call: Callable[[App], Coroutine[Any, Any, T]]) -> T: ...


class SyncHandle(Generic[T_co]):
    """Waits for one flow and controls it, from any thread. Its methods are those of `Handle`, without `await`."""

    def __init__(self, handle: Handle[T_co], run: Run) -> None:
        self.id = handle.id
        self.is_new = handle.is_new
        """True when the call that returned this handle started the flow; False when its key was in use already."""
        self._handle = handle
        self._run = run

    def result(self, timeout: Timeout | None = None) -> T_co:
        """Wait for the flow to end; return its result or raise its error.

        timeout: how long to wait before TimeoutError: seconds, a timedelta, or text such as "30s".
        """
        return self._run(lambda app: self._in(app).result(timeout))

    def status(self) -> FlowStatus:
        return self._run(lambda app: self._in(app).status())

    def cancel(self, by: str = "", why: str = "", force: bool = False) -> None:
        """Ask the flow to stop: its waits end at once, running coroutines are cancelled, and its code may clean up.

        force: end the flow without running any more of its code; nothing is compensated. Where no live worker would
        claim the flow, it is ended here.
        """
        self._run(lambda app: self._in(app).cancel(by, why, force))

    def pause(self, by: str = "", why: str = "") -> None:
        """Start no more attempts until the flow is resumed; running attempts may finish."""
        self._run(lambda app: self._in(app).pause(by, why))

    def resume(self, by: str = "", why: str = "") -> None:
        """Continue a paused flow, or a parked one whose code has been fixed."""
        self._run(lambda app: self._in(app).resume(by, why))

    def retry_now(self, by: str = "", why: str = "") -> None:
        """Begin the next attempts now, instead of at the times for which they wait; no attempt is spent or granted.

        An open circuit, a spent budget or a paused queue still holds them back. InvalidStateError when nothing waits,
        or while the flow is paused or parked.
        """
        self._run(lambda app: self._in(app).retry_now(by, why))

    def move_to_version(self, version: str | None, by: str = "", why: str = "") -> None:
        """Pin the flow to another version of the code, whose workers then go on with it; None: to any.

        Its code must fit the flow's log: `redrive replay` tells. InvalidStateError while a worker has the flow.
        """
        self._run(lambda app: self._in(app).move_to_version(version, by, why))

    def change_policy(self, policy: Retry, *, step: str = "", by: str = "", why: str = "") -> None:
        """Give the flow's open work another retry policy: `handle.change_policy("attempts: 10", why="no hurry")`.

        What is decided from now on follows it. Waits between attempts are decided anew, from the failure that they
        followed: they become longer or shorter, or the work gives up. Work that begins later follows its code.

        policy: text in redrive's own notation changes what it names, and the rest stays; any other policy replaces it.
        step: only the work of this step or action; by default, all that is open. InvalidStateError when there is none.
        """
        self._run(lambda app: self._in(app).change_policy(policy, step=step, by=by, why=why))

    def signal(self, signal: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        """Send the flow a signal: `handle.signal("approved", by="ann")`.

        When this returns, the signal is stored: the flow receives it once, in order, also if it has not begun yet.
        FlowFinishedError when the flow has ended.

        signal: its name; or the @signal method, `Order.approved`, whose type hints then check the arguments.
        """
        self._run(lambda app: self._in(app).signal(signal, *args, **kwargs))

    def query(self, query: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Ask the flow something: `handle.query("status")`. The flow is not changed, and may have ended.

        This process answers, by replaying the flow's log: it needs the workflow's code.

        query: its name, or the @query method: `Order.status`.
        """
        return self._run(lambda app: self._in(app).query(query, *args, **kwargs))

    def update(self, update: "str | UpdateMethod", /, *args: Any, timeout: Timeout | None = None, **kwargs: Any) -> Any:
        """Send the flow an update and wait for its answer: `handle.update("set_address", street="...")`.

        Returns what the workflow's @update method returns, and raises what it raises. SignalRefusedError when its
        validator refuses the update, or there is no such update; FlowFinishedError when the flow ends before.

        update: its name; or the @update method, `Order.set_address`.
        timeout: how long to wait before UpdateTimeoutError; the update may take effect later. An argument of that name
            is given by position, or with `app.update`.
        """
        return self._run(lambda app: self._in(app).update(update, *args, timeout=timeout, **kwargs))

    def _in(self, app: App) -> Handle[T_co]:
        """Return the handle for an app that may have been opened since, as after a fork."""
        return moved(self._handle, app.handle(self.id))

    def __repr__(self) -> str:
        return repr(self._handle)
