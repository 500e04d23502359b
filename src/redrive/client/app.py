"""What a program uses: start flows, wait for them, look at them, and put dead ones back to work."""

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, cast, overload

import msgspec

from redrive.client.app_life import AppLife
from redrive.client.eager_start import was_added
from redrive.client.handle import Handle
from redrive.client.new_flows import FlowSettings, check_queue, new_flow
from redrive.client.starting import Starter, started
from redrive.determinism.clock import whole_microseconds
from redrive.errors import FlowNotFoundError, InvalidStateError
from redrive.explain.compensation_words import not_undone, undone_in_words
from redrive.explain.explanation import Explanation
from redrive.explain.reading import explained
from redrive.flows.action import ActionCall
from redrive.flows.history import Line
from redrive.flows.job import write_job
from redrive.flows.json_forms import is_storable
from redrive.flows.messages import AnyMessage, CompleteItem, Redrive, ResetItem, ResolveItem, write_message
from redrive.flows.registry import ACTION, WORKFLOW, workflow_named
from redrive.flows.retry_policy import Retry, Timeout, as_policy
from redrive.flows.signatures import check_signature
from redrive.flows.workflow import Workflow
from redrive.stores.interface import Store
from redrive.stores.records import (
    DeadLetter,
    DeadQuery,
    FlowQuery,
    FlowRecord,
    FlowStatus,
    NewFlow,
    QueueRecord,
    RetryQuery,
    RetryRow,
)
from redrive.worker.log_lines import lines_of
from redrive.worker.settings import WorkerSettings

if TYPE_CHECKING:
    from redrive.client.completions import CompletionOutcome
    from redrive.client.graph_flows import GraphFlows
    from redrive.client.step_views import StepView
    from redrive.flows.graphs.builder import Graph
    from redrive.flows.graphs.spec import StepSpec
    from redrive.flows.scripts.script import Script
    from redrive.pipeline.pipeline import Pipeline

LARGEST_LIMIT = 2**31 - 1
P = ParamSpec("P")
T = TypeVar("T")

NOTHING: Mapping[str, Any] = MappingProxyType({})


