"""The circuit breaker: opens after consecutive failures, lets one probe through at a time, then recovers in a ramp.

`admit`, `succeeded`, `failed` and `ignored` are pure transitions from one state to the next. `Circuit` holds the state
of one dependency for all its callers. No lock is held while user code runs.
"""

import threading
from collections.abc import Callable
from typing import Literal

import msgspec

from redrive.errors import CircuitOpenError
from redrive.resilience import ramp as ramps
from redrive.resilience.ramp import Ramp
from redrive.resilience.seconds import check_seconds

Phase = Literal["closed", "open", "half_open"]


class CircuitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When a circuit opens, and when it lets a probe through."""

    failures: int = 5
    """Consecutive failures that open the circuit."""
    cooldown: float = 30.0
    """Seconds that the circuit stays open before it lets a probe through."""
    probe_expires: float = 30.0
    """Seconds after which a probe without an outcome counts as lost, and the circuit lets another one through."""

    def __post_init__(self) -> None:
        if isinstance(self.failures, bool) or not isinstance(self.failures, int) or self.failures < 1:
            raise ValueError(f"circuit failures: {self.failures!r} is not allowed; use a whole number of at least 1")
        for field in ("cooldown", "probe_expires"):
            check_seconds(f"circuit {field}", getattr(self, field))


class CircuitState(msgspec.Struct, frozen=True):
    """The state of a circuit at one moment."""

    phase: Phase = "closed"
    failures: int = 0
    """Consecutive failures while closed."""
    opened_at: float = 0.0
    probe_at: float = 0.0
    generation: int = 0
    """Incremented with each change of phase. Reports from an earlier generation are stale and ignored."""
    ramp: Ramp | None = None
    """Limits the calls while the circuit is closed and the dependency is still recovering; None at other times."""
    by_hand: str = ""
    """Who holds the circuit open, and why; "" where it opens and closes by itself."""


class Permit(msgspec.Struct, frozen=True):
    """Permission for one call; the call's outcome is reported with it."""

    generation: int
    probe: bool = False
    began: float = 0.0
    """When the call began; known in a ramp only."""


def admit(settings: CircuitSettings, state: CircuitState, now: float) -> tuple[CircuitState, Permit | None]:
    """Request a permit: returns the next state, and the permit or None."""
    if state.phase == "closed":
        if state.ramp is None or ramps.is_over(state.ramp, now):
            return _with_ramp(state, None), Permit(state.generation)
        ramp = ramps.admit(state.ramp, now, settings.probe_expires)
        if ramp is None:
            return _with_ramp(state, ramps.hold_back(state.ramp, now)), None
        return _with_ramp(state, ramp), Permit(state.generation, began=now)
    if state.by_hand or now < probe_due(settings, state):
        return state, None
    generation = state.generation + 1
    return CircuitState("half_open", 0, state.opened_at, now, generation), Permit(generation, probe=True)


def probe_due(settings: CircuitSettings, state: CircuitState) -> float:
    """Return when the next probe may be made: after the cooldown, or once the running probe counts as lost."""
    if state.phase == "open":
        return state.opened_at + settings.cooldown
    return state.probe_at + settings.probe_expires


def next_turn(settings: CircuitSettings, state: CircuitState, now: float) -> float:
    """Return when a call may begin, at the latest: now, or with the next probe, or when the ramp has room."""
    if state.by_hand:
        return now + settings.cooldown
    if state.phase != "closed":
        return probe_due(settings, state)
    if state.ramp is None or ramps.is_over(state.ramp, now):
        return now
    return ramps.next_turn(state.ramp, settings.probe_expires)


def succeeded(settings: CircuitSettings, state: CircuitState, permit: Permit, now: float) -> CircuitState:
    """Report that the dependency works: a probe closes the circuit, and begins the ramp."""
    if permit.generation != state.generation:
        return state
    if state.phase == "half_open":
        return CircuitState(generation=state.generation + 1, ramp=ramps.begin(now))
    if state.ramp is not None:
        ramp = ramps.succeed(state.ramp, permit.began, now)
        return _with_ramp(state, None if ramps.is_over(ramp, now) else ramp)
    return state if not state.failures else CircuitState(generation=state.generation)


def failed(settings: CircuitSettings, state: CircuitState, permit: Permit, now: float) -> CircuitState:
    """Report that the dependency is down: a probe, or one failure too many, opens the circuit.

    In a ramp the dependency may only be overloaded: the rate is cut, and the circuit opens once no call succeeds any
    more.
    """
    if permit.generation != state.generation:
        return state
    if state.ramp is not None:
        ramp = ramps.fail(state.ramp, permit.began, now)
        if not ramps.is_down(ramp, settings.failures, now):
            return _with_ramp(state, ramp)
        return CircuitState("open", 0, now, 0.0, state.generation + 1)
    failures = state.failures + 1
    if state.phase == "closed" and failures < settings.failures:
        return CircuitState("closed", failures, 0.0, 0.0, state.generation)
    return CircuitState("open", 0, now, 0.0, state.generation + 1)


def ignored(settings: CircuitSettings, state: CircuitState, permit: Permit, now: float) -> CircuitState:
    """Report an outcome that says nothing about the dependency: the next caller may probe instead."""
    if permit.generation != state.generation:
        return state
    if state.phase == "closed":
        return state if state.ramp is None else _with_ramp(state, ramps.forget(state.ramp, now))
    return CircuitState("open", 0, state.opened_at, 0.0, state.generation + 1)


def held_back(state: CircuitState, until: float) -> CircuitState:
    """Note that work waits for the dependency until then: the ramp does not end before."""
    return state if state.ramp is None else _with_ramp(state, ramps.hold_back(state.ramp, until))


