"""Circuits and budgets by dependency name; those that nobody needs are bounded in number."""

import threading
from collections import OrderedDict
from weakref import WeakValueDictionary

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
    """Dependencies by name. Those that were defined are kept, and those that someone holds are found again.

    Of the others at most `limit` are kept; the one unused for longest makes room, open circuits last.
    """

    def __init__(
        self,
        *,
        circuit: CircuitSettings | None = None,
        budget: BudgetSettings | None = None,
        limit: int = 1000,
        like: "Dependencies | None" = None,
    ) -> None:
        """`like`: those defined there have the same settings here, with circuits and budgets of their own."""
        if limit < 1:
            raise ValueError(f"limit: {limit!r} is not allowed; use a whole number from 1")
        self._circuit = circuit or CircuitSettings()
        self._budget = budget or BudgetSettings()
        self._limit = limit
        self._like = like
        self._lock = threading.Lock()
        self._alive: WeakValueDictionary[str, Dependency] = WeakValueDictionary()
        self._defined: dict[str, Dependency] = {}
        self._mentioned: OrderedDict[str, Dependency] = OrderedDict()

    def get(self, name: str) -> Dependency:
        """The dependency of that name, made at its first mention."""
        with self._lock:
            dependency = self._defined.get(name)
            if dependency is not None:
                return dependency
            dependency = self._alive.get(name)
            if dependency is None:
                dependency = self._alive[name] = Dependency(name, Circuit(name, self._circuit), Budget(self._budget))
            self._follow(dependency)
            if name not in self._mentioned and len(self._mentioned) >= self._limit:
                self._make_room()
            self._mentioned[name] = dependency
            self._mentioned.move_to_end(name)
            return dependency

    def _follow(self, dependency: Dependency) -> None:
        """It starts anew when it is defined there, as it does for those who use it there."""
        defined = self._like._defined.get(dependency.name) if self._like is not None else None
        if defined is None or defined.circuit is None or defined.budget is None:
            return
        if dependency.circuit is None or dependency.circuit.settings is not defined.circuit.settings:
            dependency.circuit = Circuit(dependency.name, defined.circuit.settings)
        if dependency.budget is None or dependency.budget.settings is not defined.budget.settings:
            dependency.budget = Budget(defined.budget.settings)

    def define(
        self, name: str, *, circuit: CircuitSettings | None = None, budget: BudgetSettings | None = None
    ) -> Dependency:
        """Give the dependency of that name settings of its own; for those who know it already it starts anew too."""
        made = Dependency(name, Circuit(name, circuit or self._circuit), Budget(budget or self._budget))
        with self._lock:
            dependency = self._alive.setdefault(name, made)
            dependency.circuit, dependency.budget = made.circuit, made.budget
            self._mentioned.pop(name, None)
            self._defined[name] = dependency
            return dependency

    def all(self) -> list[Dependency]:
        with self._lock:
            return [*self._defined.values(), *self._mentioned.values()]

    def _make_room(self) -> None:
        for name, dependency in self._mentioned.items():
            if dependency.circuit is None or dependency.circuit.state.phase == "closed":
                del self._mentioned[name]
                return
        self._mentioned.popitem(last=False)
