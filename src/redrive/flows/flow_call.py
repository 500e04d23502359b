"""`FlowCall`: a definition with its input, ready to be started."""

from typing import Any, Generic, Literal, TypeVar

T_co = TypeVar("T_co", covariant=True)

DefinitionKind = Literal["workflow", "graph", "script", "pipeline"]


class FlowCall(Generic[T_co]):
    """A definition with its input: `await app.start(Checkout.call(order), key="order-17")`.

    Workflows, graphs, scripts and pipelines make one with `call(...)`. `T_co` is the type of the flow's result.
    """

    __slots__ = ("definition", "given", "kind", "options")

    def __init__(self, kind: DefinitionKind, definition: Any, given: Any, **options: Any) -> None:
        self.kind: DefinitionKind = kind
        self.definition = definition
        self.given = given
        """The arguments or inputs."""
        self.options = options
        """What else the kind of definition takes: the goals of a graph, the function of a script."""

    def __repr__(self) -> str:
        name = getattr(self.definition, "workflow_name", None) or getattr(self.definition, "name", self.definition)
        return f"<call of {self.kind} {name}>"
