"""A graph as data: steps, what they need, what they give, and how each is carried out.

This is the checked form, which a flow keeps for as long as it lives; how people write it is read elsewhere.
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
    """With `for_each`: that of one element."""
    role: Role = "required"
    default: Any = None
    """Of an optional input: what it is when nothing provides it."""
    value: Any = None
    """Of a constant."""
    source: str | None = None
    """The name of the value it takes, where that is not its own."""
    for_each: bool = False
    """The value is a list, and there is one work item for each element."""


class ActionHandler(_Spec, frozen=True, tag="action", tag_field="type"):
    """Carried out by a Python function that is registered with `@action`."""

    action: str


class HttpHandler(_Spec, frozen=True, tag="http", tag_field="type"):
    """Carried out by whoever answers at the endpoint."""

    endpoint: str
    mode: Mode = "sync"
    """async: the answer only accepts the work, and its outcome comes later, by webhook."""
    statuses: dict[str, Literal["transient", "permanent", "unknown"]] = {}
    """HTTP status -> what it means, where that differs from the common table."""
    conflict_is_lock: bool = False
    """409 is an optimistic-lock conflict, and the handler reads its state again before it tries."""


Handler = ActionHandler | HttpHandler


class StepSpec(_Spec, frozen=True):
    name: str
    handler: Handler
    policy: msgspec.Raw
    """The retry policy in redrive's own notation; the timeout of an attempt and `idempotent` are part of it."""
    inputs: dict[str, InputSpec] = {}
    outputs: dict[str, ValueType] = {}
    """Of a step with `for_each`: the type of one element; what the step gives is a list, in the order of its input."""
    depends_on: tuple[str, ...] = ()
    when: str = ""
    """A condition over its inputs; where it is false the step is skipped."""
    parallelism: int | None = None
    """How many of its work items run at once; None: any number."""
    dependency: str | None = None
    """What it talks to: circuits are kept for each."""
    compensate: str | None = None
    """The step that undoes it."""


class Plan(_Spec, frozen=True):
    """What a flow carries out: the steps its goals need, each after those it depends on, and the steps that undo."""

    graph: str
    """The name of the graph; empty where steps of the catalogue were planned by goals."""
    goals: tuple[str, ...]
    steps: tuple[StepSpec, ...]
    compensations: tuple[StepSpec, ...] = ()


class GraphInput(_Spec, frozen=True):
    """What a flow of a graph is started with."""

    plan: Plan
    inputs: dict[str, Any] = {}
    asked: tuple[str, ...] | None = None
    """The goals that were named as it was started; empty where the graph's own were meant, None where that was not
    kept."""
