"""Turn the command that ends a flow into the last event of its log."""

from typing import Literal

import msgspec

from redrive.errors import DeserializationError
from redrive.flows.commands import EndFlow
from redrive.flows.errors.item_error import failed_child_of, failed_item_of
from redrive.flows.errors.stored_error import store_error
from redrive.flows.events import FlowCancelled, FlowCompleted, FlowFailed
from redrive.flows.history import FlowHistory
from redrive.policies.decision import GiveUpKind

DeadKind = Literal[
    GiveUpKind,
    "workflow",  # the flow's own code failed
    "graph",  # a goal of the graph cannot be reached
    "child",  # a child flow failed
    "compensated",  # a step failed, and completed steps were compensated
]
"""Why a flow is a dead letter: how one of its items gave up, or what else failed."""


def end_event(command: EndFlow, history: FlowHistory) -> FlowCompleted | FlowFailed | FlowCancelled:
    if command.outcome == "completed":
        return FlowCompleted(result=msgspec.Raw(command.result.encode()))
    if command.outcome == "cancelled":
        return FlowCancelled(why=command.why)
    error = command.error or RuntimeError("the flow failed without an error")
    number = failed_item_of(error)
    item = history.items.get(number) if number is not None else None
    if item is None or item.gave_up is None:
        child = failed_child_of(error)
        if child is not None:
            return FlowFailed(error=store_error(error), kind=command.kind or "child", child=child)
        kind = command.kind or ("poison" if isinstance(error, DeserializationError) else "workflow")
        return FlowFailed(error=store_error(error), kind=kind)
    return FlowFailed(error=store_error(error), kind=command.kind or item.gave_up.kind, item=item.number)
