"""`App`: starts flows, waits for them, inspects them, and redrives dead letters."""

import functools
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

import msgspec

from redrive.client.app_schedules import AppSchedules
from redrive.client.earlier_runs import read_run
from redrive.client.flow_inputs import FlowInput, goals_input, input_of, job_input
from redrive.client.flow_settings import FlowSettings, new_flow
from redrive.client.handle import Handle, seconds_of
from redrive.client.many_flows import ManyFlows
from redrive.client.queries import plain_answer
from redrive.client.repeated_starts import repeated_starts
from redrive.client.updates import plain_update
from redrive.determinism.off_loop import off_loop
from redrive.explain.explanation import Explanation
from redrive.explain.log_line import LogLine, public_lines
from redrive.explain.store_reader import explain_from_store, explain_without_key
from redrive.flows.action import ActionCall
from redrive.flows.chunks import LONG_LOG
from redrive.flows.events import Line
from redrive.flows.flow_call import FlowCall
from redrive.flows.messages import (
    AnyMessage,
    CompleteItem,
    ResetItem,
    ResolveItem,
)
from redrive.flows.retry_policy import Retry, Timeout
from redrive.flows.workflows.signal_arguments import signal_arguments
from redrive.near_names import unknown_setting
from redrive.stores.encoded_text import key_of
from redrive.stores.queues import QueueRecord
from redrive.stores.records import DeadLetter, DeadQuery, FlowQuery, FlowRecord, FlowStatus, RetryQuery, RetryRow

if TYPE_CHECKING:
    from redrive.client.catalogue import BrokenStep, Catalogue
    from redrive.client.queue_control import QueueChanges
    from redrive.client.reported_outcomes import OutcomeStatus, ReportedOutcomes
    from redrive.client.step_resolution import StepResolution
    from redrive.client.step_views import StepView
    from redrive.flows.graphs.spec import StepSpec

NO_INPUTS: Mapping[str, Any] = MappingProxyType({})

T = TypeVar("T")


