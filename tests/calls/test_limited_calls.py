"""Guarded calls keep the limits of their dependency: they wait for room, or say when there is some."""

import asyncio

import pytest

import redrive
from redrive.calls.dependency_use import DependencyUse
from redrive.calls.shared_dependencies import DEPENDENCIES
from redrive.errors import LimitReachedError
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.resilience import CircuitSettings, LimitSettings
from redrive.resilience import circuit as circuits
from redrive.resilience.circuit import Circuit
from redrive.resilience.dependencies import Dependency
from redrive.resilience.limits import ONE_REQUEST, Grant, Limits
from redrive.telemetry.events import CallRefused
from redrive.testing import virtual_clock


def test_a_call_waits_for_room_if_its_deadline_allows_that() -> None:
    redrive.define_dependency("limited", limits=LimitSettings(requests_per_minute=2))
    retrier = redrive.Retrier(dependency="limited", deadline=100)
    with virtual_clock() as clock:
        began = [retrier.call(lambda: clock.now) for _ in range(3)]
    assert began == [0, 0, 61]


def test_every_attempt_counts_and_the_wait_for_room_is_no_attempt() -> None:
    redrive.define_dependency("limited", limits=LimitSettings(requests_per_minute=2))
    began: list[float] = []
    with virtual_clock() as clock:

        async def main() -> None:
            async for attempt in redrive.attempts(dependency="limited", deadline=200, backoff=1, jitter="none"):
                with attempt:
                    began.append(clock.now)
                    if len(began) < 3:
                        raise ConnectionError("refused")

        asyncio.run(main())
    assert began == [0, 1, 61]


def test_a_loop_that_must_wait_before_its_first_attempt() -> None:
    redrive.define_dependency("limited", limits=LimitSettings(requests_per_minute=1))
    began: list[float] = []
    with virtual_clock() as clock:
        for _ in range(2):
            for attempt in redrive.attempts(dependency="limited", deadline=200):
                with attempt:
                    began.append(clock.now)
    assert began == [0, 61]


def test_without_time_to_wait_the_call_is_not_made_and_says_when_to_come_back() -> None:
    redrive.define_dependency("limited", limits=LimitSettings(requests_per_minute=1))
    seen: list[object] = []
    retrier = redrive.Retrier(dependency="limited", deadline=10, on_event=seen.append)
    with virtual_clock():
        retrier.call(len, "abc")
        with pytest.raises(LimitReachedError, match=r"1 request per minute.*room again in 61 s") as caught:
            retrier.call(len, "abc")
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.gave_up.kind == "rate_limit"
    assert [event.limit for event in seen if isinstance(event, CallRefused)] == ["1 request per minute"]
    failure = DEFAULT_CLASSIFIER.failure_of(caught.value, 0.0)
    assert (failure.category, failure.retry_after, failure.not_sent) == ("transient", 61, True)


def test_a_call_that_never_fits_is_a_permanent_failure() -> None:
    error = LimitReachedError("model", "1000 tokens per minute", None)
    assert "the call alone is larger" in str(error)
    assert DEFAULT_CLASSIFIER.failure_of(error, 0.0).category == "permanent"


def test_a_caller_that_is_cancelled_while_it_waits_gives_its_place_back() -> None:
    redrive.define_dependency("limited", limits=LimitSettings(requests_per_minute=1))
    retrier = redrive.Retrier(dependency="limited", deadline=1000)

    async def call() -> None:
        return None

    async def main() -> None:
        await retrier.acall(call)
        waiting = asyncio.create_task(retrier.acall(call))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        limits = DEPENDENCIES.get("limited").limits
        assert limits is not None
        assert not limits._waiting

    with virtual_clock():
        asyncio.run(main())


def test_an_open_circuit_refuses_at_once_whatever_the_limits_say() -> None:
    circuit = redrive.CircuitSettings(failures=1, cooldown=500)
    redrive.define_dependency("limited", circuit=circuit, limits=LimitSettings(requests_per_minute=1))
    retrier = redrive.Retrier(dependency="limited", attempts=1, deadline=100)

    def fail() -> None:
        raise ConnectionError("refused")

    with virtual_clock() as clock:
        with pytest.raises(ConnectionError):
            retrier.call(fail)
        with pytest.raises(redrive.CircuitOpenError):
            retrier.call(fail)
    assert clock.now == 0


def test_an_attempt_that_was_made_stays_counted_when_the_circuit_refuses_the_next() -> None:
    limits, circuit = Limits(LimitSettings(requests_per_minute=1)), Circuit("limited", CircuitSettings(failures=2))
    dependency = Dependency("limited", circuit, None, limits)
    patient, other = DependencyUse(dependency), DependencyUse(dependency)
    assert patient.reserve_room(ONE_REQUEST, 0.0, None) is None
    for use in (patient, other):
        use.begin_attempt(0.0, first=True)
        use.report(circuits.failed, 0.0)
    # The circuit has opened while the call waited for its retry.
    assert patient.reserve_room(ONE_REQUEST, 1.0, None) is None
    refusal, _ = patient.begin_attempt(1.0, first=False)
    assert refusal is not None
    assert limits.reserve(ONE_REQUEST, 1.0) == Grant(61.0, ONE_REQUEST)
