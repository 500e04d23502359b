"""From the command line to what flows run: MODULE, MODULE:WORKFLOW, and files with graphs or scripts."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from redrive.cli.bad_input import BadFile, BadInput
from redrive.cli.graph_files import ENDINGS, load_graphs, read_graph_file
from redrive.cli.script_files import ENDING as SCRIPT_ENDING
from redrive.cli.script_files import load_scripts, read_script_file
from redrive.failures.redaction import redact

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.client.handle import Handle
    from redrive.flows.action import Action
    from redrive.flows.graphs.builder import Graph
    from redrive.flows.scripts.script import Script
    from redrive.flows.workflow import Workflow


Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments by position and by name."""


class Definition(NamedTuple):
    """A workflow, an action, a graph or a script, and what it is called in messages."""

    what: "type[Workflow] | Action[Any, Any] | Graph | Script"
    name: str
    function: str | None = None
    """Of a script: which of its functions; by default `main`, or the only one."""

    def of_function(self, name: str) -> "Definition":
        """The same with another function, where one is named; BadInput for what has none of that name."""
        from redrive.flows.scripts.script import Script

        if not name:
            return self
        if not isinstance(self.what, Script):
            raise BadInput(f"--function is for scripts, and {self.name} is none; leave it out")
        try:
            self.what.function(name)
        except ValueError as error:
            raise BadInput(f"--function: {error}") from None
        return self._replace(function=name)

    async def start(self, app: "App", given: Call, **settings: Any) -> "Handle[Any]":
        """Start it with the arguments and settings; BadInput when these are refused."""
        from redrive.errors import ScriptError
        from redrive.flows.graphs.builder import Graph
        from redrive.flows.scripts.script import Script

        args, kwargs = given
        try:
            if isinstance(self.what, Graph):
                return await app.start(self.what.call(kwargs), **settings)
            if isinstance(self.what, Script):
                return await app.start(self.what.call(kwargs, function=self.function), **settings)
            if isinstance(self.what, type):
                return await app.start(self.what.call(*args, **kwargs), **settings)
            return await app.start(self.what(*args, **kwargs), **settings)
        except ScriptError as error:
            raise BadFile(str(error)) from None
        except (ValueError, TypeError) as error:
            raise BadInput("; ".join(str(error).splitlines())) from error


def load(modules: Sequence[str], environment: str = "") -> None:
    """Import what the worker is to know: modules, files and folders with graphs, and files with scripts."""
    from redrive.flows.registry import registered

    graphs = [one for one in modules if one.endswith(ENDINGS) or Path(one).is_dir()]
    scripts = [one for one in modules if one.endswith(SCRIPT_ENDING)]
    for module in modules:
        if module not in graphs and module not in scripts:
            _module(module)
    load_graphs(graphs, environment)
    load_scripts(scripts)
    if not any(registered()):
        raise BadInput(f"{' '.join(modules)}: no @workflow and no @action in it")


def find(target: str, imports: Sequence[str] | None = None, environment: str = "") -> Definition:
    """The definition that MODULE:NAME, or a file with a graph or a script, stands for.

    With imports, also a NAME that one of these modules registers.
    """
    from redrive.flows.registry import ACTION, BY_GOALS, GRAPH, SCRIPT, WORKFLOW, known_definitions, register_graph

    for name in imports or ():
        _module(name)
    if target.endswith(ENDINGS):
        graph = read_graph_file(Path(target), environment)
        register_graph(graph)
        return Definition(graph, graph.name)
    if target.endswith(SCRIPT_ENDING):
        script = read_script_file(Path(target))
        return Definition(script, script.name)
    place, separator, name = target.rpartition(":")
    module = _module(place) if separator else None
    if module is None and not imports:
        instead = "" if imports is None else ", or name the module that registers it: --import MODULE"
        raise BadInput(f"{target}: write MODULE:NAME{instead}")
    found: Any = getattr(module, name, None) if module else None
    if _is_definition(found):
        return Definition(_as_started(found), name)
    known = known_definitions()
    for kind in (WORKFLOW, ACTION, GRAPH, SCRIPT):
        if kind + name in known:
            return Definition(_registered(kind, name), name)
    names = sorted({one.partition(":")[2] for one in known if one != GRAPH + BY_GOALS} | _definitions_in(module))
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(names) or 'none'}"
    where = f"{place}: " if separator else ""
    said = f"nothing that can be run is named {name!r}" if found is None else f"{name!r} is nothing that can be run"
    raise BadInput(f"{where}{said}; {hint}")


def _registered(kind: str, name: str) -> Any:
    from redrive.flows import registry

    find_one: Any = {
        registry.WORKFLOW: registry.workflow_named,
        registry.ACTION: registry.action_named,
        registry.GRAPH: registry.graph_named,
        registry.SCRIPT: registry.script_named,
    }[kind]
    return find_one(name)


def _is_definition(found: Any) -> bool:
    from redrive.flows.action import Action
    from redrive.flows.workflow import Workflow

    if isinstance(found, type):
        return issubclass(found, Workflow) and hasattr(found, "workflow_name")
    return isinstance(found, Action) or any(isinstance(found, kind) for kind in _loaded_kinds())


def _loaded_kinds() -> list[type]:
    """Graph, Script and Pipeline: as far as someone uses them, for they take their time to load."""
    places = {"flows.graphs.builder": "Graph", "flows.scripts.script": "Script", "pipeline.pipeline": "Pipeline"}
    loaded = [(sys.modules.get(f"redrive.{place}"), kind) for place, kind in places.items()]
    return [getattr(module, kind) for module, kind in loaded if module is not None]


def _as_started(found: Any) -> Any:
    """The definition as flows are started of it: a graph that is known to this process, in place of a pipeline."""
    from redrive.flows.graphs.builder import Graph
    from redrive.flows.registry import register_graph

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


def _module(name: str) -> ModuleType:
    """A dotted module, or a path to a .py file. The current folder is on the path, as with `python -m`."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        raise BadInput("the current folder was deleted; change to one that exists") from None
    if folder not in sys.path:
        sys.path.insert(0, folder)
    path = Path(name)
    if name.endswith(".py") or os.sep in name:
        name = _from_file(path)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise BadInput(f"no module is named {name!r}; write a dotted name or a path to a .py file") from None
        raise BadInput(f"{name} cannot be imported: {_said(error)}{_line(error)}") from error
    except (Exception, SystemExit) as error:
        # A SyntaxError says itself where it is.
        line = "" if isinstance(error, SyntaxError) else _line(error)
        raise BadInput(f"{name} cannot be imported: {_said(error)}{line}") from error


def _from_file(path: Path) -> str:
    """The name under which the file is imported; its folder is put on the path."""
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file")
    if not path.stem.isidentifier():
        raise BadInput(f"{path}: {path.stem!r} cannot be the name of a module; rename the file")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    loaded = sys.modules.get(path.stem)
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(path.stem)
    origin = spec.origin if spec else None
    if origin is None or not os.path.exists(origin) or not os.path.samefile(origin, path):
        raise BadInput(f"{path}: another module is named {path.stem!r} ({origin}); rename the file")
    return path.stem


def _said(error: BaseException) -> str:
    return redact(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, 300)


def _line(error: BaseException) -> str:
    """Where in the user's own files it was raised."""
    trace = error.__traceback__
    place = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if not file.startswith("<") and module.split(".")[0] not in ("redrive", "importlib"):
            place = f" ({os.path.basename(file)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place
