"""The circuit breaker: opens after consecutive failures, then lets one probe through at a time.

`admit`, `succeeded`, `failed` and `ignored` are pure transitions from one state to the next. `Circuit` holds the state
of one dependency for all its callers. No lock is held while user code runs.
"""

import threading
from collections.abc import Callable
from typing import Literal

import msgspec

from redrive.errors import CircuitOpenError
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


class Permit(msgspec.Struct, frozen=True):
    """Permission for one call; the call's outcome is reported with it."""

    generation: int
    probe: bool = False


def admit(settings: CircuitSettings, state: CircuitState, now: float) -> tuple[CircuitState, Permit | None]:
    """Request a permit: returns the next state, and the permit or None."""
    if state.phase == "closed":
        return state, Permit(state.generation)
    if now < probe_due(settings, state):
        return state, None
    generation = state.generation + 1
    return CircuitState("half_open", 0, state.opened_at, now, generation), Permit(generation, probe=True)


def probe_due(settings: CircuitSettings, state: CircuitState) -> float:
    """Return when the next probe may be made: after the cooldown, or once the running probe counts as lost."""
    if state.phase == "open":
        return state.opened_at + settings.cooldown
    return state.probe_at + settings.probe_expires


def succeeded(settings: CircuitSettings, state: CircuitState, permit: Permit, now: float) -> CircuitState:
    """Report that the dependency works: a probe closes the circuit."""
    if permit.generation != state.generation:
        return state
    if state.phase == "closed":
        return state if not state.failures else CircuitState(generation=state.generation)
    return CircuitState(generation=state.generation + 1)


def failed(settings: CircuitSettings, state: CircuitState, permit: Permit, now: float) -> CircuitState:
    """Report that the dependency is down: a probe, or one failure too many, opens the circuit."""
    if permit.generation != state.generation:
        return state
    failures = state.failures + 1
    if state.phase == "closed" and failures < settings.failures:
        return CircuitState("closed", failures, 0.0, 0.0, state.generation)
    return CircuitState("open", 0, now, 0.0, state.generation + 1)


def ignored(settings: CircuitSettings, state: CircuitState, permit: Permit, now: float) -> CircuitState:
    """Report an outcome that says nothing about the dependency: the next caller may probe instead."""
    if permit.generation != state.generation or state.phase == "closed":
        return state
    return CircuitState("open", 0, state.opened_at, 0.0, state.generation + 1)


Report = Callable[[CircuitSettings, CircuitState, Permit, float], CircuitState]


class CircuitChange(msgspec.Struct, frozen=True):
    """A circuit changed from one phase to another."""

    dependency: str
    before: Phase
    after: Phase
    at: float
    failures: int
    """Consecutive failures that caused the change."""


class Circuit:
    """The circuit of one dependency, shared by all its callers. Safe for use from many threads."""

    def __init__(self, dependency: str, settings: CircuitSettings | None = None) -> None:
        self.dependency = dependency
        self.settings = settings or CircuitSettings()
        if not isinstance(self.settings, CircuitSettings):
            raise TypeError(f"circuit: {settings!r} is not allowed; use CircuitSettings(failures=5)")
        self.state = CircuitState()
        self._lock = threading.Lock()

    def admit(self, now: float) -> tuple[Permit | None, CircuitChange | None]:
        """Return a permit for one call, or None while the circuit is open; and the change of phase, if any."""
        state = self.state
        if state.phase == "closed":
            return Permit(state.generation), None
        with self._lock:
            before = self.state
            self.state, permit = admit(self.settings, before, now)
            return permit, self._change(before, self.state, now)

    def report(self, transition: Report, permit: Permit, now: float) -> CircuitChange | None:
        """Report how the permitted call ended: `succeeded`, `failed` or `ignored`. Returns its change of phase."""
        with self._lock:
            before = self.state
            self.state = transition(self.settings, before, permit, now)
            return self._change(before, self.state, now)

    def probe_due(self) -> float | None:
        """Return when the next probe may be made; None while the circuit is closed."""
        state = self.state
        return None if state.phase == "closed" else probe_due(self.settings, state)

    def refusal(self, now: float) -> CircuitOpenError:
        return CircuitOpenError(self.dependency, (self.probe_due() or now) - now)

    def _change(self, before: CircuitState, after: CircuitState, now: float) -> CircuitChange | None:
        if before.phase == after.phase:
            return None
        count = before.failures + 1 if before.phase == "closed" else 0
        return CircuitChange(self.dependency, before.phase, after.phase, now, count)

    def __repr__(self) -> str:
        return f"Circuit({self.dependency!r}, {self.state.phase})"
