"""One call's dealings with its dependency: leave from the circuit for each attempt, retries from the budget."""

from redrive.errors import CircuitOpenError
from redrive.policies.decision import CLEAR, Conditions
from redrive.resilience.budget import Budget, Reservation
from redrive.resilience.circuit import Circuit, CircuitChange, Permit, Report
from redrive.resilience.dependencies import Dependency


class DependencyUse:
    """What the call holds of its dependency right now. Without a dependency it stands in nobody's way."""

    __slots__ = ("_budget", "_circuit", "_dependency", "_permit", "_reservation")

    def __init__(self, dependency: Dependency | None) -> None:
        self._dependency = dependency
        # Those that gave the permit and the retry: settings of the dependency may change while the call runs.
        self._circuit: Circuit | None = None
        self._budget: Budget | None = None
        self._permit: Permit | None = None
        self._reservation: Reservation | None = None

    def begin_attempt(self, now: float, *, first: bool) -> tuple[CircuitOpenError | None, CircuitChange | None]:
        """Ask the circuit for leave: its refusal, or None; and how asking changed it."""
        if self._dependency is None:
            return None, None
        change = None
        self._circuit = self._dependency.circuit
        if self._circuit is not None:
            self._permit, change = self._circuit.admit(now)
            if self._permit is None:
                self.give_back_retry(now)
                return self._circuit.refusal(now), change
        # The retry that was reserved is being made.
        self._reservation = None
        if first and self._dependency.budget is not None:
            self._dependency.budget.count_request(now)
        return None, change

    @property
    def holds_permit(self) -> bool:
        return self._permit is not None

    def report(self, how: Report, now: float) -> CircuitChange | None:
        """Tell the circuit how the attempt ended; returns how that changed it."""
        permit, self._permit = self._permit, None
        return None if permit is None or self._circuit is None else self._circuit.report(how, permit, now)

    def conditions(self, now: float, *, owned_elsewhere: bool, replayable: bool) -> Conditions:
        """What stands in the way of one more attempt; the retry is reserved, for a call that owns its retries."""
        if self._dependency is None:
            if not owned_elsewhere and replayable:
                return CLEAR
            return Conditions(owned_elsewhere=owned_elsewhere, replayable=replayable)
        circuit = self._dependency.circuit
        self._budget = None if owned_elsewhere else self._dependency.budget
        if self._budget is not None:
            self._reservation = self._budget.reserve_retry(now)
        return Conditions(
            circuit="none" if circuit is None else circuit.state.phase,
            circuit_open_until=None if circuit is None else circuit.probe_due(),
            budget_left=None if self._budget is None else self._budget.left(now),
            budget_spent=self._budget is not None and self._reservation is None,
            owned_elsewhere=owned_elsewhere,
            replayable=replayable,
        )

    def give_back_retry(self, now: float) -> None:
        """The retry that was reserved is not made after all."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None and self._budget is not None:
            self._budget.give_back(reservation, now)
