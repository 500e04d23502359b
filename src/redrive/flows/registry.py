"""Which actions, workflows, graphs and scripts this process knows, by name."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from redrive.errors import UnknownDefinitionError

if TYPE_CHECKING:
    from redrive.flows.action import Action
    from redrive.flows.graphs.builder import Graph
    from redrive.flows.scripts.script import Script
    from redrive.flows.workflow import Workflow

ACTION = "action:"
WORKFLOW = "workflow:"
GRAPH = "graph:"
SCRIPT = "script:"
BY_GOALS = "goals"
"""The name of the graph of a flow that was planned by goals, over the steps of the catalogue."""


_actions: "dict[str, Action[Any, Any]]" = {}
_workflows: "dict[str, type[Workflow]]" = {}
_graphs: "dict[str, Graph]" = {}
_scripts: "dict[str, Script]" = {}


def check_name_is_free(definition: "Action[Any, Any]") -> None:
    """ValueError when another action has its name."""
    _check("action", definition.name, definition.function, _actions.get(definition.name))


def register(definition: "Action[Any, Any]") -> None:
    check_name_is_free(definition)
    _actions[definition.name] = definition


def register_workflow(name: str, workflow: "type[Workflow]") -> None:
    _check("workflow", name, workflow, _workflows.get(name))
    _workflows[name] = workflow


def register_graph(graph: "Graph") -> None:
    """A graph of the same name takes its place: flows keep the one that they were started with."""
    _graphs[graph.name] = graph


def register_script(script: "Script") -> None:
    """A script of the same name takes its place: flows keep the text that they were started with."""
    _scripts[script.name] = script


def _check(kind: str, name: str, new: Any, old: Any) -> None:
    if not name or not isinstance(name, str):
        raise ValueError(f"an {kind} needs a name, and {name!r} is none")
    if old is None:
        return
    old = getattr(old, "function", old)
    places = [f"{one.__module__}.{one.__qualname__}" for one in (old, new)]
    # The same place again is a reload; what a function defines is made anew each time it runs.
    if places[0] != places[1] and "<locals>" not in places[0] and not any("__main__" in place for place in places):
        raise ValueError(
            f"two {kind}s are named {name!r}: {places[0]} and {places[1]}; give one of them another: "
            f'@{kind}(name="...")'
        )


def _unknown(kind: str, name: str, known: Iterable[str]) -> UnknownDefinitionError:
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"
    return UnknownDefinitionError(kind, name, hint)


def action_named(name: str) -> "Action[Any, Any]":
    try:
        return _actions[name]
    except KeyError:
        raise _unknown("action", name, _actions) from None


def unknown_actions(names: Iterable[str]) -> list[str]:
    """Those of the actions that this process does not know."""
    return sorted(name for name in names if name not in _actions)


def workflow_named(name: str) -> "type[Workflow]":
    try:
        return _workflows[name]
    except KeyError:
        raise _unknown("workflow", name, _workflows) from None


def graph_named(name: str) -> "Graph":
    try:
        return _graphs[name]
    except KeyError:
        raise _unknown("graph", name, _graphs) from None


def script_named(name: str) -> "Script":
    try:
        return _scripts[name]
    except KeyError:
        raise _unknown("script", name, _scripts) from None


def known_actions() -> "dict[str, Action[Any, Any]]":
    return dict(_actions)


def registered_graphs() -> "tuple[Graph, ...]":
    return tuple(_graphs.values())


def registered_scripts() -> "tuple[Script, ...]":
    return tuple(_scripts.values())


def known_definitions() -> tuple[str, ...]:
    """What a worker of this process can carry out, as flows name it."""
    return (
        *(WORKFLOW + name for name in _workflows),
        *(ACTION + name for name in _actions),
        *(GRAPH + name for name in (*_graphs, BY_GOALS)),
        *(SCRIPT + name for name in _scripts),
    )


def registered() -> tuple[int, ...]:
    """Changes when something is registered."""
    return len(_workflows), len(_actions), len(_graphs), len(_scripts)
