"""Which step waits for which, told by the names of what they give and take."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from redrive.flows.graphs.spec import InputSpec, StepSpec


class Taken(NamedTuple):
    """An input that comes from elsewhere."""

    name: str
    source: str
    """The name of the value it takes."""
    spec: InputSpec


class Edge(NamedTuple):
    """Why a step waits for another."""

    step: str
    needed: bool
    """It cannot go on when the other failed."""
    data: bool
    """It cannot go on without what the other gives."""


def given_by(spec: StepSpec) -> Iterable[str]:
    """The names of the values that a step provides."""
    return spec.outputs or (spec.name,)


def taken_by(spec: StepSpec) -> Iterator[Taken]:
    for name, one in spec.inputs.items():
        if one.role != "constant":
            yield Taken(name, one.source or name, one)


def edges_of(spec: StepSpec, providers: Mapping[str, str]) -> list[Edge]:
    """What a step waits for, each once. `providers`: name of a value -> the step that gives it."""
    edges: dict[str, Edge] = {}
    for name in spec.depends_on:
        edges[name] = Edge(name, True, False)
    for one in taken_by(spec):
        step = providers.get(one.source)
        if step is not None:
            required = one.spec.role == "required"
            known = edges.get(step)
            edges[step] = Edge(step, required or bool(known and known.needed), required or bool(known and known.data))
    return list(edges.values())
