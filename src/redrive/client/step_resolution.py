"""Lets an operator reset, complete or resolve one step of a flow."""

import msgspec

from redrive.client.flow_access import FlowAccess
from redrive.client.step_views import indexes_of
from redrive.errors import FlowFinishedError, InvalidStateError, UnknownStepError
from redrive.explain.compensation import describe_compensation, uncompensated_items, uncompensated_steps
from redrive.flows.events import Line
from redrive.flows.graphs.outputs import OutputError, outputs_of
from redrive.flows.graphs.spec import StepSpec
from redrive.flows.graphs.stored_graph import read_graph_input
from redrive.flows.history import fold
from redrive.flows.item import Item
from redrive.flows.messages import CompleteItem, ManualResolution, ResetItem, write_message
from redrive.flows.registry import GRAPH
from redrive.stores.records import DeadQuery, FlowRecord
from redrive.worker.flow.manual_resolution import misfit


class StepResolution:
    """Sends an operator's decision about a step to its flow, and puts a failed flow back to work with it."""

    def __init__(self, flows: FlowAccess) -> None:
        self._flows = flows

    async def apply(self, flow_id: str, step: str, index: int | None, decision: ManualResolution) -> None:
        """Apply the decision to the step's item; `decision.item` is filled in.

        InvalidStateError, FlowFinishedError or UnknownStepError where the flow or the step does not allow it.
        """
        record = await self._flows.find(flow_id)
        lines = await self._flows.log(flow_id)
        items = fold(lines).items
        item = _item_of(record, items, step, index)
        is_failed_compensation = item.compensates and item.state == "failed" and record.status == "failed"
        if any(one.compensates for one in items.values()) and not is_failed_compensation:
            raise InvalidStateError(f"flow {flow_id} cannot go on with step {step}: {_compensation(lines)}")
        message = msgspec.structs.replace(decision, item=item.number)
        if isinstance(message, CompleteItem) and record.definition.startswith(GRAPH):
            outputs = outputs_of(step_spec(record, step), msgspec.json.decode(message.result))
            message = msgspec.structs.replace(message, result=msgspec.Raw(msgspec.json.encode(outputs)))
        _check_state(record, step, item, message)
        if not record.definition.startswith(GRAPH) and (why := misfit(step, message)):
            raise OutputError(f"step {step}: {why}")
        # The flow may have ended since it was read.
        status = record.status if record.status == "failed" else await self._flows.send(flow_id, message)
        if status in ("completed", "cancelled"):
            raise FlowFinishedError(flow_id, status)
        if status == "failed":
            await self._redrive_with(flow_id, message)

    async def _redrive_with(self, flow_id: str, message: ManualResolution) -> None:
        now, store = self._flows.now(), self._flows.store
        text = write_message(message)
        if await store.close_dead_letters([flow_id], "redriven", message.by, message.why, now, text):
            return
        for letter in await store.list_dead_letters(DeadQuery(flow_ids=(flow_id,), state="discarded")):
            raise InvalidStateError(
                f"flow {flow_id} stays failed: its dead letter was discarded by {letter.by} ({letter.why})."
                " Start another flow"
            )
        raise InvalidStateError(
            f"flow {flow_id} was redriven by someone else in the meantime; look at its state, then try again"
        )


def _compensation(lines: list[Line]) -> str:
    """Say how far a flow was compensated, and what can be done about it."""
    failed = uncompensated_steps(lines)
    how = describe_compensation(failed) if failed else "its completed steps are being or were compensated"
    compensations = dict.fromkeys(item.step for item in uncompensated_items(lines))
    if not compensations:
        return f"{how}. Start another flow"
    return (
        f"{how}. Redrive the flow, or complete or resolve the compensation ({', '.join(compensations)}); for the work "
        "itself, start another flow"
    )


def _check_state(record: FlowRecord, step: str, item: Item, message: ManualResolution) -> None:
    if record.status in ("completed", "cancelled"):
        raise FlowFinishedError(record.id, record.status)
    if item.state in ("completed", "cancelled"):
        raise InvalidStateError(f"step {step} of flow {record.id} is {item.state}: there is nothing to resolve")
    if isinstance(message, ResetItem) and item.state in ("running", "queued"):
        raise InvalidStateError(f"step {step} of flow {record.id} is {item.state}: an attempt is already in progress")


def _item_of(record: FlowRecord, items: dict[int, Item], step: str, index: int | None) -> Item:
    """Return the item with that index, or the only one that is not done."""
    flow_id, index_of = record.id, indexes_of(record.definition, items.values())
    of_step = [item for item in items.values() if item.step == step and index in (None, index_of[item.number])]
    if not of_step:
        which = step if index is None else f"{step}[{index}]"
        raise UnknownStepError(f"flow {flow_id} has no work item of step {which}; see: redrive explain {flow_id}")
    unfinished = [item for item in of_step if item.state not in ("completed", "cancelled")]
    if index is None and len(unfinished) > 1:
        numbers = ", ".join(str(index_of[item.number]) for item in unfinished[:10])
        raise UnknownStepError(f"step {step} of flow {flow_id} has several unfinished items; name one: {numbers}")
    return (unfinished or of_step)[-1]


def step_spec(record: FlowRecord, step: str) -> StepSpec:
    """Return the step of a graph's flow; UnknownStepError where its graph has none of that name."""
    plan = read_graph_input(record.input).plan
    for spec in (*plan.steps, *plan.compensations):
        if spec.name == step:
            return spec
    raise UnknownStepError(f"the graph of flow {record.id} has no step {step}")
