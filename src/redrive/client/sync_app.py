"""`SyncApp`: the app for programs without an event loop."""

import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from redrive.client.app import NO_INPUTS, App
from redrive.client.flow_inputs import Schedulable
from redrive.client.flow_settings import FlowSettings
from redrive.client.handle import Handle
from redrive.client.loop_thread import LoopThread, refuse_in_event_loop
from redrive.client.schedule_control import Backfilled
from redrive.client.schedule_views import NEXT_SHOWN, ScheduleView
from redrive.client.sync_handle import SyncHandle
from redrive.client.sync_many_flows import SyncManyFlows
from redrive.client.sync_messages import SyncMessages
from redrive.explain.explanation import Explanation
from redrive.explain.log_line import LogLine
from redrive.flows.action import ActionCall
from redrive.flows.events import Line
from redrive.flows.flow_call import FlowCall
from redrive.flows.messages import AnyMessage
from redrive.flows.retry_policy import Retry, Timeout
from redrive.flows.schedules.settings import ScheduleSettings
from redrive.stores.queues import QueueRecord
from redrive.stores.records import DeadLetter, DeadQuery, FlowQuery, FlowRecord, FlowStatus, RetryQuery, RetryRow

if TYPE_CHECKING:
    from redrive.client.catalogue import BrokenStep
    from redrive.client.queue_control import QueueChanges
    from redrive.client.reported_outcomes import OutcomeStatus
    from redrive.client.step_views import StepView
    from redrive.flows.graphs.spec import StepSpec

T = TypeVar("T")


