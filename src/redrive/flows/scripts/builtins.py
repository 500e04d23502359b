"""The functions that every script has: those of expressions, and those that ask the flow. All repeat on replay."""

from typing import Any

from redrive.determinism.ids import UUID
from redrive.expressions.functions import FUNCTIONS, Function, function_of
from redrive.expressions.limits import Scope
from redrive.flows.workflows.loop import FlowLoop, running_flow_loop


def now(scope: Scope) -> Any:
    """The time of the flow, in seconds since 1970."""
    return flow_loop().now


def random(scope: Scope) -> Any:
    """A random number from 0 to below 1."""
    return flow_loop().random.random()


def uuid(scope: Scope) -> Any:
    """A new UUID."""
    scope.budget.step(3)
    return str(UUID(int=flow_loop().random.getrandbits(128), version=4))


def flow_id(scope: Scope) -> Any:
    """The id of the flow."""
    return flow_loop().flow_id


BUILTINS: dict[str, Function] = {
    **FUNCTIONS,
    **{run.__name__: function_of(run) for run in (now, random, uuid, flow_id)},
}


def flow_loop() -> FlowLoop:
    loop = running_flow_loop()
    assert loop is not None  # noqa: S101 - scripts run nowhere else
    return loop
