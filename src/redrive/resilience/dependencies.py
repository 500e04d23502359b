"""Circuits, budgets and limits by dependency name. The number of unused ones is bounded."""

import threading
from collections import OrderedDict
from weakref import WeakValueDictionary

from redrive.resilience.budget import Budget, BudgetSettings
from redrive.resilience.circuit import Circuit, CircuitSettings
from redrive.resilience.limits import Limits, LimitSettings


class Dependency:
    """A service that calls depend on, with the circuit, the budget and the limits that all its callers share."""

    def __init__(self, name: str, circuit: Circuit | None, budget: Budget | None, limits: Limits | None = None) -> None:
        self.name = name
        self.circuit = circuit
        self.budget = budget
        self.limits = limits

    def __repr__(self) -> str:
        return f"Dependency({self.name!r}, circuit={self.circuit!r}, budget={self.budget!r})"


class Dependencies:
    """Dependencies by name. Those that are defined or in use are kept.

    At most `limit` others are kept: the least recently used are evicted first; those with limits or an open circuit,
    last.
    """

    def __init__(
        self,
        *,
        circuit: CircuitSettings | None = None,
        budget: BudgetSettings | None = None,
        limit: int = 1000,
        like: "Dependencies | None" = None,
    ) -> None:
        """`like`: dependencies defined there get the same settings here, but their own circuits, budgets and limits."""
        if limit < 1:
            raise ValueError(f"limit: {limit!r} is not allowed; use a whole number of at least 1")
        self._circuit = circuit or CircuitSettings()
        self._budget = budget or BudgetSettings()
        self._limit = limit
        self._like = like
        self._lock = threading.Lock()
        self._alive: WeakValueDictionary[str, Dependency] = WeakValueDictionary()
        self._defined: dict[str, Dependency] = {}
        self._recent: OrderedDict[str, Dependency] = OrderedDict()

    def get(self, name: str) -> Dependency:
        """Return the dependency of that name, creating it on first use."""
        with self._lock:
            dependency = self._defined.get(name)
            if dependency is not None:
                return dependency
            dependency = self._alive.get(name)
            if dependency is None:
                dependency = self._alive[name] = Dependency(name, Circuit(name, self._circuit), Budget(self._budget))
            self._apply_like(dependency)
            if name not in self._recent and len(self._recent) >= self._limit:
                self._evict()
            self._recent[name] = dependency
            self._recent.move_to_end(name)
            return dependency

    def _apply_like(self, dependency: Dependency) -> None:
        """Adopt the settings that the dependency has in `like`. New settings begin with nothing counted."""
        defined = self._like._defined.get(dependency.name) if self._like is not None else None
        if defined is None or defined.circuit is None or defined.budget is None:
            return
        if dependency.circuit is None or dependency.circuit.settings is not defined.circuit.settings:
            dependency.circuit = Circuit(dependency.name, defined.circuit.settings)
        if dependency.budget is None or dependency.budget.settings is not defined.budget.settings:
            dependency.budget = Budget(defined.budget.settings)
        limits = None if defined.limits is None else defined.limits.settings
        if limits is None:
            dependency.limits = None
        elif dependency.limits is None or dependency.limits.settings is not limits:
            dependency.limits = Limits(limits)

    def define(
        self,
        name: str,
        *,
        circuit: CircuitSettings | None = None,
        budget: BudgetSettings | None = None,
        limits: LimitSettings | None = None,
    ) -> Dependency:
        """Configure a dependency. Callers that already use it get the new circuit, budget and limits too."""
        made = Dependency(
            name,
            Circuit(name, circuit or self._circuit),
            Budget(budget or self._budget),
            None if limits is None else Limits(limits),
        )
        with self._lock:
            dependency = self._alive.setdefault(name, made)
            dependency.circuit, dependency.budget, dependency.limits = made.circuit, made.budget, made.limits
            self._recent.pop(name, None)
            self._defined[name] = dependency
            return dependency

    def all(self) -> list[Dependency]:
        with self._lock:
            return [*self._defined.values(), *self._recent.values()]

    def _evict(self) -> None:
        for name, dependency in self._recent.items():
            is_closed = dependency.circuit is None or dependency.circuit.state.phase == "closed"
            # Limits that came back with nothing counted would let too much through.
            if is_closed and dependency.limits is None:
                del self._recent[name]
                return
        self._recent.popitem(last=False)
