"""What one call holds of its dependency: the circuit's permit for an attempt, and a retry from the budget."""

from redrive.errors import CircuitOpenError
from redrive.policies.decision import CLEAR, Conditions
from redrive.resilience.budget import Budget, Reservation
from redrive.resilience.circuit import Circuit, CircuitChange, Permit, Report
from redrive.resilience.dependencies import Dependency


class DependencyUse:
    """Asks circuit and budget for one call. Without a dependency, it allows everything."""

    __slots__ = ("_budget", "_circuit", "_dependency", "_permit", "_reservation")

    def __init__(self, dependency: Dependency | None) -> None:
        self._dependency = dependency
        # The circuit and budget that granted them: the dependency may get new ones while the call runs.
        self._circuit: Circuit | None = None
        self._budget: Budget | None = None
        self._permit: Permit | None = None
        self._reservation: Reservation | None = None

    def begin_attempt(self, now: float, *, first: bool) -> tuple[CircuitOpenError | None, CircuitChange | None]:
        """Ask the circuit for a permit. Returns its refusal, if any, and its change of phase, if any."""
        if self._dependency is None:
            return None, None
        change = None
        self._circuit = self._dependency.circuit
        if self._circuit is not None:
            self._permit, change = self._circuit.admit(now)
            if self._permit is None:
                self.give_back_retry(now)
                return self._circuit.refusal(now), change
        # The reserved retry is being made now.
        self._reservation = None
        if first and self._dependency.budget is not None:
            self._dependency.budget.count_request(now)
        return None, change

    @property
    def holds_permit(self) -> bool:
        return self._permit is not None

    def report(self, transition: Report, now: float) -> CircuitChange | None:
        """Report to the circuit how the attempt ended. Returns the change of phase, if any."""
        permit, self._permit = self._permit, None
        return None if permit is None or self._circuit is None else self._circuit.report(transition, permit, now)

    def conditions(self, now: float, *, owned_elsewhere: bool, replayable: bool) -> Conditions:
        """Return the conditions for another attempt. A call that owns its retries reserves one from the budget."""
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
        """Return the reserved retry to the budget: it will not be made."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None and self._budget is not None:
            self._budget.give_back(reservation, now)