class SyncApp(SyncMessages, SyncManyFlows):
    """An open store and, by default, a worker, for programs without an event loop. Made by `redrive.open_sync(...)`.

    Its methods are those of `App`, without `await`; all threads of a process can use it at the same time. The app
    itself runs in one background thread.
    """

    def __init__(self, make_app: Callable[[], App]) -> None:
        """`make_app` is called at each opening, in the background thread."""
        self._make_app = make_app
        self._opened: LoopThread | None = None

    # Opening, working, closing

    def open(self) -> Self:
        """Open the app, unless it is open in this process. Web servers that fork call it after the fork."""
        if self._is_open:
            return self
        refuse_in_event_loop()
        with _opening.lock:
            if not self._is_open:
                self._opened = LoopThread(self._make_app)
        return self

    @property
    def _is_open(self) -> bool:
        opened = self._opened
        return opened is not None and opened.pid == os.getpid() and not opened.is_closed

    def close(self) -> None:
        """Have the worker release its flows, and close the store. Running attempts have the grace period to finish."""
        if self._is_open:
            refuse_in_event_loop()
        opened, self._opened = self._opened, None
        # A forked child leaves its parent's app alone.
        if opened is not None and opened.pid == os.getpid():
            opened.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def stop(self) -> None:
        """Have the worker release its flows and end."""
        thread = self._thread()
        thread.call_soon(thread.app.stop)

    def work(self) -> None:
        """Run a worker until `stop()`. A worker that lost its lease, or failed, is replaced by a new one."""
        self._run(lambda app: app.work())

    def _thread(self) -> LoopThread:
        opened = self._opened
        if opened is None:
            raise RuntimeError(
                "this app is not open; use it inside `with redrive.open_sync(...) as app`, or app.open()"
            )
        if opened.pid != os.getpid():
            raise RuntimeError(
                f"this app was opened in process {opened.pid}, of which this process ({os.getpid()}) is a fork; call "
                "app.open() in each process, after the fork (with gunicorn: in post_fork, or without --preload)"
            )
        return opened

    def _run(self, call: Callable[[App], Coroutine[Any, Any, T]]) -> T:
        return self._thread().run(call)

    def _start(self, connection: Any, call: Callable[[App, Any], Coroutine[Any, Any, Handle[T]]]) -> SyncHandle[T]:
        """Start a flow; in the caller's transaction, where a connection is given."""
        if connection is None:
            handle = self._run(lambda app: call(app, None))
        else:
            handle = self._thread().run_in(connection, call)
        return SyncHandle(handle, self._run)

    # Starting

    @overload
    def start(
        self,
        call: ActionCall[T],
        *,
        retry: Retry | None = None,
        timeout: Timeout | None = None,
        **settings: Unpack[FlowSettings],
    ) -> SyncHandle[T]: ...
    @overload
    def start(self, call: FlowCall[T], **settings: Unpack[FlowSettings]) -> SyncHandle[T]: ...

    def start(
        self,
        call: ActionCall[T] | FlowCall[T],
        *arguments: Any,
        retry: Retry | None = None,
        timeout: Timeout | None = None,
        key: str | None = None,
        queue: str = "default",
        priority: int = 0,
        delay: Timeout | datetime | None = None,
        connection: Any = None,
        signal: tuple[str, Mapping[str, Any]] | None = None,
        traceparent: str | None = None,
        concurrency_key: str | None = None,
        unique_for: Timeout | None = None,
        debounce: Timeout | None = None,
        tags: Mapping[str, str] | None = None,
        **unknown: Any,
    ) -> SyncHandle[T]:
        """Start a flow: `app.start(Checkout.call(order), key="order-17")`.

        call: a workflow's `Checkout.call(...)`, an action's `charge(...)` (a job), or the `call(...)` of a graph, a
        script or a pipeline.
        key: starting again with the same key and input returns the same flow; with another input it is refused.
        queue, priority: which workers take the flow, and how soon; a higher priority goes first.
        delay: begin later: seconds, a timedelta, text such as "2h", or a datetime.
        connection: your own connection to the store's database (SQLAlchemy, Django, psycopg, sqlite3): the flow exists
        only if your transaction commits.
        signal: a signal for the flow, whether it is new or its key is in use: `signal=("approved", {"by": "ann"})`. It
        is sent right after the start: if this call fails in between, call again with the same key.
        traceparent: the W3C trace context that the flow's spans belong to; by default the current OpenTelemetry span's.
        concurrency_key: flows of a queue with the same one, such as a tenant, take turns with others and share limits
        that `configure_queue` sets per key.
        unique_for: with a key: for how long the same flow is returned, such as "10m"; then the key starts a new one.
        debounce: with a key: begin once nobody has started it again for this time, such as "30s", but after ten times
        that at the latest; each start replaces the input of the flow that has not begun.
        tags: names and texts to find the flow by: {"tenant": "acme"}.
        retry, timeout: for a job only: override the policy of its action.
        """
        if isinstance(call, ActionCall):
            # Read here, so that a call which is refused before it reaches the app does not count as forgotten.
            _ = call.action
        settings: Any = {
            "key": key,
            "queue": queue,
            "priority": priority,
            "delay": delay,
            "signal": signal,
            "traceparent": traceparent,
            "concurrency_key": concurrency_key,
            "unique_for": unique_for,
            "debounce": debounce,
            "tags": tags,
        }
        settings |= unknown  # which the app refuses
        given: Any = call
        return self._start(
            connection,
            lambda app, on: app.start(given, *arguments, retry=retry, timeout=timeout, connection=on, **settings),
        )

    def start_goals(
        self, goals: Sequence[str], inputs: Mapping[str, Any] = NO_INPUTS, **settings: Unpack[FlowSettings]
    ) -> SyncHandle[dict[str, Any]]:
        """Start a flow that reaches these steps of the catalogue, with all the steps that they need."""
        given: Any = settings
        connection = given.pop("connection", None)
        return self._start(connection, lambda app, on: app.start_goals(goals, inputs, connection=on, **given))

    def handle(self, flow_id: str) -> SyncHandle[Any]:
        """The flow with this id."""
        return SyncHandle(self._thread().app.handle(flow_id), self._run)

    def now(self) -> float:
        """The time of the flows, in epoch seconds, rounded to the microsecond as every store keeps it."""
        return self._thread().app.now()

    # Steps

    def register_step(self, step: "Mapping[str, Any] | StepSpec") -> bool:
        """Add a step to the catalogue, or replace the one of the same name; True when there was none."""
        return self._run(lambda app: app.register_step(step))

    def steps(self) -> "list[StepSpec]":
        """The steps of the catalogue, without those that cannot be read."""
        return self._run(lambda app: app.steps())

    def catalogue(self) -> "list[StepSpec | BrokenStep]":
        """The steps of the catalogue, and those that cannot be read."""
        return self._run(lambda app: app.catalogue())

    def drop_step(self, name: str) -> bool:
        """Remove a step from the catalogue; flows that were started with it keep it."""
        return self._run(lambda app: app.drop_step(name))

    def steps_of(self, flow_id: str) -> "list[StepView]":
        """The steps of a flow with their current state, each with its work items."""
        return self._run(lambda app: app.steps_of(flow_id))

    def is_delivery_token(self, token: str) -> bool:
        """Whether an attempt has this token, be it still running or over."""
        return self._run(lambda app: app.is_delivery_token(token))

    def report_outcome(self, token: str, body: bytes, content_type: str = "application/json") -> "OutcomeStatus":
        """Report how an accepted attempt ended. `token` is its delivery token; the body has the form of a response."""
        return self._run(lambda app: app.report_outcome(token, body, content_type))

    def reset_step(self, flow_id: str, step: str, *, index: int | None = None, by: str, why: str) -> None:
        """Retry a waiting or failed step now, with all its attempts granted again; the flow continues from there."""
        self._run(lambda app: app.reset_step(flow_id, step, index=index, by=by, why=why))

    def complete_step(
        self, flow_id: str, step: str, outputs: Any, *, index: int | None = None, by: str, why: str
    ) -> None:
        """Complete a waiting or failed step manually, with the outputs that it would have returned."""
        self._run(lambda app: app.complete_step(flow_id, step, outputs, index=index, by=by, why=why))

    def resolve_step(self, flow_id: str, step: str, *, index: int | None = None, by: str, why: str) -> None:
        """Resolve a step manually, without outputs: dependent steps go on, those that need its outputs are skipped."""
        self._run(lambda app: app.resolve_step(flow_id, step, index=index, by=by, why=why))

    # Inspecting

    def find(self, flow_id: str) -> FlowRecord:
        """The flow's row; FlowNotFoundError where there is none."""
        return self._run(lambda app: app.find(flow_id))

    def log(self, flow_id: str) -> list[LogLine]:
        """The flow's log, in order, as `/events` shows it."""
        return self._run(lambda app: app.log(flow_id))

    def read_lines(self, flow_id: str) -> list[Line]:
        """The flow's log, in order, with its typed events."""
        return self._run(lambda app: app.read_lines(flow_id))

    def explain(self, flow_id: str, *, run: int | None = None, payloads: bool = True) -> Explanation:
        """Everything that happened to a flow and why, what it waits for, and what to do next.

        run: an earlier run of a flow that continued as new. payloads=False: with sizes instead of what it works with.
        """
        return self._run(lambda app: app.explain(flow_id, run=run, payloads=payloads))

    def flows(self, query: FlowQuery | None = None) -> list[FlowRecord]:
        return self._run(lambda app: app.flows(query))

    def retries(self, query: RetryQuery | None = None) -> list[RetryRow]:
        """The work items that wait for their next attempt, the next one first."""
        return self._run(lambda app: app.retries(query))

    def queues(self) -> list[QueueRecord]:
        return self._run(lambda app: app.queues())

    def limit_queue(self, queue: str, limit: int | None) -> None:
        """Let at most `limit` flows of a queue run at once, in the whole fleet; None: any number."""
        self._run(lambda app: app.limit_queue(queue, limit))

    def configure_queue(self, queue: str, **changes: "Unpack[QueueChanges]") -> None:
        """Change what is set for a queue in the whole fleet: `app.configure_queue("mail", rate="100/m")`.

        limit: how many of its flows may run at once. per_key: how many of these may have the same concurrency key.
        rate, key_rate: how many of its flows, or of those with the same key, may begin in which time: "100/m".
        aging: the time of waiting after which the priority of a flow rises by one, such as "10m".
        None removes a setting; what is not named stays.
        """
        self._run(lambda app: app.configure_queue(queue, **changes))

    def pause_queue(self, queue: str, *, by: str, why: str) -> bool:
        """Begin no attempt of this queue's flows, in the whole fleet, until it is resumed; running ones may finish.

        Return False when the queue was paused already: it keeps that pause.
        """
        return self._run(lambda app: app.pause_queue(queue, by=by, why=why))

    def resume_queue(self, queue: str) -> bool:
        """Let the flows of a paused queue go on; False when it was not paused."""
        return self._run(lambda app: app.resume_queue(queue))

    def send(self, flow_id: str, message: AnyMessage) -> FlowStatus:
        """Leave a message in a flow's inbox; return the status that the flow had."""
        return self._run(lambda app: app.send(flow_id, message))

    # Schedules

    def schedule(self, name: str, call: Schedulable, **settings: Unpack[ScheduleSettings]) -> ScheduleView:
        """Start flows by a schedule: `app.schedule("nightly", Report.call(), cron="0 2 * * *")`.

        The workers of the fleet start one flow for each tick. A schedule of the same name is changed.

        call: as in `start`; a workflow or an action without arguments may be given itself.
        cron: when, as five fields such as "0 2 * * *", in `timezone` (UTC by default).
        every: or an interval, such as "10m"; at: or one time, a datetime with a zone.
        overlap: what a tick does while an earlier flow still runs: "skip", "queue" (one), "cancel" the earlier one,
        or "allow" both.
        catch_up: how late a tick may be that no worker was there for ("1h"); later ones are skipped and counted.
        jitter: delays each tick by up to this.
        queue, priority, tags: of the flows.
        """
        return self._run(lambda app: app.schedule(name, call, **settings))

    def schedules(self, *, after: str = "", limit: int = 100) -> list[ScheduleView]:
        """The schedules by name, each with its next tick and its last flow; `after` the one of that name."""
        return self._run(lambda app: app.schedules(after=after, limit=limit))

    def find_schedule(self, name: str, *, ticks: int = NEXT_SHOWN) -> ScheduleView:
        """The schedule with its next ticks, its last flows and what it skipped; ScheduleNotFoundError without one."""
        return self._run(lambda app: app.find_schedule(name, ticks=ticks))

    def pause_schedule(self, name: str, *, by: str, why: str) -> bool:
        """Start no flows by this schedule until it is resumed; False when it was paused already."""
        return self._run(lambda app: app.pause_schedule(name, by=by, why=why))

    def resume_schedule(self, name: str, *, by: str, why: str) -> bool:
        """Let a paused schedule go on with its next tick; False when it was not paused."""
        return self._run(lambda app: app.resume_schedule(name, by=by, why=why))

    def trigger_schedule(self, name: str, *, by: str, why: str) -> SyncHandle[Any]:
        """Start a flow of this schedule now, also while another one runs or the schedule is paused."""
        return SyncHandle(self._run(lambda app: app.trigger_schedule(name, by=by, why=why)), self._run)

    def backfill_schedule(self, name: str, begin: datetime, end: datetime, *, by: str, why: str) -> Backfilled:
        """Start the flows of all ticks from `begin` to `end` that have none yet, all at once."""
        return self._run(lambda app: app.backfill_schedule(name, begin, end, by=by, why=why))

    def delete_schedule(self, name: str) -> bool:
        """Remove a schedule; its flows stay. Return False when there is none."""
        return self._run(lambda app: app.delete_schedule(name))

    # Dead letters

    def dead_letters(self, query: DeadQuery | None = None) -> list[DeadLetter]:
        return self._run(lambda app: app.dead_letters(query))

    def redrive(self, flow_ids: str | Sequence[str], *, by: str, why: str) -> list[str]:
        """Put dead flows back to work, each at the step that failed. Return the ids of those that were dead.

        A flow whose compensation failed continues that. Flows that were compensated stay as they are; InvalidStateError
        when there are no others.
        """
        return self._run(lambda app: app.redrive(flow_ids, by=by, why=why))

    def discard(self, flow_ids: str | Sequence[str], *, by: str, why: str) -> list[str]:
        """Discard dead letters: their flows stay failed. Return the ids of those that were dead."""
        return self._run(lambda app: app.discard(flow_ids, by=by, why=why))


class _Opening:
    """Lets one thread open apps at a time. A forked child gets a new lock: nobody there would release the old one."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.lock = threading.Lock()


_opening = _Opening()
