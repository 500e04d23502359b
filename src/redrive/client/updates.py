"""Sends updates to flows, and waits for their answers."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from redrive.client.flow_access import FlowAccess
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import FlowFinishedError, SignalRefusedError, UpdateTimeoutError
from redrive.flows.errors.stored_error import rebuild_error
from redrive.flows.message_events import UpdateCompleted, UpdateFailed, UpdateRefused
from redrive.flows.messages import Update
from redrive.flows.registry import WORKFLOW
from redrive.flows.values.json_form import JsonForm
from redrive.flows.workflows.handlers import Handler, UpdateMethod, check_name
from redrive.flows.workflows.workflow import WORKFLOWS
from redrive.stores.records import FINISHED
from redrive.worker.event_rows import lines_of

FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.5
"""Seconds between looks at the log: it is short at first, and doubles."""
ROWS_AT_ONCE = 200


async def update(
    flows: FlowAccess,
    flow_id: str,
    what: str | Callable[..., Any] | UpdateMethod,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    timeout: float | None = None,
) -> Any:
    """Send the update, and return what its handler returns or raise what it raises."""
    record = await flows.find(flow_id)
    handler = _handler(record.definition, what)
    name = handler.name if handler is not None else check_name("update", what)
    if handler is not None:
        arguments = handler.signature.bind(args, dict(kwargs)).encoded
    elif args:
        raise TypeError(f"update({name!r}, ...): arguments need names here, where the workflow's code is not known")
    else:
        arguments = JsonForm(dict[str, Any], f"update {name}: its arguments").write(dict(kwargs))[0]
    answer = await send_update(flows, flow_id, name, arguments, timeout=timeout)
    return msgspec.json.decode(answer) if handler is None else handler.signature.read_result(answer)


async def send_update(
    flows: FlowAccess,
    flow_id: str,
    name: str,
    arguments: str,
    *,
    timeout: float | None,
    update_id: str | None = None,
    by: str = "",
) -> str:
    """Send an update, with arguments as they are stored; its result as JSON."""
    update_id = flows.new_id(flows.now()) if update_id is None else update_id
    until = None if timeout is None else SYSTEM_CLOCK.monotonic() + timeout
    await flows.send_once(flow_id, Update(id=update_id, name=name, args=msgspec.Raw(arguments.encode()), by=by))
    answer = await _answer(flows, flow_id, update_id, until)
    if answer is None:
        raise UpdateTimeoutError(flow_id, name, timeout or 0)
    return answer


async def plain_update(flows: FlowAccess, flow_id: str, name: str, arguments: Mapping[str, Any], **options: Any) -> Any:
    given = JsonForm(dict[str, Any], f"update {name}: its arguments").write(dict(arguments))[0]
    return msgspec.json.decode(await send_update(flows, flow_id, check_name("update", name), given, **options))


def _handler(definition: str, what: Any) -> Handler | None:
    if isinstance(what, UpdateMethod):
        return what.handler
    if not isinstance(what, str):
        raise TypeError(f"update takes a name, or a method marked with @redrive.update, not {what!r}")
    workflow = WORKFLOWS.by_name.get(definition.removeprefix(WORKFLOW)) if definition.startswith(WORKFLOW) else None
    return None if workflow is None else workflow.handlers.updates.get(what)


async def _answer(flows: FlowAccess, flow_id: str, update_id: str, until: float | None) -> str | None:
    """The result as JSON; None where there is none in time."""
    seen, pause = 0, FIRST_PAUSE
    while True:
        status = (await flows.find(flow_id)).status
        rows = await flows.store.read_events_after(flow_id, seen, ROWS_AT_ONCE)
        for line in lines_of(rows):
            event = line.event
            if not isinstance(event, UpdateCompleted | UpdateFailed | UpdateRefused) or event.id != update_id:
                continue
            if isinstance(event, UpdateCompleted):
                return bytes(event.result).decode()
            if isinstance(event, UpdateRefused):
                raise SignalRefusedError(f"the update {event.update!r} was refused: {event.why}")
            raise rebuild_error(event.error)
        if rows:
            seen, pause = rows[-1].seq, FIRST_PAUSE
        if len(rows) == ROWS_AT_ONCE:
            await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
            continue
        if status in FINISHED:
            raise FlowFinishedError(flow_id, f"{status}, and has not answered the update")
        # In real time, whatever the clock of the flows says.
        now = SYSTEM_CLOCK.monotonic()
        if until is not None and now >= until:
            return None
        await SYSTEM_CLOCK.asleep_until(now + pause if until is None else min(now + pause, until))
        pause = min(2 * pause, LONGEST_PAUSE)
