"""Graphs and steps in files: read, checked whole, and made known to this process."""

import os
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadFile, BadInput

if TYPE_CHECKING:
    from redrive.errors import NotationError
    from redrive.flows.graphs.builder import Graph
    from redrive.flows.graphs.spec import StepSpec

VARIABLE = "REDRIVE_ENV"
ENDINGS = (".yaml", ".yml", ".json")

GraphsOption = Annotated[
    list[str] | None,
    typer.Option("--graphs", metavar="PATH", help="A YAML or JSON file with a graph, or a folder of them; repeatable."),
]
EnvOption = Annotated[
    str, typer.Option("--env", metavar="NAME", help=f"The environment of the graphs; by default {VARIABLE}.")
]


def load_graphs(paths: Sequence[str], environment: str) -> None:
    """Register the graphs in these files and folders; BadFile with all that is wrong in all of them."""
    from redrive.errors import GraphError
    from redrive.flows.registry import register_graph

    problems: list[NotationError] = []
    files: dict[str, str] = {}
    for path in _files(paths):
        try:
            graph = _read(path, environment)
        except GraphError as error:
            problems += error.problems
            continue
        if graph.name in files:
            raise BadInput(f"two graphs are named {graph.name!r}: in {files[graph.name]} and in {path}")
        files[graph.name] = str(path)
        register_graph(graph)
    _tell(problems)


def read_graph_file(path: Path, environment: str) -> "Graph":
    """The graph in a file; BadFile with all that is wrong in it."""
    from redrive.errors import GraphError

    try:
        return _read(path, environment)
    except GraphError as error:
        raise BadFile(str(error)) from None


def _read(path: Path, environment: str) -> "Graph":
    from redrive.flows.graphs.reading import read_graph

    wanted = environment or os.environ.get(VARIABLE) or None
    return read_graph(read_text(path), str(path), environment=wanted, imports=True)


def check_actions(how: str = "MODULE") -> None:
    """BadInput for steps of a registered graph whose actions this process does not know; `how` to name a module."""
    from redrive.flows.graphs.spec import ActionHandler
    from redrive.flows.registry import registered_graphs

    for graph in registered_graphs():
        handlers = [spec.handler for spec in (*graph.steps, *graph.compensations)]
        refuse_unknown(f"graph {graph.name}", [one.action for one in handlers if isinstance(one, ActionHandler)], how)


def refuse_unknown(what: str, actions: Iterable[str], how: str) -> None:
    """BadInput when this process lacks one of the actions."""
    from redrive.flows.registry import known_actions, unknown_actions

    missing = unknown_actions(set(actions))
    if not missing:
        return
    close = [get_close_matches(name, known_actions(), n=1) for name in missing]
    hints = [f" (did you mean {one[0]!r}?)" if one else "" for one in close]
    names = ", ".join(f"{name!r}{hint}" for name, hint in zip(missing, hints, strict=True))
    said, them = ("no action is", "it") if len(missing) == 1 else ("no actions are", "them")
    raise BadInput(f"{what}: {said} named {names}; name the module that registers {them} too: {how}")


def read_steps(path: str) -> "list[StepSpec]":
    """The steps in a file: one with its `name`, or several under `steps`; BadFile with all that is wrong."""
    from redrive.errors import GraphError
    from redrive.flows.graphs.reading import LARGEST_GRAPH
    from redrive.flows.graphs.step_reading import read_step
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
    _tell(problems)
    return steps


def _tell(problems: "list[NotationError]") -> None:
    if problems:
        raise BadFile("\n".join(map(str, problems)))


def read_text(path: Path) -> str:
    """What is in the file, or so much of it that it is refused as too long."""
    from redrive.flows.graphs.reading import LARGEST_GRAPH

    try:
        with path.open(encoding="utf-8-sig") as opened:
            return opened.read(LARGEST_GRAPH + 1)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: byte {error.start + 1} is not UTF-8") from None


def _files(paths: Sequence[str]) -> Iterator[Path]:
    for name in paths:
        path = Path(name)
        if not path.is_dir():
            yield path
            continue
        found = sorted(one for one in path.iterdir() if one.suffix in ENDINGS)
        if not found:
            raise BadInput(f"{name}: no file in it ends with {', '.join(ENDINGS)}")
        yield from found
