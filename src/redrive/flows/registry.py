"""Registries of definitions by name: one for each kind, owned by the module that defines the kind."""

from typing import Any, Generic, TypeVar

from redrive.errors import UnknownDefinitionError
from redrive.near_names import did_you_mean

T = TypeVar("T")

ACTION = "action:"
WORKFLOW = "workflow:"
GRAPH = "graph:"
SCRIPT = "script:"
BY_GOALS = "goals"
"""The graph name of flows that were planned by goals over the step catalogue."""


class Registry(Generic[T]):
    """The definitions of one kind that this process can run, by name."""

    def __init__(self, prefix: str) -> None:
        """`prefix` is what the definition names of flows begin with, such as "action:"."""
        self.kind = prefix.removesuffix(":")
        self.by_name: dict[str, T] = {}
        _registries[prefix] = self

    def named(self, name: str) -> T:
        """The definition of that name; raises UnknownDefinitionError."""
        try:
            return self.by_name[name]
        except KeyError:
            hint = did_you_mean(name, self.by_name, f"known: {', '.join(sorted(self.by_name)) or 'none'}")
            raise UnknownDefinitionError(self.kind, name, hint) from None

    def add(self, name: str, definition: T) -> None:
        """Register a definition; another one of the same name is replaced."""
        self.by_name[name] = definition

    def add_python(self, name: str, definition: T, source: Any) -> None:
        """Register a definition written in Python; raises ValueError when other code has its name."""
        self.check_name_is_free(name, source)
        self.by_name[name] = definition

    def check_name_is_free(self, name: str, source: Any) -> None:
        """Raise ValueError unless `source`, a function or a class, may take the name."""
        if not name or not isinstance(name, str):
            raise ValueError(f"{name!r} is not a valid name for the {self.kind} {source!r}; use a non-empty string")
        old: Any = self.by_name.get(name)
        if old is None:
            return
        old = getattr(old, "function", old)
        origins = [f"{one.__module__}.{one.__qualname__}" for one in (old, source)]
        # The same origin again is a reload, and a function defines its inner functions anew each time it runs.
        is_reload = origins[0] == origins[1] or "<locals>" in origins[0]
        if not is_reload and not any("__main__" in origin for origin in origins):
            raise ValueError(
                f"two {self.kind}s are named {name!r}: {origins[0]} and {origins[1]}; give one of them another name: "
                f'@{self.kind}(name="...")'
            )


# A kind whose module was not loaded has no registry, and nothing registered.
_registries: dict[str, Registry[Any]] = {}
KINDS = (WORKFLOW, ACTION, GRAPH, SCRIPT)


def definition_named(kind: str, name: str) -> Any:
    """The registered definition of a kind, such as ACTION; raises UnknownDefinitionError."""
    return _registries[kind].named(name)


def known_definitions() -> tuple[str, ...]:
    """The definitions that a worker in this process can run, as flows name them."""
    known = [kind + name for kind in KINDS if kind in _registries for name in _registries[kind].by_name]
    return (*known, GRAPH + BY_GOALS)


def registered_counts() -> tuple[int, ...]:
    """How many workflows, actions, graphs and scripts are registered."""
    return tuple(len(_registries[kind].by_name) if kind in _registries else 0 for kind in KINDS)
