"""What one call holds of its dependency: the circuit's permit for an attempt, a retry from the budget, and a place
within the limits.
"""

from redrive.errors import CircuitOpenError, LimitReachedError
from redrive.policies.decision import CLEAR, Conditions
from redrive.resilience.budget import Budget, Reservation
from redrive.resilience.circuit import Circuit, CircuitChange, Permit, Report
from redrive.resilience.dependencies import Dependency
from redrive.resilience.limits import Demand, Grant, Limits, Refusal


class DependencyUse:
    """Asks circuit, budget and limits for one call. Without a dependency, it allows everything."""

    __slots__ = ("_budget", "_circuit", "_dependency", "_grant", "_limits", "_permit", "_reservation")

    def __init__(self, dependency: Dependency | None) -> None:
        self._dependency = dependency
        # Those that granted them: the dependency may get new ones while the call runs.
        self._circuit: Circuit | None = None
        self._budget: Budget | None = None
        self._permit: Permit | None = None
        self._reservation: Reservation | None = None
        self._limits: Limits | None = None
        self._grant: Grant | None = None

    @property
    def limited(self) -> bool:
        return self._dependency is not None and self._dependency.limits is not None

    def reserve_room(self, demand: Demand, now: float, until: float | None) -> float | LimitReachedError | None:
        """Take a place within the limits. Returns when the attempt may begin; None: now."""
        # The place of the attempt before, which was made, is not to be given back.
        self._grant = None
        if self._dependency is None or self._dependency.limits is None:
            return None
        circuit = self._dependency.circuit
        if circuit is not None and circuit.state.phase == "open" and (circuit.probe_due() or now) > now:
            # The circuit refuses the attempt now; it should not wait for that.
            return None
        self._limits = self._dependency.limits
        place = self._limits.reserve(demand, now, until)
        if isinstance(place, Refusal):
            self.give_back_retry(now)
            return LimitReachedError(self._dependency.name, place.limit, place.when and place.when - now)
        self._grant = place
        return place.when if place.when > now else None

    def settle_room(self, used: Demand, now: float) -> None:
        """Count what the attempt used instead of what it was expected to use."""
        if self._limits is not None and self._grant is not None:
            self._grant = self._limits.settle(self._grant, used, now)

    def leave_room(self, now: float) -> None:
        """Give the place back: the attempt was not made."""
        grant, self._grant = self._grant, None
        if self._limits is not None and grant is not None:
            self._limits.give_back(grant, now)

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
                self.leave_room(now)
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

    def conditions(self, now: float, *, owned_elsewhere: bool, replayable: bool, handed_on: int = 0) -> Conditions:
        """Return the conditions for another attempt. A call that owns its retries reserves one from the budget."""
        if self._dependency is None:
            if not owned_elsewhere and replayable and not handed_on:
                return CLEAR
            return Conditions(owned_elsewhere=owned_elsewhere, replayable=replayable, handed_on=handed_on)
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
            handed_on=handed_on,
        )

    def give_back_retry(self, now: float) -> None:
        """Return the reserved retry to the budget: it will not be made."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None and self._budget is not None:
            self._budget.give_back(reservation, now)
