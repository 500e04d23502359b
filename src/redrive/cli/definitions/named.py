"""Find the definitions that the command line names: MODULE, MODULE:WORKFLOW, and files with graphs or scripts."""

import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from redrive.cli.bad_input import BadFile, BadInput
from redrive.cli.definitions.files import (
    GRAPH_ENDINGS,
    SCRIPT_ENDING,
    load_graphs,
    load_scripts,
    read_graph_file,
    read_script_file,
)
from redrive.cli.definitions.modules import import_module
from redrive.near_names import near_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redrive.client.app import App
    from redrive.client.handle import Handle
    from redrive.client.schedule_views import ScheduleView
    from redrive.flows.action import Action
    from redrive.flows.graphs.graph import Graph
    from redrive.flows.scripts.script import Script
    from redrive.flows.workflows.workflow import Workflow


Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""


class Definition(NamedTuple):
    """A workflow, an action, a graph or a script, with the name that messages give it."""

    what: "type[Workflow] | Action[Any, Any] | Graph | Script"
    name: str
    function: str | None = None
    """For a script: the function to run; None for `main`, or the only one."""

    def with_function(self, name: str) -> "Definition":
        """Select a function of a script; BadInput if the definition is no script or has no such function."""
        from redrive.flows.scripts.script import Script

        if not name:
            return self
        if not isinstance(self.what, Script):
            raise BadInput(f"--function is only for scripts, and {self.name} is not a script; leave it out")
        try:
            self.what.function(name)
        except ValueError as error:
            raise BadInput(f"--function: {error}") from None
        return self._replace(function=name)

    async def start(self, app: "App", arguments: Call, **settings: Any) -> "Handle[Any]":
        """Start a flow of the definition; BadInput if arguments or settings are refused."""
        with _refusals_as_bad_input():
            return await app.start(self._call(arguments), **settings)

    async def schedule(self, app: "App", name: str, arguments: Call, **settings: Any) -> "ScheduleView":
        """Start flows of the definition by a schedule; BadInput if arguments or settings are refused."""
        with _refusals_as_bad_input():
            return await app.schedule(name, self._call(arguments), **settings)

    def call(self, arguments: Call) -> Any:
        """Return the call of the definition; BadInput if arguments are refused."""
        with _refusals_as_bad_input():
            call = self._call(arguments)
        # Read here, so that one which is not started, because others are refused, does not count as forgotten.
        _ = getattr(call, "action", None)
        return call

    def _call(self, arguments: Call) -> Any:
        from redrive.flows.graphs.graph import Graph
        from redrive.flows.scripts.script import Script

        args, kwargs = arguments
        if isinstance(self.what, Graph):
            return self.what.call(kwargs)
        if isinstance(self.what, Script):
            return self.what.call(kwargs, function=self.function)
        return self.what.call(*args, **kwargs) if isinstance(self.what, type) else self.what(*args, **kwargs)


@contextmanager
def _refusals_as_bad_input() -> "Iterator[None]":
    from redrive.errors import ScriptError

    try:
        yield
    except ScriptError as error:
        raise BadFile(str(error)) from None
    except (ValueError, TypeError) as error:
        raise BadInput("; ".join(str(error).splitlines())) from error


def load(modules: Sequence[str], environment: str = "") -> None:
    """Register the definitions of modules, of files and folders with graphs, and of files with scripts."""
    from redrive.flows.registry import registered_counts

    graphs = [one for one in modules if one.endswith(GRAPH_ENDINGS) or Path(one).is_dir()]
    scripts = [one for one in modules if one.endswith(SCRIPT_ENDING)]
    for module in modules:
        if module not in graphs and module not in scripts:
            import_module(module)
    load_graphs(graphs, environment)
    load_scripts(scripts)
    if not any(registered_counts()):
        raise BadInput(f"{' '.join(modules)}: no @workflow or @action is defined there")


def find(target: str, imports: Sequence[str] | None = None, environment: str = "") -> Definition:
    """Return the definition of MODULE:NAME, or of a file with a graph or a script.

    With imports, also of a NAME that one of these modules registers.
    """
    from redrive.flows.graphs.graph import register_graph
    from redrive.flows.registry import ACTION, BY_GOALS, GRAPH, SCRIPT, WORKFLOW, known_definitions

    for name in imports or ():
        import_module(name)
    if target.endswith(GRAPH_ENDINGS):
        graph = read_graph_file(Path(target), environment)
        register_graph(graph)
        return Definition(graph, graph.name)
    if target.endswith(SCRIPT_ENDING):
        script = read_script_file(Path(target))
        return Definition(script, script.name)
    module_name, separator, name = target.rpartition(":")
    module = import_module(module_name) if separator else None
    if module is None and not imports:
        instead = "" if imports is None else ", or name the module that registers it: --import MODULE"
        raise BadInput(f"{target}: write MODULE:NAME{instead}")
    found: Any = getattr(module, name, None) if module else None
    if _is_definition(found):
        return Definition(_startable(found), name)
    known = known_definitions()
    for kind in (WORKFLOW, ACTION, GRAPH, SCRIPT):
        if kind + name in known:
            return Definition(_registered(kind, name), name)
    names = sorted({one.partition(":")[2] for one in known if one != GRAPH + BY_GOALS} | _definitions_in(module))
    close = near_name(name, names)
    hint = f"did you mean {close}?" if close else f"known: {', '.join(names) or 'none'}"
    where = f"{module_name}: " if separator else ""
    problem = f"there is no definition named {name!r}" if found is None else f"{name!r} is not a definition"
    raise BadInput(f"{where}{problem}; {hint}")


def _registered(kind: str, name: str) -> Any:
    from redrive.flows.registry import definition_named

    return definition_named(kind, name)


def _is_definition(found: Any) -> bool:
    from redrive.flows.action import Action
    from redrive.flows.workflows.workflow import Workflow

    if isinstance(found, type):
        return issubclass(found, Workflow) and hasattr(found, "workflow_name")
    return isinstance(found, Action) or any(isinstance(found, kind) for kind in _loaded_kinds())


def _loaded_kinds() -> list[type]:
    """Return Graph, Script and Pipeline, if their modules are loaded: loading them takes time."""
    kinds = {"flows.graphs.graph": "Graph", "flows.scripts.script": "Script", "pipeline.pipeline": "Pipeline"}
    loaded = [(sys.modules.get(f"redrive.{name}"), kind) for name, kind in kinds.items()]
    return [getattr(module, kind) for module, kind in loaded if module is not None]


def _startable(found: Any) -> Any:
    """Register a graph, and turn a pipeline into a registered graph."""
    from redrive.flows.graphs.graph import Graph, register_graph

    if isinstance(found, Graph):
        register_graph(found)
    elif type(found).__module__.startswith("redrive.pipeline."):
        from redrive.errors import PipelineError
        from redrive.pipeline.durable import registered_graph

        try:
            return registered_graph(found)
        except PipelineError as error:
            raise BadInput(str(error)) from None
    return found


def _definitions_in(module: ModuleType | None) -> set[str]:
    return {name for name, value in vars(module).items() if _is_definition(value)} if module else set()
