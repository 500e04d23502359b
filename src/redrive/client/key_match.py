"""Decides whether a flow that has the same key was started with the same definition and arguments."""

import msgspec

from redrive.errors import DeserializationError, UnknownDefinitionError
from redrive.flows.action import action_named
from redrive.flows.job import read_job
from redrive.flows.registry import ACTION, GRAPH, SCRIPT, WORKFLOW
from redrive.flows.stored_policy import write_stored_policy
from redrive.flows.workflows.workflow import workflow_named
from redrive.stores.records import FlowRecord, NewFlow


class _Plan(msgspec.Struct):
    goals: msgspec.Raw = msgspec.Raw(b"[]")


class _AskedFor(msgspec.Struct):
    """The part of a stored script or graph input that the caller gave."""

    plan: _Plan = msgspec.field(default_factory=_Plan)
    function: str = ""
    inputs: msgspec.Raw = msgspec.Raw(b"{}")
    asked: tuple[str, ...] | None = None


_READ_ASKED = msgspec.json.Decoder(_AskedFor)


def is_same_start(flow: NewFlow, known: FlowRecord) -> bool:
    """Whether the definition and the arguments are the same, although the stored inputs differ.

    The text of a script, the steps of a graph and the order of a set may have changed since `known` was started.
    """
    if not flow.definition.startswith((SCRIPT, GRAPH)):
        return _has_the_same_arguments(flow, known)
    # Inputs are encoded in a fixed order, so equal ones have equal bytes: 1 is neither 1.0 nor true.
    try:
        one, other = _READ_ASKED.decode(flow.input), _READ_ASKED.decode(known.input)
    except msgspec.MsgspecError:
        return False
    if (one.function, bytes(one.inputs)) != (other.function, bytes(other.inputs)):
        return False
    if one.asked is not None and one.asked == other.asked:
        # The graph's default goals may have changed with its steps.
        return True
    return bytes(one.plan.goals) == bytes(other.plan.goals)


def _has_the_same_arguments(flow: NewFlow, known: FlowRecord) -> bool:
    try:
        if flow.definition.startswith(WORKFLOW):
            signature = workflow_named(flow.definition.removeprefix(WORKFLOW)).signature
            return signature.are_equivalent(known.input, flow.input)
        now, then = read_job(flow.input), read_job(known.input)
        action = action_named(flow.definition.removeprefix(ACTION))
    except (UnknownDefinitionError, DeserializationError):
        return False
    # The caller did not choose the action's own policy, which may change with the code.
    own = bytes(write_stored_policy(action.policy))
    same_policy = bytes(now.policy) in (own, bytes(then.policy))
    return same_policy and action.signature.are_equivalent(bytes(then.args).decode(), bytes(now.args).decode())
