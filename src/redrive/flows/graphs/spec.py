"""A graph as data: its steps, their inputs and outputs, and their handlers.

This is the checked form, which a flow keeps for its whole life. notation/ reads the form that people write.
"""

from typing import Any, Literal

import msgspec

ValueType = Literal["any", "string", "number", "integer", "boolean", "object", "array"]
Role = Literal["required", "optional", "constant"]
Mode = Literal["sync", "async"]


class _Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    pass


class InputSpec(_Spec, frozen=True):
    """One input of a step."""

    type: ValueType = "any"
    """The type of the value; with `for_each`, of one element."""
    role: Role = "required"
    default: Any = None
    """The value of an optional input that nothing provides."""
    value: Any = None
    """The value of a constant."""
    source: str | None = None
    """The name of its value, where that differs from its own."""
    for_each: bool = False
    """The value is a list, and each element gets a work item."""


class ActionHandler(_Spec, frozen=True, tag="action", tag_field="type"):
    """A Python function that is registered with `@action`."""

    action: str


class HttpHandler(_Spec, frozen=True, tag="http", tag_field="type"):
    """An HTTP endpoint."""

    endpoint: str
    mode: Mode = "sync"
    """async: the response only accepts the attempt, and its outcome is reported later by a callback."""
    statuses: dict[str, Literal["transient", "permanent", "unknown"]] = {}
    """HTTP statuses whose meaning differs from the default."""
    conflict_is_lock: bool = False
    """409 is an optimistic-lock conflict: the handler rereads its state on the next attempt."""


Handler = ActionHandler | HttpHandler


class StepSpec(_Spec, frozen=True):
    name: str
    handler: Handler
    policy: msgspec.Raw
    """The retry policy in redrive's own notation, including the attempt timeout and `idempotent`."""
    inputs: dict[str, InputSpec] = {}
    outputs: dict[str, ValueType] = {}
    """The types of its outputs. With `for_each`, of one element: the step provides lists in the order of its input."""
    depends_on: tuple[str, ...] = ()
    when: str = ""
    """A condition over its inputs; the step is skipped when it is false."""
    parallelism: int | None = None
    """How many of its work items may run at the same time; None is unlimited."""
    dependency: str | None = None
    """What the step talks to; circuits, budgets and rate limits are kept per dependency."""
    compensate: str | None = None
    """The step that compensates it."""


class Plan(_Spec, frozen=True):
    """What a flow runs: the steps its goals need, each after those it depends on, and their compensations."""

    graph: str
    """The name of the graph; empty when the steps come from the catalogue."""
    goals: tuple[str, ...]
    steps: tuple[StepSpec, ...]
    compensations: tuple[StepSpec, ...] = ()


class GraphInput(_Spec, frozen=True):
    """The stored input of a graph's flow."""

    plan: Plan
    inputs: dict[str, Any] = {}
    asked: tuple[str, ...] | None = None
    """The goals named at the start; empty for the graph's own goals, None when unknown."""
