"""The dependencies of this process: whoever names one shares its circuit and budget with all others who do."""

from redrive.observability.events import CircuitChanged
from redrive.observability.stream import emit
from redrive.resilience.circuit import CircuitChange
from redrive.resilience.dependencies import Dependencies, Dependency


def _tell(change: CircuitChange) -> None:
    emit(
        CircuitChanged(dependency=change.dependency, before=change.before, after=change.after, failures=change.failures)
    )


DEPENDENCIES = Dependencies(on_circuit_change=_tell)


def known_dependency(name: str) -> Dependency:
    return DEPENDENCIES.get(name)
