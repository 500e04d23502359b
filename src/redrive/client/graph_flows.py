"""Flows of graphs, from outside: start them, register steps, settle steps by hand."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from redrive.client.completions import CompletionOutcome, read_completion, read_token, standing_of
from redrive.client.handle import Handle
from redrive.client.step_views import StepView, indexes_of, steps_of
from redrive.errors import FlowFinishedError, InvalidOutcomeError, InvalidStateError, UnknownStepError
from redrive.explain.compensation_words import not_undone, undone_in_words
from redrive.flows.events import ItemAdded
from redrive.flows.graph_driver import read_graph_input
from redrive.flows.graphs.builder import Graph
from redrive.flows.graphs.outputs import OutputError, outputs_of
from redrive.flows.graphs.plan import check_inputs, plan
from redrive.flows.graphs.spec import GraphInput, Plan, StepSpec
from redrive.flows.graphs.step_reading import read_step
from redrive.flows.history import Item, fold
from redrive.flows.messages import ByHand, CompleteItem, Completion, ResetItem, write_message
from redrive.flows.registry import BY_GOALS, GRAPH, graph_named, register_graph
from redrive.stores.records import DeadQuery, FlowRecord, StepRow
from redrive.worker.manual_resolution import misfit

if TYPE_CHECKING:
    from redrive.client.app import App

LARGEST_STEP = 64 * 1024


class GraphFlows:
    """What an app does with graphs and steps."""

    def __init__(self, app: "App") -> None:
        self._app = app

    async def start_graph(
        self, graph: str | Graph, inputs: Mapping[str, Any], goals: Sequence[str] | None, **settings: Any
    ) -> Handle[Any]:
        if isinstance(graph, str):
            known = graph_named(graph)
        else:
            known = graph
            # A worker of this process carries it out.
            register_graph(graph)
        made = plan(known, goals, inputs)
        given = check_inputs(made, inputs, known.inputs)
        return await self._start(made, GRAPH + known.name, given, made.goals if goals else (), settings)

    async def start_goals(self, goals: Sequence[str], inputs: Mapping[str, Any], **settings: Any) -> Handle[Any]:
        made = plan(await self.steps(), goals, inputs)
        return await self._start(made, GRAPH + BY_GOALS, check_inputs(made, inputs), made.goals, settings)

    async def _start(
        self, made: Plan, definition: str, inputs: dict[str, Any], asked: tuple[str, ...], settings: dict[str, Any]
    ) -> Handle[Any]:
        given = GraphInput(plan=made, inputs=inputs, asked=asked)
        text = msgspec.json.encode(given, order="deterministic").decode()
        return await self._app.start_definition(definition, text, **settings)

    # The catalogue

    async def register_step(self, step: Mapping[str, Any] | StepSpec) -> bool:
        spec = step if isinstance(step, StepSpec) else read_step(step)
        body = msgspec.json.encode(spec).decode()
        if len(body) > LARGEST_STEP:
            raise ValueError(f"step {spec.name} takes {len(body):,} bytes; at most {LARGEST_STEP:,} are kept")
        row = StepRow(name=spec.name, body=body, updated_at=self._app.now())
        return await self._app.store.put_step(row)

    async def steps(self) -> list[StepSpec]:
        return [msgspec.json.decode(row.body, type=StepSpec) for row in await self._app.store.list_steps()]

    # By hand

    async def tell_step(self, flow_id: str, step: str, index: int | None, said: ByHand) -> None:
        """`said` is about the item that step and index name; its own number is filled in."""
        record = await self._app.find(flow_id)
        lines = await self._app.log(flow_id)
        items = fold(lines).items
        item = _item_of(record, items, step, index)
        if any(one.undoes for one in items.values()):
            left = not_undone(lines)
            how = "what had succeeded is being undone, or was undone" if not left else undone_in_words(left)
            raise InvalidStateError(f"flow {flow_id} cannot go on: {how}. Start another flow")
        message = msgspec.structs.replace(said, item=item.number)
        if isinstance(message, CompleteItem) and record.definition.startswith(GRAPH):
            outputs = outputs_of(_spec_of(record, step), msgspec.json.decode(message.result))
            message = msgspec.structs.replace(message, result=msgspec.Raw(msgspec.json.encode(outputs)))
        if record.status in ("completed", "cancelled"):
            raise FlowFinishedError(flow_id, record.status)
        if item.state in ("completed", "cancelled"):
            raise InvalidStateError(f"step {step} of flow {flow_id} is {item.state}: there is nothing to settle")
        if isinstance(message, ResetItem) and item.state in ("running", "queued"):
            raise InvalidStateError(f"step {step} of flow {flow_id} is {item.state}: it is being tried already")
        if not record.definition.startswith(GRAPH) and (why := misfit(step, message)):
            raise OutputError(f"step {step}: {why}")
        # It may have ended since it was looked at.
        status = record.status if record.status == "failed" else await self._app.send(flow_id, message)
        if status in ("completed", "cancelled"):
            raise FlowFinishedError(flow_id, status)
        if status == "failed":
            now = self._app.now()
            by, why = message.by, message.why
            if not await self._app.store.settle_dead([flow_id], "redriven", by, why, now, write_message(message)):
                raise InvalidStateError(await self._why_it_stays(flow_id))

    async def _why_it_stays(self, flow_id: str) -> str:
        """A failed flow, whose letter is not dead any more."""
        for letter in await self._app.store.list_dead(DeadQuery(flow_ids=(flow_id,), state="discarded")):
            return (
                f"flow {flow_id} stays failed: its dead letter was discarded by {letter.by} ({letter.why})."
                " Start another flow"
            )
        return f"flow {flow_id} was put back to work by someone else; see how it goes on, and try again"

    async def complete(self, token: str, body: bytes, content_type: str) -> CompletionOutcome:
        read = read_token(token)
        record = await self._app.store.find_flow(read.flow_id) if read is not None else None
        if read is None or record is None:
            return "unknown"
        lines = await self._app.log(read.flow_id)
        standing = standing_of(lines, read)
        if standing == "unknown":
            return standing
        outputs, failure = read_completion(body, content_type, self._app.now())
        if failure is None and record.definition.startswith(GRAPH):
            added = next(
                line.event for line in lines if isinstance(line.event, ItemAdded) and line.event.item == read.item
            )
            try:
                outputs_of(_spec_of(record, added.step), msgspec.json.decode(outputs))
            except OutputError as error:
                raise InvalidOutcomeError(str(error)) from None
        standing = standing_of(lines, read, failure is None)
        if standing != "duplicate":
            # One that comes too late is told too: the flow's log notes that it was refused.
            said = Completion(item=read.item, delivery=read.delivery, outputs=outputs, failure=failure)
            await self._app.send(read.flow_id, said)
        return standing

    async def steps_of(self, flow_id: str) -> list[StepView]:
        record = await self._app.find(flow_id)
        return steps_of(record, await self._app.log(flow_id), self._app.now())


def _item_of(record: FlowRecord, items: dict[int, Item], step: str, index: int | None) -> Item:
    """The item that is meant: of several, the one that is not done."""
    flow_id, index_of = record.id, indexes_of(record.definition, items.values())
    of_step = [item for item in items.values() if item.step == step and index in (None, index_of[item.number])]
    if not of_step:
        which = step if index is None else f"{step}[{index}]"
        raise UnknownStepError(f"flow {flow_id} has no work item of step {which}; see: redrive explain {flow_id}")
    unfinished = [item for item in of_step if item.state not in ("completed", "cancelled")]
    if index is None and len(unfinished) > 1:
        numbers = ", ".join(str(index_of[item.number]) for item in unfinished[:10])
        raise UnknownStepError(
            f"step {step} of flow {flow_id} has several items that are not done; name one: {numbers}"
        )
    return (unfinished or of_step)[-1]


def _spec_of(record: FlowRecord, step: str) -> StepSpec:
    made = read_graph_input(record.input).plan
    for spec in (*made.steps, *made.compensations):
        if spec.name == step:
            return spec
    raise UnknownStepError(f"the graph of flow {record.id} has no step {step}")
