"""Which step waits for which, derived from the names of their inputs and outputs."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from redrive.flows.graphs.spec import InputSpec, StepSpec


class Taken(NamedTuple):
    """An input that is not a constant."""

    name: str
    source: str
    """The name of its value."""
    spec: InputSpec


class Edge(NamedTuple):
    """Why a step waits for another."""

    step: str
    needed: bool
    """The step cannot run when the other failed."""
    data: bool
    """The step cannot run without an output of the other."""


def given_by(spec: StepSpec) -> Iterable[str]:
    """The names of the values that a step provides."""
    return spec.outputs or (spec.name,)


def taken_by(spec: StepSpec) -> Iterator[Taken]:
    for name, one in spec.inputs.items():
        if one.role != "constant":
            yield Taken(name, one.source or name, one)


def edges_of(spec: StepSpec, providers: Mapping[str, str]) -> list[Edge]:
    """The steps that a step waits for, each once. `providers` maps the name of a value to the step that provides it."""
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
