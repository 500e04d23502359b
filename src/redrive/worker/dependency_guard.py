"""Apply circuits, retry budgets and limits to steps: work that they hold back waits, and no attempt is spent."""

from collections.abc import Callable, Sequence

from redrive.calls.shared_dependencies import DEPENDENCIES
from redrive.determinism.dice import Dice
from redrive.failures.failure import Failure
from redrive.failures.redaction import redact
from redrive.flows.waits import WaitsFor
from redrive.policies.policy import Policy
from redrive.resilience import circuit as circuits
from redrive.resilience import ramp as ramps
from redrive.resilience.circuit_outcome import circuit_outcome
from redrive.resilience.dependencies import Dependencies, Dependency
from redrive.resilience.limits import ONE_REQUEST, Limits
from redrive.stores.worker_reports import DependencyOrder
from redrive.telemetry.events import CircuitChanged, CircuitRecovery, circuit_events
from redrive.telemetry.stream import emit
from redrive.worker.dependency_line import Alarm, Attempt, DependencyLine

# An item that waits for a probe or for the budget asks again after this many seconds and a random part of SPREAD: flows
# that all wake at once are loaded at once.
ASK_AGAIN = 1.0
SPREAD = 2.0
# Seconds after which an item that waits for a recovering dependency asks again, whatever the length of the line: the
# rate may have grown meanwhile.
LONGEST_TURN = 10.0
# An item joins the line for an open circuit if the next probe is due within this many seconds.
SOON = 5.0
# The same for an item that waits for a limit, which a later version of the code may have raised.
LONGEST_WAIT = 600.0
LONGEST_ORDER = 250
"""Characters of who gave an order, and why, that a reason repeats."""


class Deferred(Exception):
    """The attempt must wait until a given time, or until it has its turn in a line."""

    def __init__(
        self, until: float, reason: str, line: DependencyLine | None = None, waits_for: WaitsFor = "limit"
    ) -> None:
        super().__init__(reason)
        self.until = until
        self.reason = reason
        self.line = line
        """The line in which it may wait, to begin earlier."""
        self.waits_for: WaitsFor = waits_for


def dependencies_of_steps() -> Dependencies:
    """Dependencies with circuits and limits of their own.

    Guarded calls inside a step's probe must be let through, and do not count as requests of steps once more.
    """
    return Dependencies(like=DEPENDENCIES)


def report_circuits_closed(dependencies: Dependencies) -> None:
    """Report open circuits as closed when their app is closed, so that metrics do not show them as open for ever."""
    for dependency in dependencies.all():
        circuit = dependency.circuit
        if circuit is not None and circuit.is_recovering:
            emit(CircuitRecovery(dependency=dependency.name, stage="ended", rate=0.0, app_closed=True))
        if circuit is not None and (before := circuit.state.phase) != "closed":
            emit(CircuitChanged(dependency=dependency.name, before=before, after="closed", failures=0, app_closed=True))


