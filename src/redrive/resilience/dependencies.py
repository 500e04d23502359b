"""Circuits and budgets by dependency name, bounded in number."""

import threading
from collections import OrderedDict

from redrive.resilience.budget import Budget, BudgetSettings
from redrive.resilience.circuit import Circuit, CircuitSettings


class Dependency:
    """What a call talks to, with the circuit and the budget that all its callers share."""

    def __init__(self, name: str, circuit: Circuit | None, budget: Budget | None) -> None:
        self.name = name
        self.circuit = circuit
        self.budget = budget

    def __repr__(self) -> str:
        return f"Dependency({self.name!r}, circuit={self.circuit!r}, budget={self.budget!r})"


class Dependencies:
    """Dependencies by name. At most `limit` are kept; the one unused for longest makes room, open circuits last."""

    def __init__(
        self,
        *,
        circuit: CircuitSettings | None = None,
        budget: BudgetSettings | None = None,
        limit: int = 1000,
    ) -> None:
        if limit < 1:
            raise ValueError(f"limit: {limit!r} is not allowed; use a whole number from 1")
        self._circuit = circuit or CircuitSettings()
        self._budget = budget or BudgetSettings()
        self._limit = limit
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Dependency] = OrderedDict()

    def get(self, name: str) -> Dependency:
        """The dependency of that name, made at its first mention."""
        with self._lock:
            dependency = self._known.get(name)
            if dependency is None:
                return self._make(name, self._circuit, self._budget)
            self._known.move_to_end(name)
            return dependency

    def define(
        self, name: str, *, circuit: CircuitSettings | None = None, budget: BudgetSettings | None = None
    ) -> Dependency:
        """Give the dependency of that name settings of its own; for those who know it already it starts anew too."""
        with self._lock:
            known = self._known.get(name)
            made = self._make(name, circuit or self._circuit, budget or self._budget)
            if known is None:
                return made
            known.circuit, known.budget = made.circuit, made.budget
            self._known[name] = known
            return known

    def _make(self, name: str, circuit: CircuitSettings, budget: BudgetSettings) -> Dependency:
        if len(self._known) >= self._limit and name not in self._known:
            self._make_room()
        dependency = self._known[name] = Dependency(name, Circuit(name, circuit), Budget(budget))
        return dependency

    def all(self) -> list[Dependency]:
        with self._lock:
            return list(self._known.values())

    def _make_room(self) -> None:
        for name, dependency in self._known.items():
            if dependency.circuit is None or dependency.circuit.state.phase == "closed":
                del self._known[name]
                return
        self._known.popitem(last=False)
