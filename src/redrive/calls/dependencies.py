"""The dependencies of this process: whoever names one shares its circuit and budget with all others who do."""

from redrive.failures.redaction import redact
from redrive.resilience.budget import BudgetSettings
from redrive.resilience.circuit import CircuitSettings
from redrive.resilience.dependencies import Dependencies, Dependency

DEPENDENCIES = Dependencies()


def as_dependency(what: str | Dependency | None) -> Dependency | None:
    """Read what users write: a name, a Dependency, or None. A name may be an address: secrets in it are hidden."""
    if what is None or isinstance(what, Dependency):
        return what
    if not isinstance(what, str) or not what:
        raise TypeError(f"dependency: {what!r} is not allowed; use a name such as 'payments', or a Dependency")
    return DEPENDENCIES.get(redact(what))


def define_dependency(
    name: str, *, circuit: CircuitSettings | None = None, budget: BudgetSettings | None = None
) -> Dependency:
    """Give a dependency settings of its own; guards that name it already follow, with a closed circuit.

    redrive.define_dependency("payments", circuit=CircuitSettings(failures=3, cooldown=10))
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"define_dependency: {name!r} is not a name; use one such as 'payments'")
    return DEPENDENCIES.define(redact(name), circuit=circuit, budget=budget)
