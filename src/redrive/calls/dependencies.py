"""The dependencies of this process: whoever names one shares its circuit and budget with all others who do."""

from redrive.resilience.budget import BudgetSettings
from redrive.resilience.circuit import CircuitSettings
from redrive.resilience.dependencies import Dependencies, Dependency

DEPENDENCIES = Dependencies()


def known_dependency(name: str) -> Dependency:
    return DEPENDENCIES.get(name)


def define_dependency(
    name: str, *, circuit: CircuitSettings | None = None, budget: BudgetSettings | None = None
) -> Dependency:
    """Give a dependency settings of its own, before the guards that name it are made.

    redrive.define_dependency("payments", circuit=CircuitSettings(failures=3, cooldown=10))
    """
    return DEPENDENCIES.define(name, circuit=circuit, budget=budget)
