"""Read graphs and steps from files, and register them."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.action_check import require_actions
from redrive.cli.bad_input import BadFile, BadInput
from redrive.cli.source_files import read_text
from redrive.errors import NotationError

if TYPE_CHECKING:
    from redrive.flows.graphs.graph import Graph
    from redrive.flows.graphs.spec import StepSpec

VARIABLE = "REDRIVE_ENV"
ENDINGS = (".yaml", ".yml", ".json")

GraphsOption = Annotated[
    list[str] | None,
    typer.Option("--graphs", metavar="PATH", help="A YAML or JSON file with a graph, or a folder of them; repeatable."),
]
EnvOption = Annotated[
    str, typer.Option("--env", metavar="NAME", help=f"The environment of the graphs; default: ${VARIABLE}.")
]


def load_graphs(paths: Sequence[str], environment: str) -> None:
    """Register the graphs in these files and folders; BadFile with the problems of all of them."""
    from redrive.errors import GraphError
    from redrive.flows.graphs.graph import register_graph

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
    _raise_all(problems)


def read_graph_file(path: Path, environment: str) -> "Graph":
    """Return the graph in a file; BadFile with all its problems."""
    from redrive.errors import GraphError

    try:
        return _read(path, environment)
    except GraphError as error:
        raise BadFile(str(error)) from None


def _read(path: Path, environment: str) -> "Graph":
    from redrive.flows.graphs.notation.graph_reading import read_graph

    wanted = environment or os.environ.get(VARIABLE) or None
    return read_graph(read_text(path), str(path), environment=wanted, imports=True)


def check_actions(how: str = "MODULE") -> None:
    """Raise BadInput if a registered graph has steps whose actions are not registered."""
    from redrive.flows.graphs.graph import registered_graphs
    from redrive.flows.graphs.spec import ActionHandler

    for graph in registered_graphs():
        handlers = [spec.handler for spec in (*graph.steps, *graph.compensations)]
        require_actions(f"graph {graph.name}", [one.action for one in handlers if isinstance(one, ActionHandler)], how)


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


def _raise_all(problems: "list[NotationError]") -> None:
    if problems:
        raise BadFile("\n".join(map(str, problems)))


def _files(paths: Sequence[str]) -> Iterator[Path]:
    for name in paths:
        path = Path(name)
        if not path.is_dir():
            yield path
            continue
        found = sorted(one for one in path.iterdir() if one.suffix in ENDINGS)
        if not found:
            raise BadInput(f"{name}: the folder has no file that ends with {', '.join(ENDINGS)}")
        yield from found
