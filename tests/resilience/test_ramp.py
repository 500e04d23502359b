"""The ramp after an outage: as a state machine, against servers that can do only so much, on times of their own."""

import heapq
import math
import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.resilience.circuit import Circuit, CircuitSettings, CircuitState, Permit, failed, ignored, succeeded
from redrive.resilience.ramp import DOWN, FIRST_RATE, LOWEST_RATE, QUIET

pytestmark = pytest.mark.promise("P13")

Serve = Callable[[float], bool]
"""Whether the server does the request of this time."""


def recovering(now: float = 31.0) -> Circuit:
    """A circuit whose probe has just succeeded."""
    circuit = Circuit("api")
    for _ in range(5):
        circuit.report(failed, admitted(circuit, 0.0), 0.0)
    circuit.report(succeeded, admitted(circuit, now), now)
    assert circuit.state.phase == "closed"
    assert circuit.is_recovering
    return circuit


def admitted(circuit: Circuit, now: float) -> Permit:
    permit, _ = circuit.admit(now)
    assert permit is not None
    return permit


def rate(circuit: Circuit) -> float:
    assert circuit.state.ramp is not None
    return circuit.state.ramp.rate


def in_windows(each_second: int) -> Serve:
    """So many in each second of the clock: the usual rate limit of a gateway."""
    seen: dict[int, int] = {}

    def serve(now: float) -> bool:
        seen[int(now)] = seen.get(int(now), 0) + 1
        return seen[int(now)] <= each_second

    return serve


def from_a_bucket(each_second: int, burst: int) -> Serve:
    tokens, at = float(burst), 0.0

    def serve(now: float) -> bool:
        nonlocal tokens, at
        tokens, at = min(burst, tokens + (now - at) * each_second), now
        if tokens < 1:
            return False
        tokens -= 1
        return True

    return serve


class Drained(msgspec.Struct):
    seconds: float
    refused: float
    """The share of requests."""
    opened: int
    most_at_once: int


def drain(serve: Serve, items: int, took: Callable[[float], float], seed: int = 1) -> Drained:
    """Do `items` calls that all wait when the probe succeeds; a refused one comes back after one or two seconds."""
    dice, began = random.Random(seed), 31.0 + seed / 7
    circuit, now, queue, done, refused, opened, running, most = recovering(began), began, items, 0, 0, 0, 0, 0
    ahead: list[tuple[float, int, Permit | None, bool]] = []
    number = 0
    while done < items:
        assert now < began + 3600, f"{done} of {items} done"
        while queue and (permit := circuit.admit(now)[0]) is not None:
            queue, number, running = queue - 1, number + 1, running + 1
            most = max(most, running)
            heapq.heappush(ahead, (now + took(now), number, permit, serve(now)))
        turn = circuit.next_turn(now) if queue else math.inf
        now = max(now, min(turn, ahead[0][0] if ahead else math.inf))
        while ahead and ahead[0][0] <= now:
            _, _, ended, is_done = heapq.heappop(ahead)
            if ended is None:
                queue += 1
                continue
            running -= 1
            change = circuit.report(succeeded if is_done else failed, ended, now)
            opened += change is not None and change.after == "open"
            done, refused = done + is_done, refused + (not is_done)
            if not is_done:
                number += 1
                heapq.heappush(ahead, (now + 1 + dice.random(), number, None, False))
    return Drained(now - began, refused / (done + refused), opened, most)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("serve", "each_second", "items"),
    [
        (lambda: in_windows(50), 50, 2000),
        (lambda: from_a_bucket(50, 1), 50, 2000),
        (lambda: from_a_bucket(50, 50), 50, 2000),
        (lambda: in_windows(5), 5, 300),
        (lambda: from_a_bucket(5, 1), 5, 300),
        (lambda: from_a_bucket(500, 10), 500, 10_000),
    ],
    ids=["50/s in windows", "50/s evenly", "50/s with bursts", "5/s in windows", "5/s evenly", "500/s"],
)
def test_a_dependency_that_can_do_only_so_much_gets_about_that(
    serve: Callable[[], Serve], each_second: int, items: int, seed: int
) -> None:
    drained = drain(serve(), items, took=lambda _: 0.005, seed=seed)
    assert drained.seconds < 1.4 * items / each_second
    # With five a second, it takes few refusals to find out.
    assert drained.refused < (0.1 if each_second > 5 else 0.15)
    assert drained.opened == 0


def test_a_dependency_that_can_do_anything_gets_everything_within_seconds() -> None:
    drained = drain(lambda _: True, 5000, took=lambda _: 0.005)
    assert drained.seconds < 8
    assert drained.refused == 0


