"""Apply circuits and retry budgets to steps: work that they hold back waits, and no attempt is spent."""

from redrive.calls.shared_dependencies import DEPENDENCIES
from redrive.determinism.dice import Dice
from redrive.failures.failure import Failure
from redrive.failures.redaction import redact
from redrive.policies.policy import Policy
from redrive.resilience import circuit as circuits
from redrive.resilience.circuit_outcome import circuit_outcome
from redrive.resilience.dependencies import Dependencies, Dependency
from redrive.telemetry.events import CircuitChanged
from redrive.telemetry.stream import emit

# An item that waits for a probe or for the budget asks again after this many seconds and a random part of SPREAD, so
# that calls come back in a ramp.
ASK_AGAIN = 1.0
SPREAD = 2.0

_Attempt = tuple[str, int]
"""Flow id and item number."""


class Deferred(Exception):
    """The attempt must wait until a given time."""

    def __init__(self, until: float, reason: str) -> None:
        super().__init__(reason)
        self.until = until
        self.reason = reason


def dependencies_of_steps() -> Dependencies:
    """Dependencies with circuits of their own: guarded calls inside a step's probe must be let through."""
    return Dependencies(like=DEPENDENCIES)


def report_circuits_closed(dependencies: Dependencies) -> None:
    """Report open circuits as closed when their app is closed, so that logs and metrics do not show them as open."""
    for dependency in dependencies.all():
        if dependency.circuit is not None and (before := dependency.circuit.state.phase) != "closed":
            emit(CircuitChanged(dependency=dependency.name, before=before, after="closed", failures=0))


class DependencyGuard:
    """Ask circuits and budgets before each attempt of a step, and report its outcome to them. Times are monotonic."""

    def __init__(self, dice: Dice, dependencies: Dependencies | None = None) -> None:
        self.dependencies = dependencies or dependencies_of_steps()
        self._dice = dice
        self.permits: dict[_Attempt, tuple[Dependency, circuits.Circuit, circuits.Permit]] = {}
        """Of running attempts, with the circuit that issued each. Other attempts need not be reported."""

    def admit(self, attempt: _Attempt, name: str, retry: bool, now: float) -> None:
        """Allow an attempt, or raise Deferred."""
        # The name may be a URL with a password, and appears in logs and metrics.
        name = redact(name)
        dependency = self.dependencies.get(name)
        circuit = dependency.circuit
        if circuit is not None:
            permit, change = circuit.admit(now)
            _report_change(change)
            if permit is None:
                due, state = circuit.probe_due() or now, circuit.state
                if state.phase == "half_open":
                    # Ask less often the longer the probe takes: each deferral is an event in the log.
                    due = now + ASK_AGAIN + max(0.0, now - state.probe_at)
                raise Deferred(max(due, now) + SPREAD * self._dice(), f"the circuit of {name} is open")
            self.permits[attempt] = dependency, circuit, permit
        if retry and dependency.budget is not None and dependency.budget.reserve_retry(now) is None:
            self.ignored(attempt, now)
            # One after the other: if all asked again at once, the events would grow with the square of their number.
            turn = max(dependency.budget.line_up(now), now + ASK_AGAIN)
            raise Deferred(turn + SPREAD * self._dice(), f"the retry budget of {name} is spent")
        if dependency.budget is not None:
            dependency.budget.count_request(now)

    def succeeded(self, attempt: _Attempt, now: float) -> None:
        self._report(attempt, circuits.succeeded, now)

    def failed(self, attempt: _Attempt, policy: Policy, failure: Failure, now: float) -> None:
        self._report(attempt, circuit_outcome(policy, failure), now)

    def ignored(self, attempt: _Attempt, now: float) -> None:
        """The attempt ended without saying anything about the dependency."""
        self._report(attempt, circuits.ignored, now)

    def release_all(self, now: float) -> None:
        """Return all permits, so that a probe can be given to the next caller."""
        for attempt in list(self.permits):
            self.ignored(attempt, now)

    def _report(self, attempt: _Attempt, outcome: circuits.Report, now: float) -> None:
        known = self.permits.pop(attempt, None)
        if known is not None:
            dependency, circuit, permit = known
            change = circuit.report(outcome, permit, now)
            if circuit is dependency.circuit:
                # Otherwise the dependency was redefined, and this circuit is no longer asked.
                _report_change(change)


def _report_change(change: circuits.CircuitChange | None) -> None:
    if change is not None:
        emit(
            CircuitChanged(
                dependency=change.dependency, before=change.before, after=change.after, failures=change.failures
            )
        )