class App(AppLife):
    """An open store, and by default a worker in this process. Made by `redrive.open(...)`."""

    def __init__(self, store: Store, worker: bool = True, settings: WorkerSettings | None = None) -> None:
        super().__init__(store, worker, settings)
        self._starter = Starter(store)

    # Starting

    @overload
    async def start(
        self,
        pipeline: "Pipeline",
        /,
        *,
        data: Mapping[str, Any] = NOTHING,
        request_id: Any = None,
        **settings: Unpack[FlowSettings],
    ) -> Handle[dict[str, dict[str, Any] | None]]: ...
    @overload
    async def start(
        self,
        workflow: type[Workflow] | str,
        /,
        *args: Any,
        key: str | None = None,
        queue: str = "default",
        priority: int = 0,
        delay: Timeout | datetime | None = None,
        connection: Any = None,
        **kwargs: Any,
    ) -> Handle[Any]: ...

    async def start(
        self,
        workflow: "type[Workflow] | str | Pipeline",
        /,
        *args: Any,
        key: str | None = None,
        queue: str = "default",
        priority: int = 0,
        delay: Timeout | datetime | None = None,
        connection: Any = None,
        **kwargs: Any,
    ) -> Handle[Any]:
        """Start a flow; what is not named here goes to the workflow's `run`. A pipeline takes `data` and `request_id`.

        key: starting again with the same key and input gives the same flow; with another input it is refused.
        queue, priority: which workers take it, and how soon; a higher priority goes first.
        delay: begin later: seconds, a timedelta, text such as "2h", or a datetime.
        connection: your own PostgreSQL connection (asyncpg or psycopg): the flow exists only if your transaction
        commits.
        """
        if (pipelines := sys.modules.get("redrive.pipeline.pipeline")) and isinstance(workflow, pipelines.Pipeline):
            from redrive.client.pipeline_flows import start_pipeline

            settings = FlowSettings(key=key, queue=queue, priority=priority, delay=delay, connection=connection)
            return await start_pipeline(self, cast("Pipeline", workflow), args, kwargs, **settings)
        definition = workflow_named(workflow) if isinstance(workflow, str) else workflow
        name = getattr(definition, "workflow_name", None)
        if not (isinstance(definition, type) and issubclass(definition, Workflow)) or name is None:
            raise TypeError(f"start takes a class decorated with @workflow, its name, or a Pipeline, not {workflow!r}")
        arguments = definition.signature.bind(args, kwargs)
        flow = new_flow(self.now(), WORKFLOW + name, arguments.encoded, key, queue, priority, delay)
        return await self._add(flow, connection, definition.signature.read_result)

    async def submit(
        self,
        call: ActionCall[T],
        *,
        retry: Retry | None = None,
        timeout: Timeout | None = None,
        key: str | None = None,
        queue: str = "default",
        priority: int = 0,
        delay: Timeout | datetime | None = None,
        connection: Any = None,
    ) -> Handle[T]:
        """Start a background job, a flow of one action: `await app.submit(charge("u1"))`. Settings as in `start`."""
        if not isinstance(call, ActionCall):
            raise TypeError(f"submit takes the call of an @action, such as charge(user=user), not {call!r}")
        policy = (action := call.action).policy
        if retry is not None or timeout is not None:
            policy = as_policy(policy if retry is None else retry, timeout)
        flow = new_flow(self.now(), ACTION + action.name, write_job(call, policy), key, queue, priority, delay)
        return await self._add(flow, connection, action.signature.read_result)

    # Graphs

    @functools.cached_property
    def _graph_flows(self) -> "GraphFlows":
        # Loaded when first used: many an app has no graphs.
        from redrive.client.graph_flows import GraphFlows

        return GraphFlows(self)

    async def start_graph(
        self,
        graph: "str | Graph",
        inputs: Mapping[str, Any] = NOTHING,
        *,
        goals: Sequence[str] | None = None,
        **settings: Unpack[FlowSettings],
    ) -> Handle[dict[str, Any]]:
        """Start a flow of a graph, by default for all its goals, whose outputs it gives. Settings as in `start`."""
        return await self._graph_flows.start_graph(graph, inputs, goals, **settings)

    async def start_goals(
        self, goals: Sequence[str], inputs: Mapping[str, Any] = NOTHING, **settings: Unpack[FlowSettings]
    ) -> Handle[dict[str, Any]]:
        """Start a flow that reaches these steps of the catalogue, with all that they need."""
        return await self._graph_flows.start_goals(goals, inputs, **settings)

    async def register_step(self, step: "Mapping[str, Any] | StepSpec") -> bool:
        """Put a step into the catalogue, in place of one of the same name; True when there was none."""
        return await self._graph_flows.register_step(step)

    async def steps(self) -> "list[StepSpec]":
        """The catalogue."""
        return await self._graph_flows.steps()

    async def drop_step(self, name: str) -> bool:
        """Take a step out of the catalogue; flows that have it keep it."""
        return await self.store.drop_step(name)

    async def complete(self, token: str, body: bytes, content_type: str = "application/json") -> "CompletionOutcome":
        """Tell how an attempt ended that was accepted earlier. The body is like the answer of a step."""
        return await self._graph_flows.complete(token, body, content_type)

    async def steps_of(self, flow_id: str) -> "list[StepView]":
        """The steps of a flow as they stand, each with its work items."""
        return await self._graph_flows.steps_of(flow_id)

    async def reset_step(self, flow_id: str, step: str, *, index: int | None = None, by: str, why: str) -> None:
        """Try a step again that waits or has failed, now and with a fresh allowance; the flow goes on from there."""
        await self._graph_flows.tell_step(flow_id, step, index, ResetItem(item=0, by=by, why=why))

    async def complete_step(
        self, flow_id: str, step: str, outputs: Any, *, index: int | None = None, by: str, why: str
    ) -> None:
        """Complete a step by hand, with what it would have given."""
        said = CompleteItem(item=0, result=msgspec.Raw(msgspec.json.encode(outputs)), by=by, why=why)
        await self._graph_flows.tell_step(flow_id, step, index, said)

    async def resolve_step(self, flow_id: str, step: str, *, index: int | None = None, by: str, why: str) -> None:
        """Settle a step by hand, without outputs: what depends on it goes on, what needs its outputs is skipped."""
        await self._graph_flows.tell_step(flow_id, step, index, ResolveItem(item=0, by=by, why=why))

    async def start_script(
        self,
        script: "str | Script",
        inputs: Mapping[str, Any] = NOTHING,
        *,
        function: str | None = None,
        **settings: Unpack[FlowSettings],
    ) -> Handle[Any]:
        """Start a flow of a script, by default of its `main`. Settings as in `start`."""
        # Loaded when first used: many an app has no scripts.
        from redrive.client.script_flows import start_script

        return await start_script(self, script, inputs, function, **settings)

    async def start_definition(
        self,
        definition: str,
        text: str,
        *,
        key: str | None = None,
        queue: str = "default",
        priority: int = 0,
        delay: Timeout | datetime | None = None,
        connection: Any = None,
    ) -> Handle[Any]:
        """Start a flow of what the definition names, with an input that is written already."""
        flow = new_flow(self.now(), definition, text, key, queue, priority, delay)
        return await self._add(flow, connection)

    def now(self) -> float:
        """The time of the flows, in epoch seconds, as every store keeps it: to the microsecond."""
        return whole_microseconds(self._clock.wall())

    def handle(self, flow_id: str) -> Handle[Any]:
        """The flow with this id."""
        return Handle(self, self._results, flow_id)

    async def _add(
        self, flow: NewFlow, connection: Any, read_result: Callable[[str], Any] | None = None
    ) -> Handle[Any]:
        self.check_loop()
        if connection is None:
            worker = self._worker
            begun = worker is not None and worker.claims.caught_up and await worker.own_starts.add(flow)
            if begun is None:
                begun = await was_added(self.store, flow.id)
            flow_id = flow.id if begun else await self._starter.add(flow)
        else:
            add_on = getattr(self.store, "add_flows_on", None)
            if add_on is None:
                raise ValueError(f"connection=... needs a PostgreSQL store; this one is {self.store.address}")
            flow_id = started(flow, (await add_on(connection, [flow]))[0])
        return Handle(self, self._results, flow_id, read_result, is_new=flow_id == flow.id)

    # Looking

    async def find(self, flow_id: str) -> FlowRecord:
        record = await self.store.find_flow(flow_id) if is_storable(flow_id) else None
        if record is None:
            raise FlowNotFoundError(flow_id, self.store.address)
        return record

    async def log(self, flow_id: str) -> list[Line]:
        """The flow's log, in order."""
        return lines_of((await self.store.read_events([flow_id]))[flow_id])

    async def explain(self, flow_id: str) -> Explanation:
        """Everything that happened to a flow and why, what it waits for, and what to do next."""
        return await explained(self.store, await self.find(flow_id), await self.log(flow_id), self._clock.wall())

    async def flows(self, query: FlowQuery | None = None) -> list[FlowRecord]:
        return await self.store.list_flows(query or FlowQuery())

    async def retries(self, query: RetryQuery | None = None) -> list[RetryRow]:
        """What waits for its next attempt, the next one first."""
        return await self.store.list_retries(query or RetryQuery())

    async def queues(self) -> list[QueueRecord]:
        return await self.store.list_queues()

    async def limit_queue(self, queue: str, limit: int | None) -> None:
        """Let at most `limit` flows of a queue be worked on at once, in the whole fleet; None: any number."""
        if limit is not None and (
            isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LARGEST_LIMIT
        ):
            allowed = f"use a whole number from 1 to {LARGEST_LIMIT}, or None for no limit"
            raise ValueError(f"limit: {limit!r:.40} is not allowed; {allowed}")
        check_queue(queue)
        await self.store.set_queue_limit(queue, limit)

    # Dead letters

    async def dead_letters(self, query: DeadQuery | None = None) -> list[DeadLetter]:
        return await self.store.list_dead(query or DeadQuery())

    async def redrive(self, flow_ids: str | Sequence[str], *, by: str, why: str) -> list[str]:
        """Put dead flows back to work, each at the step that failed. Answers those that were dead.

        Flows whose work was undone stay as they are; when none is left, that is InvalidStateError.
        """
        ids = _ids(flow_ids)
        undone = await self.store.list_dead(DeadQuery(flow_ids=tuple(ids), kind="compensated", limit=max(1, len(ids))))
        if undone:
            left_alone = {letter.flow_id for letter in undone}
            ids = [one for one in ids if one not in left_alone]
            if not ids:
                how = undone_in_words(not_undone(await self.log(undone[0].flow_id)))
                raise InvalidStateError(f"flow {undone[0].flow_id} was compensated: {how}. Start another flow")
        message = write_message(Redrive(by=by, why=why))
        return await self.store.settle_dead(ids, "redriven", by, why, self._clock.wall(), message)

    async def discard(self, flow_ids: str | Sequence[str], *, by: str, why: str) -> list[str]:
        """Settle dead flows for good: they stay failed. Answers those that were dead."""
        check_signature(by, why)
        return await self.store.settle_dead(_ids(flow_ids), "discarded", by, why, self._clock.wall(), None)

    async def send(self, flow_id: str, message: AnyMessage) -> FlowStatus:
        """Leave a message for a flow; answers the status it had."""
        text = write_message(message)
        if not is_storable(flow_id) or (status := await self.store.send(flow_id, text, self.now())) is None:
            raise FlowNotFoundError(flow_id, self.store.address)
        return status


def _ids(flow_ids: str | Sequence[str]) -> list[str]:
    return [flow_ids] if isinstance(flow_ids, str) else list(flow_ids)
