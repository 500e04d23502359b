"""Read graphs, steps and scripts from files, and register them."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redrive.cli.bad_input import BadFile, BadInput
from redrive.errors import NotationError
from redrive.near_names import near_name

if TYPE_CHECKING:
    from redrive.flows.graphs.graph import Graph
    from redrive.flows.graphs.spec import StepSpec
    from redrive.flows.scripts.script import Script

VARIABLE = "REDRIVE_ENV"
GRAPH_ENDINGS = (".yaml", ".yml", ".json")
SCRIPT_ENDING = ".rd"

GraphsOption = Annotated[
    list[str] | None,
    typer.Option("--graphs", metavar="PATH", help="A YAML or JSON file with a graph, or a folder of them; repeatable."),
]
EnvOption = Annotated[
    str, typer.Option("--env", metavar="NAME", help=f"The environment of the graphs; default: ${VARIABLE}.")
]


def load_graphs(paths: Sequence[str], environment: str) -> None:
    """Register the graphs in these files and folders; BadFile with the problems of all of them."""
    from redrive.flows.graphs.graph import register_graph

    _load(_files(paths), lambda path: read_graph_file(path, environment), register_graph, "graphs")


def load_scripts(paths: Sequence[str]) -> None:
    """Register the scripts in these files; BadFile with the problems of all files."""
    from redrive.flows.scripts.script import register_script

    _load(map(Path, paths), read_script_file, register_script, "scripts")


def _load(paths: Iterable[Path], read: Callable[[Path], Any], register: Callable[[Any], None], what: str) -> None:
    problems: list[str] = []
    files: dict[str, Path] = {}
    for path in paths:
        try:
            found = read(path)
        except BadFile as error:
            problems.append(str(error))
            continue
        if found.name in files:
            raise BadInput(f"two {what} are named {found.name!r}: in {files[found.name]} and in {path}")
        files[found.name] = path
        register(found)
    _raise_all(problems)


def read_graph_file(path: Path, environment: str) -> "Graph":
    """Return the graph in a file; BadFile with all its problems."""
    from redrive.errors import GraphError
    from redrive.flows.graphs.notation.graph_reading import read_graph

    wanted = environment or os.environ.get(VARIABLE) or None
    try:
        return read_graph(read_text(path), str(path), environment=wanted, imports=True)
    except GraphError as error:
        raise BadFile("\n".join(map(str, error.problems))) from None


def read_script_file(path: Path) -> "Script":
    """Return the script in a file, named after the file; BadFile with all its problems."""
    from redrive.errors import ScriptError
    from redrive.flows.scripts.script import Script

    try:
        return Script(path.stem, read_text(path), str(path))
    except ScriptError as error:
        raise BadFile(str(error)) from None


def read_steps(path: str) -> "list[StepSpec]":
    """Return the steps in a file: one with its `name`, or several under `steps`; BadFile with all problems."""
    from redrive.errors import GraphError
    from redrive.flows.graphs.notation.graph_reading import LARGEST_GRAPH
    from redrive.flows.graphs.notation.step_reading import read_step
    from redrive.notation.source import load_document

    document = load_document(read_text(Path(path)), path, longest=LARGEST_GRAPH, what="a step")
    data, place = document.data, document.place
    if not isinstance(data, dict) or not isinstance(data.get("steps"), dict):
        given = [(data, place)]
    else:
        given = [
            ({**step, "name": name} if isinstance(step, dict) else step, place.at("steps", name))
            for name, step in data["steps"].items()
        ]
    problems: list[NotationError] = []
    steps = []
    for one, where in given:
        try:
            steps.append(read_step(one, where))
        except GraphError as error:
            problems += error.problems
    _raise_all(problems)
    return steps


def read_text(path: Path) -> str:
    """Return the text of a file, cut off at a length that its reader refuses as too long."""
    from redrive.flows.graphs.notation.graph_reading import LARGEST_GRAPH

    try:
        with path.open(encoding="utf-8-sig") as opened:
            return opened.read(LARGEST_GRAPH + 1)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: byte {error.start + 1} is not valid UTF-8") from None


def check_actions(how: str = "MODULE") -> None:
    """Raise BadInput if a registered graph has steps whose actions are not registered."""
    from redrive.flows.graphs.graph import registered_graphs
    from redrive.flows.graphs.spec import ActionHandler

    for graph in registered_graphs():
        handlers = [spec.handler for spec in (*graph.steps, *graph.compensations)]
        _require_actions(f"graph {graph.name}", [one.action for one in handlers if isinstance(one, ActionHandler)], how)


def check_script_actions(script: Any, how: str) -> None:
    """Raise BadInput if a script calls actions that are not registered here. `how`: the option that names a module."""
    from redrive.flows.scripts.interpreter import program_of
    from redrive.flows.scripts.script import Script

    if isinstance(script, Script):
        _require_actions(f"script {script.name}", program_of(script.text, script.name).actions, how)


def check_registered_scripts() -> None:
    """Raise BadInput if a registered script calls an action that is not registered, and BadFile for other errors."""
    from redrive.flows.action import known_actions
    from redrive.flows.scripts.checking import check
    from redrive.flows.scripts.script import registered_scripts

    for script in registered_scripts():
        check_script_actions(script, "MODULE")
    # The same check as that of `redrive script check`, with the same words.
    problems = [one for script in registered_scripts() for one in check(script.parsed, known_actions())]
    _raise_all(one for one in problems if one.severity == "error")


def _require_actions(what: str, actions: Iterable[str], how: str) -> None:
    """Raise BadInput if one of the actions is not registered. how: how to name the module that registers it."""
    from redrive.flows.action import known_actions, unknown_actions

    missing = unknown_actions(set(actions))
    if not missing:
        return
    close = [near_name(name, known_actions()) for name in missing]
    hints = [f" (did you mean {one!r}?)" if one else "" for one in close]
    names = ", ".join(f"{name!r}{hint}" for name, hint in zip(missing, hints, strict=True))
    noun, them = ("action", "it") if len(missing) == 1 else ("actions", "them")
    raise BadInput(f"{what}: unknown {noun} {names}; also name the module that registers {them}: {how}")


def _raise_all(problems: Iterable[object]) -> None:
    if text := "\n".join(map(str, problems)):
        raise BadFile(text)


def _files(paths: Sequence[str]) -> Iterator[Path]:
    for name in paths:
        path = Path(name)
        if not path.is_dir():
            yield path
            continue
        found = sorted(one for one in path.iterdir() if one.suffix in GRAPH_ENDINGS)
        if not found:
            raise BadInput(f"{name}: the folder has no file that ends with {', '.join(GRAPH_ENDINGS)}")
        yield from found