class DependencyGuard:
    """Ask circuits, budgets and limits before each attempt of a step, and report its outcome. Times are monotonic."""

    def __init__(
        self,
        dice: Dice,
        dependencies: Dependencies | None = None,
        *,
        monotonic: Callable[[], float] | None = None,
        alarm: Alarm | None = None,
        most_in_line: int = 0,
    ) -> None:
        """alarm: wakes the lines. most_in_line: how many items may wait in line for each dependency."""
        self.dependencies = dependencies or dependencies_of_steps()
        self._dice = dice
        self._monotonic = monotonic
        self._alarm = alarm
        self._most_in_line = most_in_line
        self._lines: dict[str, DependencyLine] = {}
        self._obeyed: dict[str, float] | None = None
        """Dependency -> when the last order about it was given; None before the first look at orders."""
        self.permits: dict[Attempt, tuple[Dependency, circuits.Circuit, circuits.Permit]] = {}
        """Of running attempts, with the circuit that issued each. Other attempts need not be reported."""

    def admit(self, attempt: Attempt, name: str, retry: bool, now: float) -> None:
        """Allow an attempt, or raise Deferred. Asked in this order: the line, the limit, the circuit, the budget.

        An attempt that is held back takes no probe, no retry from the budget, and no room from the limit.
        """
        # The name may be a URL with a password, and appears in logs and metrics.
        dependency = self.dependencies.get(redact(name))
        circuit, budget, limits = dependency.circuit, dependency.budget, dependency.limits
        if circuit is None or budget is None:
            return  # Every dependency that is found by its name has both.
        line = self._lines.get(dependency.name)
        if line is not None and not line.lets_pass(attempt):
            raise self._held_back(dependency, circuit, now)
        if limits is not None and limits.room_at(now) > now:
            raise self._held_back(dependency, circuit, now)
        permit, change = circuit.admit(now)
        _report_change(change)
        if permit is None:
            raise self._held_back(dependency, circuit, now)
        self.permits[attempt] = dependency, circuit, permit
        if line is not None:
            line.leave(attempt)
        # The ramp limits the load better than the budget, which would make those that failed first wait longest.
        if retry and not circuit.is_recovering and budget.reserve_retry(now) is None:
            self.ignored(attempt, now)
            # One after the other: if all asked again at once, the number of events would grow with its square.
            turn = max(budget.line_up(now), now + ASK_AGAIN)
            raise Deferred(
                turn + SPREAD * self._dice(), f"the retry budget of {dependency.name} is spent", None, "budget"
            )
        budget.count_request(now)
        if limits is not None:
            # It stays counted if the attempt is cancelled before it is sent: too few requests are better than too many.
            limits.reserve(ONE_REQUEST, now)

    # How those that are held back wait: until when, why, and the line in which they may begin earlier

    def _held_back(self, dependency: Dependency, circuit: circuits.Circuit, now: float) -> Deferred:
        limits = dependency.limits
        # A circuit that would refuse the call is the reason, whether the limit has room or not.
        if (
            limits is not None
            and limits.of_requests
            and (circuit.is_unlimited or circuit.next_turn(now) <= now < limits.room_at(now))
        ):
            return self._held_by_limit(dependency, limits, now)
        if circuit.state.phase == "closed":
            return self._held_by_ramp(dependency, circuit, now)
        return self._held_by_open_circuit(dependency, circuit, now)

    def _held_by_limit(self, dependency: Dependency, limits: Limits, now: float) -> Deferred:
        line, due = self._line(dependency), limits.room_at(now)
        if line is not None:
            due = line.turn(due, limits.seconds_apart, now + LONGEST_WAIT)
        # Not spread, which would change their order: their times are as far apart as the limit says.
        due = max(due, now + ASK_AGAIN)
        return Deferred(due, f"the limit of {limits.of_requests} of {dependency.name} is reached", line, "limit")

    def _held_by_ramp(self, dependency: Dependency, circuit: circuits.Circuit, now: float) -> Deferred:
        line, ramp = self._line(dependency), circuit.state.ramp
        ahead = 1.0 if line is None else line.ahead(now)
        seconds = ASK_AGAIN if ramp is None else ramps.seconds_for(ramp, ahead)
        due = now + min(max(ASK_AGAIN, seconds), LONGEST_TURN)
        # They come back as part of the recovery: the budget, which the ramp replaces, must not stop them.
        circuit.hold_back(due + SPREAD)
        if line is not None and line.is_full:
            line.stay_outside(due)
        about = "calls are let through in order, as fast as it can take them"
        reason = f"the circuit of {dependency.name} is recovering: {about}"
        return Deferred(due + SPREAD * self._dice(), reason, line, "recovery")

    def _held_by_open_circuit(self, dependency: Dependency, circuit: circuits.Circuit, now: float) -> Deferred:
        line, state = self._line(dependency), circuit.state
        reason = f"the circuit of {dependency.name} is open"
        due = max(circuit.probe_due() or now, now)
        if state.by_hand:
            # Nobody knows until when: it is asked again now and then, and begins earlier once somebody closes it.
            reason = f"the circuit of {dependency.name} was {state.by_hand}"
            due = now + max(ASK_AGAIN, circuit.settings.cooldown)
        elif state.phase == "half_open":
            # Ask less often the longer the probe takes.
            due = now + ASK_AGAIN + max(0.0, now - state.probe_at)
        elif due - now > SOON:
            line = None
        return Deferred(due + SPREAD * self._dice(), reason, line, "circuit")

    def _line(self, dependency: Dependency) -> DependencyLine | None:
        line = self._lines.get(dependency.name)
        if line is None and self._alarm is not None and self._monotonic is not None:
            line = DependencyLine(dependency, self._most_in_line, self._monotonic, self._alarm)
            self._lines[dependency.name] = line
        return line

    def succeeded(self, attempt: Attempt, now: float) -> None:
        self._report(attempt, circuits.succeeded, now)

    def failed(self, attempt: Attempt, policy: Policy, failure: Failure, now: float) -> None:
        self._report(attempt, circuit_outcome(policy, failure), now)

    def ignored(self, attempt: Attempt, now: float) -> None:
        """The attempt ended without saying anything about the dependency."""
        self._report(attempt, circuits.ignored, now)

    def in_line(self, name: str) -> int:
        """How many attempts wait in line for the dependency."""
        return len(self._lines.get(name, ()))

    def obey(self, orders: Sequence[DependencyOrder], now: float) -> None:
        """Hold circuits open, or close them, as ordered. Orders to close from before this guard existed were obeyed."""
        is_first, self._obeyed = self._obeyed is None, self._obeyed or {}
        for order in orders:
            by_hand = redact(order.in_words, LONGEST_ORDER)
            circuit = self.dependencies.get(order.name).circuit
            if circuit is None:
                continue
            if order.order == "open":
                _report_change(circuit.hold_open(by_hand, now))
            elif circuit.state.by_hand or not (is_first or self._obeyed.get(order.name) == order.at):
                _report_change(circuit.close(by_hand, now))
                if (line := self._lines.get(order.name)) is not None:
                    line.look_again()
            self._obeyed[order.name] = order.at

    def release_all(self, now: float) -> None:
        """Return all permits, so that a probe can be given to the next caller, and close the lines."""
        for line in self._lines.values():
            line.close()
        self._lines.clear()
        for attempt in list(self.permits):
            self.ignored(attempt, now)

    def _report(self, attempt: Attempt, outcome: circuits.Report, now: float) -> None:
        known = self.permits.pop(attempt, None)
        if known is not None:
            dependency, circuit, permit = known
            change = circuit.report(outcome, permit, now)
            if circuit is dependency.circuit:
                # Otherwise the dependency was redefined, and this circuit is no longer asked.
                _report_change(change)
            line = self._lines.get(dependency.name)
            if line is not None:
                if len(line):
                    line.look_again()
                elif circuit.is_unlimited:
                    del self._lines[dependency.name]


def _report_change(change: circuits.CircuitChange | None) -> None:
    for event in () if change is None else circuit_events(change):
        emit(event)
