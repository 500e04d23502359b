"""Whether a dependency should be called at all: its circuit, its retry budget and its limits."""

from redrive.resilience.budget import Budget, BudgetSettings
from redrive.resilience.circuit import Circuit, CircuitSettings
from redrive.resilience.dependencies import Dependencies, Dependency
from redrive.resilience.limits import Limits, LimitSettings

__all__ = [
    "Budget",
    "BudgetSettings",
    "Circuit",
    "CircuitSettings",
    "Dependencies",
    "Dependency",
    "LimitSettings",
    "Limits",
]
