"""How a flow ends, as the last line of its log."""

from typing import Literal

import msgspec

from redrive.flows.commands import EndFlow
from redrive.flows.events import FlowCancelled, FlowCompleted, FlowFailed
from redrive.flows.failed_item import item_behind
from redrive.flows.history import FlowHistory
from redrive.flows.portable_errors import store_error
from redrive.flows.values import NotReadable
from redrive.policies.decision import GiveUpKind

DeadKind = Literal[
    GiveUpKind,
    "workflow",  # its own code failed
    "graph",  # its steps cannot reach a goal
    "compensated",  # a step failed, and what had succeeded was undone
]
"""Why a flow failed for good: how a step gave up, or what else went wrong."""


def ending_of(command: EndFlow, history: FlowHistory) -> FlowCompleted | FlowFailed | FlowCancelled:
    if command.how == "completed":
        return FlowCompleted(result=msgspec.Raw(command.result.encode()))
    if command.how == "cancelled":
        return FlowCancelled(why=command.why)
    error = command.error or RuntimeError("it failed")
    number = item_behind(error)
    item = history.items.get(number) if number is not None else None
    if item is None or item.gave_up is None:
        kind = command.kind or ("poison" if isinstance(error, NotReadable) else "workflow")
        return FlowFailed(error=store_error(error), kind=kind)
    return FlowFailed(error=store_error(error), kind=command.kind or item.gave_up.kind, item=item.number)
