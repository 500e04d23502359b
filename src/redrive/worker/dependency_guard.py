"""Circuits and retry budgets of what steps talk to. Durable work that they hold back waits, and no attempt is spent."""

from redrive.calls.dependencies import DEPENDENCIES
from redrive.determinism.dice import Dice
from redrive.failures.failure import Failure
from redrive.failures.redaction import redact
from redrive.policies.policy import Policy
from redrive.resilience import circuit as circuits
from redrive.resilience.circuit_outcome import circuit_outcome
from redrive.resilience.dependencies import Dependencies, Dependency
from redrive.telemetry.events import CircuitChanged
from redrive.telemetry.stream import emit

# Who waits for a probe or for the budget looks again after so many seconds or more, each at a time of its own: when the
# dependency is back, calls come in a ramp.
LOOK_AGAIN = 1.0
SPREAD = 2.0

_Attempt = tuple[str, int]
"""Flow and item."""


class Deferred(Exception):
    """The attempt is not made now."""

    def __init__(self, until: float, reason: str) -> None:
        super().__init__(reason)
        self.until = until
        self.reason = reason


def dependencies_of_steps() -> Dependencies:
    """With circuits of their own: an attempt that is the probe of its step must be let through by calls inside it."""
    return Dependencies(like=DEPENDENCIES)


def tell_circuits_gone(dependencies: Dependencies) -> None:
    """Nothing is held back by them any more: else the last word in logs and metrics would be that they are open."""
    for dependency in dependencies.all():
        if dependency.circuit is not None and (before := dependency.circuit.state.phase) != "closed":
            emit(CircuitChanged(dependency=dependency.name, before=before, after="closed", failures=0))


class DependencyGuard:
    """All its times are on one clock, which must not be set."""

    def __init__(self, dice: Dice, dependencies: Dependencies | None = None) -> None:
        self.dependencies = dependencies or dependencies_of_steps()
        self._dice = dice
        self.permits: dict[_Attempt, tuple[Dependency, circuits.Circuit, circuits.Permit]] = {}
        """Of attempts under way, with the circuit that gave it. What is not in it need not be reported."""

    def admit(self, attempt: _Attempt, name: str, retry: bool, now: float) -> None:
        """Let an attempt be made, or raise Deferred."""
        # As where it is defined: a name may be an address, and is told in logs and metrics.
        name = redact(name)
        dependency = self.dependencies.get(name)
        circuit = dependency.circuit
        if circuit is not None:
            permit, change = circuit.admit(now)
            _tell(change)
            if permit is None:
                due, state = circuit.probe_due() or now, circuit.state
                if state.phase == "half_open":
                    # The longer the probe takes, the more rarely: each look is a line in a log.
                    due = now + LOOK_AGAIN + max(0.0, now - state.probe_at)
                raise Deferred(max(due, now) + SPREAD * self._dice(), f"the circuit of {name} is open")
            self.permits[attempt] = dependency, circuit, permit
        if retry and dependency.budget is not None and dependency.budget.reserve_retry(now) is None:
            self.ignored(attempt, now)
            # One after the other: if all looked again at once, their lines would grow with the square of their number.
            turn = max(dependency.budget.line_up(now), now + LOOK_AGAIN)
            raise Deferred(turn + SPREAD * self._dice(), f"the retry budget of {name} is spent")
        if dependency.budget is not None:
            dependency.budget.count_request(now)

    def succeeded(self, attempt: _Attempt, now: float) -> None:
        self._report(attempt, circuits.succeeded, now)

    def failed(self, attempt: _Attempt, policy: Policy, failure: Failure, now: float) -> None:
        self._report(attempt, circuit_outcome(policy, failure), now)

    def ignored(self, attempt: _Attempt, now: float) -> None:
        """It ended without telling anything about the dependency."""
        self._report(attempt, circuits.ignored, now)

    def let_go(self, now: float) -> None:
        """Nobody reports any more how attempts end: a probe is given back for the next caller."""
        for attempt in list(self.permits):
            self.ignored(attempt, now)

    def _report(self, attempt: _Attempt, outcome: circuits.Report, now: float) -> None:
        known = self.permits.pop(attempt, None)
        if known is not None:
            dependency, circuit, permit = known
            change = circuit.report(outcome, permit, now)
            if circuit is dependency.circuit:
                # Else it was defined anew meanwhile, and nobody asks this one any more.
                _tell(change)


def _tell(change: circuits.CircuitChange | None) -> None:
    if change is not None:
        emit(
            CircuitChanged(
                dependency=change.dependency, before=change.before, after=change.after, failures=change.failures
            )
        )