def test_a_dependency_that_answers_slowly_instead_of_refusing_is_not_buried() -> None:
    """It does one request after the other, 50 a second; whatever else it got would only wait there."""
    free_at = 0.0

    def took(now: float) -> float:
        nonlocal free_at
        free_at = max(free_at, now) + 0.02
        return free_at - now

    drained = drain(lambda _: True, 1000, took)
    assert drained.seconds < 1.4 * 1000 / 50
    assert drained.most_at_once < 100


def test_a_refusal_slows_it_down_and_does_not_open_the_circuit() -> None:
    circuit = recovering(31.0)
    for _ in range(3):
        circuit.report(succeeded, admitted(circuit, 31.0), 31.0)
    before = rate(circuit)
    change = circuit.report(failed, admitted(circuit, 32.0), 32.0)
    assert change is not None
    assert (change.before, change.after, change.recovery) == ("closed", "closed", "slowed")
    assert change.rate == rate(circuit) < before


def test_calls_that_began_before_a_cut_do_not_cut_again() -> None:
    circuit = recovering(31.0)
    before = [admitted(circuit, 31.0) for _ in range(3)]
    circuit.report(failed, before[0], 31.1)
    cut = rate(circuit)
    circuit.report(failed, before[1], 31.1)
    circuit.report(failed, before[2], 31.2)
    assert rate(circuit) == cut


def test_a_dependency_that_goes_down_again_opens_the_circuit_soon() -> None:
    drained_at, calls, circuit, now = 0.0, 0, recovering(31.0), 31.0
    while circuit.state.phase == "closed":
        circuit.hold_back(now)
        now = max(now, circuit.next_turn(now))
        is_up = now < 34
        circuit.report(succeeded if is_up else failed, admitted(circuit, now), now)
        calls += not is_up
        drained_at = now
    assert 34 + DOWN <= drained_at < 34 + DOWN + 3
    # It was slowed down long before.
    assert calls < 20
    # The clock of the cooldown began anew.
    assert circuit.admit(drained_at + 29.9)[0] is None
    assert admitted(circuit, drained_at + 30).probe


def test_it_ends_when_it_holds_nothing_back_and_nothing_fails() -> None:
    circuit = recovering(31.0)
    circuit.report(succeeded, admitted(circuit, 31.5), 31.5)
    assert circuit.is_recovering
    permit, change = circuit.admit(31.0 + QUIET)
    assert permit is not None
    assert change is not None
    assert (change.before, change.after, change.recovery) == ("closed", "closed", "ended")
    assert circuit.is_unlimited
    assert all(circuit.admit(35.0)[0] is not None for _ in range(10_000))


def test_while_work_waits_it_goes_on() -> None:
    circuit = recovering(31.0)
    for tenth in range(100):
        circuit.hold_back(31.0 + tenth / 10)
    circuit.report(succeeded, admitted(circuit, 41.0), 41.0)
    assert circuit.is_recovering


def test_a_call_over_its_share_is_refused_with_the_time_of_the_next_one() -> None:
    circuit = recovering(31.0)
    while circuit.admit(31.0)[0] is not None:
        pass
    refusal = circuit.refusal(31.0)
    assert refusal.recovering
    assert "is recovering" in str(refusal)
    assert 0 < refusal.retry_in <= 30


def test_calls_that_never_report_back_do_not_block_the_others_for_ever() -> None:
    circuit, now = recovering(31.0), 31.0
    while circuit.admit(now)[0] is not None:
        now += 0.3
    for _ in range(10):
        now += 2.9
        assert circuit.admit(now)[0] is None
    assert circuit.admit(now + 2.0)[0] is not None


def test_its_state_is_plain_data() -> None:
    circuit = recovering(31.0)
    circuit.report(failed, admitted(circuit, 31.0), 31.1)
    state = circuit.state
    assert msgspec.json.decode(msgspec.json.encode(state), type=CircuitState) == state


@given(
    st.lists(
        st.tuples(st.sampled_from(["admit", "admit", "succeeded", "failed", "ignored"]), st.floats(0, 2)), max_size=120
    )
)
def test_whatever_happens_it_keeps_to_its_limit_and_never_wedges(story: list[tuple[str, float]]) -> None:
    settings = CircuitSettings()
    circuit, now, held = recovering(31.0), 31.0, list[Permit]()
    for what, passes in story:
        now += passes
        if what == "admit":
            permit, _ = circuit.admit(now)
            if permit is not None:
                held.append(permit)
        elif held:
            circuit.report({"succeeded": succeeded, "failed": failed, "ignored": ignored}[what], held.pop(0), now)
        ramp = circuit.state.ramp
        if ramp is not None:
            assert 0 <= ramp.running <= max(ramp.limit, len(held))
            assert ramp.rate >= min(LOWEST_RATE, FIRST_RATE)
    later = now + settings.cooldown + settings.probe_expires + 1 / LOWEST_RATE
    assert circuit.admit(later)[0] is not None