def held_open(state: CircuitState, by_hand: str, now: float) -> CircuitState:
    """Hold the circuit open until `closed_by_hand`; by_hand: who does it, and why."""
    if state.by_hand == by_hand:
        return state
    opened_at = now if state.phase == "closed" else state.opened_at
    return CircuitState("open", 0, opened_at, 0.0, state.generation + 1, by_hand=by_hand)


def closed_by_hand(state: CircuitState, now: float) -> CircuitState:
    """Close the circuit, and begin the ramp: what waited must not come all at once. From then on it is automatic."""
    return state if state.phase == "closed" else CircuitState(generation=state.generation + 1, ramp=ramps.begin(now))


def _with_ramp(state: CircuitState, ramp: Ramp | None) -> CircuitState:
    if state.ramp is ramp:
        return state
    return CircuitState(state.phase, state.failures, state.opened_at, state.probe_at, state.generation, ramp)


Report = Callable[[CircuitSettings, CircuitState, Permit, float], CircuitState]


Stage = Literal["began", "slowed", "failed", "ended"]


class CircuitChange(msgspec.Struct, frozen=True):
    """A circuit changed from one phase to another, or its recovery from one stage to another."""

    dependency: str
    before: Phase
    after: Phase
    at: float
    failures: int
    """Consecutive failures that caused the change."""
    recovery: Stage | None = None
    """Whether the ramp after an outage began, was slowed by a failure, failed with the dependency, or ended."""
    rate: float = 0.0
    """Calls per second that the ramp lets through."""
    by_hand: str = ""
    """Who opened or closed it, and why; "" where it did so by itself."""


class Circuit:
    """The circuit of one dependency, shared by all its callers. Safe for use from many threads."""

    def __init__(self, dependency: str, settings: CircuitSettings | None = None) -> None:
        self.dependency = dependency
        self.settings = settings or CircuitSettings()
        if not isinstance(self.settings, CircuitSettings):
            raise TypeError(f"circuit: {settings!r} is not allowed; use CircuitSettings(failures=5)")
        self.state = CircuitState()
        self._lock = threading.Lock()
        self._unlimited: Permit | None = Permit(self.state.generation)
        """The permit for every call while nothing limits them; None at other times."""

    def admit(self, now: float) -> tuple[Permit | None, CircuitChange | None]:
        """Return a permit for one call, or None when it must not be made now; and the change of phase, if any."""
        unlimited = self._unlimited
        if unlimited is not None:
            return unlimited, None
        with self._lock:
            after, permit = admit(self.settings, self.state, now)
            return permit, self._enter(after, now)

    def report(self, transition: Report, permit: Permit, now: float) -> CircuitChange | None:
        """Report how the permitted call ended: `succeeded`, `failed` or `ignored`. Returns its change of phase."""
        with self._lock:
            before = self.state
            after = transition(self.settings, before, permit, now)
            return None if after is before else self._enter(after, now)

    def hold_back(self, until: float) -> None:
        """Note that work waits for this circuit until then: a ramp does not end before."""
        with self._lock:
            self._enter(held_back(self.state, until), until)

    def hold_open(self, by_hand: str, now: float) -> CircuitChange | None:
        """Hold it open until `close`; by_hand: who does it, and why."""
        with self._lock:
            return self._enter(held_open(self.state, by_hand, now), now, by_hand)

    def close(self, by_hand: str, now: float) -> CircuitChange | None:
        """Close it, slowly at first; from then on it opens and closes by itself."""
        with self._lock:
            return self._enter(closed_by_hand(self.state, now), now, by_hand)

    def next_turn(self, now: float) -> float:
        """Return when a call may begin, at the latest; a call that ends may let it begin earlier."""
        return next_turn(self.settings, self.state, now)

    @property
    def is_unlimited(self) -> bool:
        """Whether every call is admitted: the circuit is closed, and does not recover from an outage."""
        return self._unlimited is not None

    @property
    def is_recovering(self) -> bool:
        """Whether the circuit is closed after an outage, and calls are still limited by the ramp."""
        return self.state.ramp is not None

    def probe_due(self) -> float | None:
        """Return when the next probe may be made; None while the circuit is closed."""
        state = self.state
        return None if state.phase == "closed" else probe_due(self.settings, state)

    def refusal(self, now: float) -> CircuitOpenError:
        state = self.state
        return CircuitOpenError(
            self.dependency, max(0.0, next_turn(self.settings, state, now) - now), recovering=state.ramp is not None
        )

    def _enter(self, after: CircuitState, now: float, by_hand: str = "") -> CircuitChange | None:
        before, self.state = self.state, after
        is_limited = after.phase != "closed" or after.ramp is not None
        self._unlimited = None if is_limited else Permit(after.generation)
        recovery = _stage(before.ramp, after)
        if before.phase == after.phase and recovery is None:
            return None
        count = before.failures + 1 if before.phase == "closed" and not by_hand else 0
        if not by_hand and before.ramp is not None and after.phase == "open":
            count = before.ramp.failures + 1
        rate = 0.0 if after.ramp is None else after.ramp.rate
        return CircuitChange(self.dependency, before.phase, after.phase, now, count, recovery, rate, by_hand)

    def __repr__(self) -> str:
        return f"Circuit({self.dependency!r}, {self.state.phase}{', recovering' if self.is_recovering else ''})"


def _stage(before: Ramp | None, after: CircuitState) -> Stage | None:
    if before is None:
        return None if after.ramp is None else "began"
    if after.ramp is None:
        return "failed" if after.phase == "open" else "ended"
    # Consecutive failures are reported once.
    return "slowed" if after.ramp.failures and not before.failures else None
