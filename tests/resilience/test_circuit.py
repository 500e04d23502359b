"""The circuit breaker: as a state machine, and shared by many callers."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.resilience.circuit import (
    Circuit,
    CircuitChange,
    CircuitSettings,
    Permit,
    failed,
    ignored,
    succeeded,
)

pytestmark = pytest.mark.promise("P13")


def phase(circuit: Circuit) -> str:
    return circuit.state.phase


def opened(circuit: Circuit, now: float = 0.0) -> None:
    for _ in range(circuit.settings.failures):
        circuit.report(failed, _admitted(circuit, now), now)
    assert phase(circuit) == "open"


def test_five_consecutive_failures_open_it_for_thirty_seconds() -> None:
    circuit = Circuit("api")
    for _ in range(4):
        circuit.report(failed, _admitted(circuit, 0), 0)
    assert phase(circuit) == "closed"
    circuit.report(failed, _admitted(circuit, 0), 0)
    assert phase(circuit) == "open"
    assert refused(circuit, 29.9)
    assert _admitted(circuit, 30.0) == Permit(circuit.state.generation, probe=True)


def test_a_success_starts_the_count_again() -> None:
    circuit = Circuit("api")
    for _ in range(3):
        for _ in range(4):
            circuit.report(failed, _admitted(circuit, 0), 0)
        circuit.report(succeeded, _admitted(circuit, 0), 0)
    assert phase(circuit) == "closed"


def test_a_good_probe_closes_it_and_a_bad_one_restarts_the_clock() -> None:
    circuit = Circuit("api")
    opened(circuit)
    circuit.report(failed, _admitted(circuit, 31), 31)
    assert phase(circuit) == "open"
    assert refused(circuit, 60.9)
    circuit.report(succeeded, _admitted(circuit, 61), 61)
    assert phase(circuit) == "closed"


def test_a_lost_probe_expires_and_cannot_wedge_it() -> None:
    circuit = Circuit("api", CircuitSettings(cooldown=30, probe_expires=10))
    opened(circuit)
    lost = _admitted(circuit, 30)
    assert refused(circuit, 39.9)
    second = _admitted(circuit, 40)
    # The lost probe comes back after all: what it says is out of date.
    circuit.report(failed, lost, 41)
    assert phase(circuit) == "half_open"
    circuit.report(succeeded, second, 42)
    assert phase(circuit) == "closed"


def test_calls_from_before_it_opened_have_no_say_afterwards() -> None:
    circuit = Circuit("api")
    slow = _admitted(circuit, 0)
    opened(circuit)
    circuit.report(succeeded, slow, 1)
    assert phase(circuit) == "open"


def test_a_probe_that_says_nothing_about_the_dependency_is_given_back() -> None:
    circuit = Circuit("api")
    opened(circuit)
    circuit.report(ignored, _admitted(circuit, 30), 30)
    assert _admitted(circuit, 30).probe


def test_each_change_is_told_once() -> None:
    circuit = Circuit("api", CircuitSettings(failures=2))
    told: list[CircuitChange | None] = []
    told.append(circuit.report(failed, _admitted(circuit, 0), 0))
    told.append(circuit.report(failed, _admitted(circuit, 0), 0))
    permit, change = circuit.admit(30)
    assert permit is not None
    told += [change, circuit.admit(30)[1], circuit.report(succeeded, permit, 31)]
    assert [(change.before, change.after, change.failures) if change else None for change in told] == [
        None,
        ("closed", "open", 2),
        ("open", "half_open", 0),
        None,
        ("half_open", "closed", 0),
    ]


@given(st.lists(st.tuples(st.sampled_from(["admit", "succeeded", "failed", "ignored"]), st.floats(0, 20)), max_size=80))
def test_there_is_never_more_than_one_probe_at_a_time_and_the_circuit_never_wedges(
    story: list[tuple[str, float]],
) -> None:
    settings = CircuitSettings(failures=2, cooldown=10, probe_expires=15)
    circuit = Circuit("api", settings)
    now, held, probe_since = 0.0, [], None
    for what, passes in story:
        now += passes
        if what == "admit":
            before = circuit.state.phase
            permit, _ = circuit.admit(now)
            if permit is not None:
                held.append(permit)
                if permit.probe:
                    assert before == "open" or now - probe_since >= settings.probe_expires  # type: ignore[operator]
                    probe_since = now
        elif held:
            circuit.report({"succeeded": succeeded, "failed": failed, "ignored": ignored}[what], held.pop(0), now)
    later = now + settings.cooldown + settings.probe_expires
    assert not refused(circuit, later)


def test_exactly_one_of_many_threads_is_the_probe() -> None:
    for _ in range(50):
        circuit = Circuit("api")
        opened(circuit)
        barrier = threading.Barrier(8)

        def knock(circuit: Circuit = circuit, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            return not refused(circuit, 30.0)

        with ThreadPoolExecutor(8) as pool:
            admitted = list(pool.map(lambda _: knock(), range(8)))
        assert admitted.count(True) == 1


@pytest.mark.parametrize("settings", [{"failures": 0}, {"cooldown": 0}, {"probe_expires": -1}])
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="circuit"):
        CircuitSettings(**settings)  # type: ignore[arg-type]


def _admitted(circuit: Circuit, now: float) -> Permit:
    permit, _ = circuit.admit(now)
    assert permit is not None
    return permit


def refused(circuit: Circuit, now: float) -> bool:
    return circuit.admit(now)[0] is None


def test_a_circuit_that_is_held_open_lets_no_probe_through_and_closes_with_a_ramp() -> None:
    circuit = Circuit("bank", CircuitSettings(cooldown=10.0))
    permit, _ = circuit.admit(0.0)
    assert permit is not None
    opened = circuit.hold_open("opened by hand by anna", 1.0)
    assert opened is not None
    assert (opened.before, opened.after, opened.failures) == ("closed", "open", 0)
    assert opened.by_hand == "opened by hand by anna"
    assert circuit.hold_open("opened by hand by anna", 2.0) is None
    # Neither time nor what began before opens the way.
    circuit.report(succeeded, permit, 3.0)
    assert circuit.admit(1_000.0) == (None, None)
    assert circuit.next_turn(1_000.0) == 1_010.0
    closed = circuit.close("closed by hand by anna", 1_001.0)
    assert closed is not None
    assert (closed.after, closed.recovery, circuit.is_recovering) == ("closed", "began", True)
    assert circuit.close("closed by hand by anna", 1_002.0) is None
    assert circuit.admit(1_003.0)[0] is not None
