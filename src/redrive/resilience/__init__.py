"""Whether a dependency should be called at all: its circuit and its retry budget."""

from redrive.resilience.budget import Budget, BudgetSettings
from redrive.resilience.circuit import Circuit, CircuitSettings
from redrive.resilience.dependencies import Dependencies, Dependency

__all__ = ["Budget", "BudgetSettings", "Circuit", "CircuitSettings", "Dependencies", "Dependency"]
