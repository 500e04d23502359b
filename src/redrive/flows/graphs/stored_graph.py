"""Read the stored input of a graph's flow: its plan, and the inputs that it was started with."""

import msgspec

from redrive.errors import DeserializationError
from redrive.flows.graphs.spec import ActionHandler, GraphInput, Plan

_MOST_PLANS = 100
# Many flows share few plans.
_plans: dict[bytes, Plan] = {}


class _StoredInput(msgspec.Struct):
    plan: msgspec.Raw
    inputs: dict[str, object] = {}


def read_graph_input(text: str) -> GraphInput:
    """The plan and the inputs; raises DeserializationError."""
    try:
        stored = msgspec.json.decode(text, type=_StoredInput)
        raw = bytes(stored.plan)
        plan = _plans.get(raw)
        if plan is None:
            if len(_plans) >= _MOST_PLANS:
                _plans.clear()
            plan = _plans[raw] = msgspec.json.decode(raw, type=Plan)
    except msgspec.MsgspecError as error:
        raise DeserializationError(f"the graph of this flow cannot be read by this version: {error}") from None
    return GraphInput(plan=plan, inputs=stored.inputs)


def plan_actions(plan: Plan) -> frozenset[str]:
    """The actions of its steps and of their compensations."""
    handlers = [spec.handler for spec in (*plan.steps, *plan.compensations)]
    return frozenset(handler.action for handler in handlers if isinstance(handler, ActionHandler))
