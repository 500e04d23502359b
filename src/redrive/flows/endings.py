"""How a flow ends, as the last line of its log."""

from typing import Literal

import msgspec

from redrive.errors import DeserializationError
from redrive.flows.asks import EndAsk
from redrive.flows.events import FlowCancelled, FlowCompleted, FlowFailed
from redrive.flows.failed_item import item_behind
from redrive.flows.history import FlowHistory
from redrive.flows.portable_errors import store_error
from redrive.policies.decision import GiveUpKind

DeadKind = Literal[
    GiveUpKind,
    "workflow",  # its own code failed
    "graph",  # its steps cannot reach a goal
    "compensated",  # a step failed, and what had succeeded was undone
]
"""Why a flow failed for good: how a step gave up, or what else went wrong."""


def ending_of(ask: EndAsk, history: FlowHistory) -> FlowCompleted | FlowFailed | FlowCancelled:
    if ask.how == "completed":
        return FlowCompleted(result=msgspec.Raw(ask.result.encode()))
    if ask.how == "cancelled":
        return FlowCancelled(why=ask.why)
    error = ask.error or RuntimeError("it failed")
    number = item_behind(error)
    item = history.items.get(number) if number is not None else None
    if item is None or item.gave_up is None:
        kind = ask.kind or ("poison" if isinstance(error, DeserializationError) else "workflow")
        return FlowFailed(error=store_error(error), kind=kind)
    return FlowFailed(error=store_error(error), kind=ask.kind or item.gave_up.kind, item=item.number)
