"""Read a graph from YAML or JSON, and report all its problems together."""

from collections.abc import Mapping
from typing import Any

from redrive.errors import GraphError, NotationError
from redrive.flows.graphs.graph import MOST_STEPS, Graph
from redrive.flows.graphs.notation.environments import in_environment, read_environments
from redrive.flows.graphs.notation.input_reading import read_flow_inputs
from redrive.flows.graphs.notation.names import read_name, read_names
from redrive.flows.graphs.notation.problems import Problems
from redrive.flows.graphs.notation.step_reading import read_named_step
from redrive.flows.graphs.spec import StepSpec
from redrive.notation.errors import notation_error
from redrive.notation.fields import Fields
from redrive.notation.place import Place, similar
from redrive.notation.source import load_document

LARGEST_GRAPH = 5 * 1024 * 1024
"""The longest text of a graph, in characters."""
GRAPH_KEYS = ("graph", "template", "description", "goals", "also", "inputs", "steps", "environments")

_LONGEST_DESCRIPTION = 10_000


def read_graph(
    what: str | Mapping[str, Any], source: str = "<text>", *, environment: str | None = None, imports: bool = False
) -> Graph:
    """Read a graph from text or plain data. Raises GraphError with a line for each problem.

    source: its name in errors, such as a file name.
    environment: whose overrides to apply. The overrides of the others are checked too.
    imports: import functions named by `handler: package.module:function`; use it only for files you trust.
    """
    data: Any = what
    place = Place("<data>" if source == "<text>" else source)
    if isinstance(what, str):
        try:
            document = load_document(what, source, longest=LARGEST_GRAPH, what="a graph")
        except NotationError as error:
            raise GraphError([error]) from None
        data, place = document.data, document.place
    problems = Problems()
    if not isinstance(data, Mapping):
        allowed = f"a mapping with the keys {', '.join(GRAPH_KEYS)}"
        problems.add(notation_error("not a graph", allowed=allowed, source=place.source, line=place.line))
        raise GraphError(problems.found)
    environments = read_environments(data.get("environments", {}), place.at("environments"), problems)
    graph = _read(data, place, problems, imports)
    for name, overrides in environments.items():
        other = _read(*in_environment(data, name, overrides, place), problems, imports)
        graph = other if name == environment else graph
    if environment is not None and "environments" in data and environment not in environments:
        hint = similar(environment, tuple(environments))
        allowed = f"{', '.join(environments)}; write '{environment}: {{}}' for an environment without overrides"
        problems.add(place.at("environments").refuse(environment, f"there is no such environment{hint}", allowed))
    problems.raise_found()
    return graph


def _read(data: Any, place: Place, problems: Problems, imports: bool) -> Graph:
    fields = problems.fields(data, place, GRAPH_KEYS, "a graph") or Fields({}, place, GRAPH_KEYS)
    name = ""
    with problems:
        name = _read_graph_name(fields)
    description = ""
    with problems:
        description = _read_description(fields)
    goals = also = None
    with problems:
        goals = read_names(fields.data["goals"], place.at("goals"), MOST_STEPS) if "goals" in fields else None
    with problems:
        also = read_names(fields.data.get("also", ()), place.at("also"), MOST_STEPS)
    declared = None
    if "inputs" in fields:
        declared = read_flow_inputs(fields.data["inputs"], place.at("inputs"), problems)
    steps = _read_steps(fields, problems, imports)
    graph = Graph.of_specs(
        name, steps, goals=goals, also=also or (), inputs=declared, description=description, place=place
    )
    if steps:
        graph.find_problems(problems)
    return graph


def _read_graph_name(fields: Fields) -> str:
    given = [key for key in ("graph", "template") if key in fields]
    if len(given) != 1:
        problem = "both graph and template are given, which mean the same" if given else "missing"
        raise fields.refuse("graph", "the name of the graph, once", problem)
    return read_name(fields.data[given[0]], fields.place.at(given[0]))


def _read_description(fields: Fields) -> str:
    value = fields.data.get("description", "")
    if isinstance(value, str) and len(value) <= _LONGEST_DESCRIPTION:
        return value
    raise fields.refuse("description", f"a text of at most {_LONGEST_DESCRIPTION} characters")


def _read_steps(fields: Fields, problems: Problems, imports: bool) -> list[StepSpec]:
    place = fields.place.at("steps")
    data = fields.data.get("steps")
    allowed = "a mapping of names to steps, such as {reserve: {endpoint: http://host/reserve}}"
    if not isinstance(data, Mapping) or not data:
        problem = "missing" if "steps" not in fields else "the graph has no steps" if data == {} else "not a mapping"
        problems.add(place.refuse(data, problem, allowed))
        return []
    if len(data) > MOST_STEPS:
        problems.add(place.refuse(f"{len(data)} steps", "too many", f"at most {MOST_STEPS}"))
        return []
    steps: list[StepSpec] = []
    for name, step in data.items():
        at = place.at(str(name))
        with problems:
            steps.append(read_named_step(read_name(name, at), step, at, problems, imports))
    return steps