class App(ManyFlows, AppSchedules):
    """An open store and, by default, a worker in this process. Made by `redrive.open(...)`."""

    # Starting

    @overload
    async def start(
        self,
        call: ActionCall[T],
        *,
        retry: Retry | None = None,
        timeout: Timeout | None = None,
        **settings: Unpack[FlowSettings],
    ) -> Handle[T]: ...
    @overload
    async def start(self, call: FlowCall[T], **settings: Unpack[FlowSettings]) -> Handle[T]: ...

    async def start(
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
    ) -> Handle[T]:
        """Start a flow: `await app.start(Checkout.call(order), key="order-17")`.

        call: a workflow's `Checkout.call(...)`, an action's `charge(...)` (a job), or the `call(...)` of a graph, a
        script or a pipeline.
        key: starting again with the same key and input returns the same flow; with another input it is refused.
        queue, priority: which workers take the flow, and how soon; a higher priority goes first.
        delay: begin later: seconds, a timedelta, text such as "2h", or a datetime.
        connection: your own connection to the store's database (SQLAlchemy, Django, psycopg, asyncpg, sqlite3,
        aiosqlite): the flow exists only if your transaction commits.
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
        if arguments:
            raise TypeError("the arguments go into the call: write app.start(Checkout.call(order), key=...)")
        if retry is None and timeout is None:
            given = input_of(call)
        elif isinstance(call, ActionCall):
            given = job_input(call, retry, timeout)
        else:
            raise TypeError(
                "retry and timeout are settings of a job; a workflow sets them for each action that it runs"
            )
        if unknown:
            raise unknown_setting("app.start", unknown, (*FlowSettings.__annotations__, "retry", "timeout"))
        return await self._start(
            given,
            key=key,
            queue=queue,
            priority=priority,
            delay=delay,
            connection=connection,
            signal=signal,
            traceparent=traceparent,
            concurrency_key=concurrency_key,
            unique_for=unique_for,
            debounce=debounce,
            tags=tags,
        )

    async def start_goals(
        self, goals: Sequence[str], inputs: Mapping[str, Any] = NO_INPUTS, **settings: Unpack[FlowSettings]
    ) -> Handle[dict[str, Any]]:
        """Start a flow that reaches these steps of the catalogue, with all the steps that they need."""
        return await self._start(goals_input(await self.steps(), goals, inputs), **settings)

    async def _start(
        self,
        given: FlowInput,
        *,
        connection: Any = None,
        signal: tuple[str, Mapping[str, Any]] | None = None,
        unique_for: Timeout | None = None,
        debounce: Timeout | None = None,
        **settings: Any,
    ) -> Handle[Any]:
        said = None if signal is None else signal_arguments(signal[0], (), signal[1])
        if said is not None and connection is not None:
            raise TypeError("signal: not with connection=, since the flow exists only once your transaction commits")
        self._check_open()
        now = self.now()
        repeated = repeated_starts(unique_for, debounce, connection, settings)
        if repeated.debounce is not None:
            settings["delay"] = repeated.debounce
        flow = new_flow(self._new_id(now), now, given.definition, given.text, **settings)
        flow_id = await self._starter.start(flow, connection, repeated)
        is_new, on_connection = flow_id == flow.id, connection is not None
        if said is not None:
            await self._flows.send_signal(flow_id, *said)
        return Handle(flow_id, self._flows, self._results, given.read_result, is_new, on_connection)

    def handle(self, flow_id: str) -> Handle[Any]:
        """The flow with this id."""
        return Handle(flow_id, self._flows, self._results)

    async def signal(
        self, flow_id: str, name: str, arguments: Mapping[str, Any], *, signal_id: str | None = None, by: str = ""
    ) -> None:
        """Send a flow a signal, as `Handle.signal` does.

        signal_id: the flow receives a signal of the same id once; by default, a new one.
        by: who sends it.
        """
        await self._flows.send_signal(flow_id, *signal_arguments(name, (), arguments), signal_id=signal_id, by=by)

    async def query(self, flow_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """Ask a flow something, as `Handle.query` does; the answer is plain data."""
        return await plain_answer(self._flows, flow_id, name, arguments)

    async def update(
        self,
        flow_id: str,
        name: str,
        arguments: Mapping[str, Any],
        *,
        timeout: Timeout | None = None,
        update_id: str | None = None,
        by: str = "",
    ) -> Any:
        """Send a flow an update and wait for its answer, as `Handle.update` does; the answer is plain data.

        update_id: an update of the same id takes effect once, and is answered each time; by default, a new one.
        """
        given = {"timeout": seconds_of(timeout), "update_id": update_id, "by": by}
        return await plain_update(self._flows, flow_id, name, arguments, **given)

    def now(self) -> float:
        """The time of the flows, in epoch seconds, rounded to the microsecond as every store keeps it."""
        return self._flows.now()

    # Steps. Their modules are imported when first used: most apps have no graphs.

    @functools.cached_property
    def _catalogue(self) -> "Catalogue":
        from redrive.client.catalogue import Catalogue

        return Catalogue(self._flows)

    @functools.cached_property
    def _resolution(self) -> "StepResolution":
        from redrive.client.step_resolution import StepResolution

        return StepResolution(self._flows)

    @functools.cached_property
    def _outcomes(self) -> "ReportedOutcomes":
        from redrive.client.reported_outcomes import ReportedOutcomes

        return ReportedOutcomes(self._flows)

    async def register_step(self, step: "Mapping[str, Any] | StepSpec") -> bool:
        """Add a step to the catalogue, or replace the one of the same name; True when there was none."""
        return await self._catalogue.register(step)

    async def steps(self) -> "list[StepSpec]":
        """The steps of the catalogue, without those that cannot be read."""
        from redrive.flows.graphs.spec import StepSpec

        return [one for one in await self.catalogue() if isinstance(one, StepSpec)]

    async def catalogue(self) -> "list[StepSpec | BrokenStep]":
        """The steps of the catalogue, and those that cannot be read."""
        return await self._catalogue.entries()

    async def drop_step(self, name: str) -> bool:
        """Remove a step from the catalogue; flows that were started with it keep it."""
        return await self.store.drop_step(name)

    async def steps_of(self, flow_id: str) -> "list[StepView]":
        """The steps of a flow with their current state, each with its work items."""
        from redrive.client.step_views import steps_of

        record, lines = await self.find(flow_id), await self.read_lines(flow_id)
        return await off_loop(len(lines) > LONG_LOG, steps_of, record, lines, self.now())

    async def is_delivery_token(self, token: str) -> bool:
        """Whether an attempt has this token, be it still running or over."""
        return await self._outcomes.is_token(token)

    async def report_outcome(self, token: str, body: bytes, content_type: str = "application/json") -> "OutcomeStatus":
        """Report how an accepted attempt ended. `token` is its delivery token; the body has the form of a response."""
        return await self._outcomes.report(token, body, content_type)

    async def reset_step(self, flow_id: str, step: str, *, index: int | None = None, by: str, why: str) -> None:
        """Retry a waiting or failed step now, with all its attempts granted again; the flow continues from there."""
        await self._resolution.apply(flow_id, step, index, ResetItem(item=0, by=by, why=why))

    async def complete_step(
        self, flow_id: str, step: str, outputs: Any, *, index: int | None = None, by: str, why: str
    ) -> None:
        """Complete a waiting or failed step manually, with the outputs that it would have returned."""
        result = msgspec.Raw(msgspec.json.encode(outputs))
        await self._resolution.apply(flow_id, step, index, CompleteItem(item=0, result=result, by=by, why=why))

    async def resolve_step(self, flow_id: str, step: str, *, index: int | None = None, by: str, why: str) -> None:
        """Resolve a step manually, without outputs: dependent steps go on, those that need its outputs are skipped."""
        await self._resolution.apply(flow_id, step, index, ResolveItem(item=0, by=by, why=why))

    # Inspecting

    async def find(self, flow_id: str) -> FlowRecord:
        """The flow's row; FlowNotFoundError where there is none."""
        return await self._flows.find(flow_id)

    async def log(self, flow_id: str) -> list[LogLine]:
        """The flow's log, in order, as `/events` shows it."""
        lines = await self.read_lines(flow_id)
        return await off_loop(len(lines) > LONG_LOG, public_lines, lines)

    async def read_lines(self, flow_id: str) -> list[Line]:
        """The flow's log, in order, with its typed events."""
        return await self._flows.log(flow_id)

    async def explain(self, flow_id: str, *, run: int | None = None, payloads: bool = True) -> Explanation:
        """Everything that happened to a flow and why, what it waits for, and what to do next.

        run: an earlier run of a flow that continued as new; RunNotFoundError when it is not there.
        payloads=False: with the sizes of inputs, results and messages instead of their contents.
        """
        if (key := key_of((record := await self.find(flow_id)).input)) is not None:
            return await explain_without_key(self.store, record, key, self._clock.wall())
        lines = await self.read_lines(flow_id)
        read = await read_run(self.store, await self.find(flow_id), lines, run)
        now = self._clock.wall()
        return await explain_from_store(self.store, read.record, read.lines, now, payloads, current_run=read.current)

    async def flows(self, query: FlowQuery | None = None) -> list[FlowRecord]:
        return await self.store.list_flows(query or FlowQuery())

    async def retries(self, query: RetryQuery | None = None) -> list[RetryRow]:
        """The work items that wait for their next attempt, the next one first."""
        return await self.store.list_retries(query or RetryQuery())

    async def queues(self) -> list[QueueRecord]:
        return await self._queues.records()

    async def limit_queue(self, queue: str, limit: int | None) -> None:
        """Let at most `limit` flows of a queue run at once, in the whole fleet; None: any number."""
        await self._queues.configure(queue, {"limit": limit})

    async def configure_queue(self, queue: str, **changes: "Unpack[QueueChanges]") -> None:
        """Change what is set for a queue in the whole fleet: `await app.configure_queue("mail", rate="100/m")`.

        limit: how many of its flows may run at once. per_key: how many of these may have the same concurrency key.
        rate, key_rate: how many of its flows, or of those with the same key, may begin in which time: "100/m".
        aging: the time of waiting after which the priority of a flow rises by one, such as "10m".
        None removes a setting; what is not named stays.
        """
        await self._queues.configure(queue, changes)

    async def pause_queue(self, queue: str, *, by: str, why: str) -> bool:
        """Begin no attempt of this queue's flows, in the whole fleet, until it is resumed; running ones may finish.

        Return False when the queue was paused already: it keeps that pause.
        """
        return await self._queues.pause(queue, by, why)

    async def resume_queue(self, queue: str) -> bool:
        """Let the flows of a paused queue go on; False when it was not paused."""
        return await self._queues.resume(queue)

    async def send(self, flow_id: str, message: AnyMessage) -> FlowStatus:
        """Leave a message in a flow's inbox; return the status that the flow had."""
        return await self._flows.send(flow_id, message)

    # Dead letters

    async def dead_letters(self, query: DeadQuery | None = None) -> list[DeadLetter]:
        return await self._dead_letters.found(query or DeadQuery())

    async def redrive(self, flow_ids: str | Sequence[str], *, by: str, why: str) -> list[str]:
        """Put dead flows back to work, each at the step that failed. Return the ids of those that were dead.

        A flow whose compensation failed continues that. Flows that were compensated stay as they are; InvalidStateError
        when there are no others.
        """
        return await self._dead_letters.redrive(flow_ids, by, why)

    async def discard(self, flow_ids: str | Sequence[str], *, by: str, why: str) -> list[str]:
        """Discard dead letters: their flows stay failed. Return the ids of those that were dead."""
        return await self._dead_letters.discard(flow_ids, by, why)
