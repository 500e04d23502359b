"""Circuits and budgets around guarded calls."""

import asyncio

import pytest

import redrive
from redrive.determinism.clock import current_clock
from redrive.resilience.circuit import failed
from redrive.telemetry.events import AttemptFailed, CallRefused, CircuitChanged, CircuitRecovery, Event
from redrive.testing import virtual_clock


def dependency(
    name: str = "payments", *, floor: int = 1000, ratio: float = 0.2, failures: int = 5
) -> redrive.resilience.Dependency:
    return redrive.resilience.Dependency(
        name,
        redrive.resilience.Circuit(name, redrive.CircuitSettings(failures=failures)),
        redrive.resilience.Budget(redrive.BudgetSettings(floor=floor, ratio=ratio)),
    )


@pytest.mark.promise("P13")
def test_five_failures_open_the_circuit_and_calls_are_refused_without_being_made() -> None:
    calls = []

    @redrive.retry(dependency=dependency())
    def pay() -> str:
        calls.append(1)
        raise ConnectionError

    with virtual_clock() as clock:
        with pytest.raises(ConnectionError):
            pay()
        with pytest.raises(ConnectionError) as caught:
            pay()
        # The fifth failure opened it, so the second call stopped there.
        assert len(calls) == 5
        report = redrive.report_of(caught.value)
        assert report is not None
        assert report.gave_up.kind == "circuit_open"
        with pytest.raises(redrive.CircuitOpenError) as refused:
            pay()
        assert len(calls) == 5
        assert refused.value.dependency == "payments"
        assert refused.value.retry_in == pytest.approx(30)
        clock.advance(31)
        with pytest.raises(ConnectionError):
            pay()
        assert len(calls) == 6
        with pytest.raises(redrive.CircuitOpenError):
            pay()


@pytest.mark.promise("P13")
def test_a_probe_that_succeeds_closes_the_circuit() -> None:
    healthy = False

    @redrive.retry(dependency=dependency())
    async def pay() -> str:
        if not healthy:
            raise ConnectionError
        return "paid"

    with virtual_clock() as clock:

        async def main() -> None:
            nonlocal healthy
            for _ in range(2):
                with pytest.raises(ConnectionError):
                    await pay()
            healthy = True
            with pytest.raises(redrive.CircuitOpenError):
                await pay()
            clock.advance(31)
            assert await pay() == "paid"
            assert await pay() == "paid"

        asyncio.run(main())


@pytest.mark.promise("P13")
def test_one_probe_even_when_many_tasks_knock() -> None:
    reached = []
    release = asyncio.Event()

    @redrive.retry(dependency=dependency(), attempts=1, deadline=None)
    async def pay() -> None:
        reached.append(1)
        if len(reached) > 5:
            await release.wait()
            return
        raise ConnectionError

    with virtual_clock() as clock:

        async def main() -> list[object]:
            for _ in range(5):
                with pytest.raises(ConnectionError):
                    await pay()
            clock.advance(31)
            tasks = [asyncio.ensure_future(pay()) for _ in range(100)]
            await asyncio.sleep(0)
            release.set()
            return await asyncio.gather(*tasks, return_exceptions=True)

        results = asyncio.run(main())
    assert len(reached) == 6
    assert results.count(None) == 1
    assert sum(isinstance(result, redrive.CircuitOpenError) for result in results) == 99


@pytest.mark.promise("P13")
def test_a_cancelled_probe_is_given_back() -> None:
    calls = []

    @redrive.retry(dependency=dependency(), attempts=1, deadline=None)
    async def pay() -> None:
        calls.append(1)
        if len(calls) == 6:
            await asyncio.Event().wait()
        if len(calls) < 6:
            raise ConnectionError

    with virtual_clock() as clock:

        async def main() -> None:
            for _ in range(5):
                with pytest.raises(ConnectionError):
                    await pay()
            clock.advance(31)
            probe = asyncio.ensure_future(pay())
            await asyncio.sleep(0)
            probe.cancel()
            with pytest.raises(asyncio.CancelledError):
                await probe
            await pay()

        asyncio.run(main())
    assert len(calls) == 7


@pytest.mark.promise("P13")
def test_failures_that_say_nothing_about_the_dependency_do_not_open_it() -> None:
    class NotFoundError(Exception):
        status_code = 404

    @redrive.retry(dependency=dependency(failures=2))
    def call(error: Exception) -> None:
        raise error

    with virtual_clock():
        for error in (NotFoundError(), ValueError(), NotFoundError(), ValueError(), NotFoundError()):
            with pytest.raises(type(error)):
                call(error)


@pytest.mark.promise("P13")
def test_each_attempt_counts_once_for_a_dependency_that_two_layers_name() -> None:
    shared = dependency(failures=4)

    @redrive.retry(dependency=shared)
    def inner() -> None:
        raise ConnectionError

    @redrive.retry(dependency=shared)
    def outer() -> None:
        inner()

    with virtual_clock():
        with pytest.raises(ConnectionError):
            outer()
        assert shared.circuit is not None
        assert shared.circuit.state.failures == 3


@pytest.mark.promise("P13")
def test_failures_that_the_policy_was_told_to_retry_open_it() -> None:
    class BusyError(Exception):
        pass

    calls = []

    @redrive.retry(retry_on=(redrive.TRANSIENT, BusyError), dependency=dependency(), attempts=2)
    def call() -> None:
        calls.append(1)
        raise BusyError

    with virtual_clock():
        for _ in range(3):
            with pytest.raises(BusyError):
                call()
        with pytest.raises(redrive.CircuitOpenError):
            call()
    assert len(calls) == 5


@pytest.mark.promise("P13", "P16")
def test_a_circuit_that_is_open_inside_ends_the_outer_call_at_once() -> None:
    shared = dependency(failures=1)

    @redrive.retry(dependency=shared)
    def inner() -> str:
        raise ConnectionError

    with virtual_clock() as clock:
        with pytest.raises(ConnectionError):
            inner()
        with pytest.raises(redrive.CircuitOpenError) as caught:
            redrive.retry(lambda: inner())()
        assert clock.waits == []
        report = redrive.report_of(caught.value)
        assert report is not None
        assert report.gave_up.kind == "circuit_open"
        assert redrive.retry(fallback="degraded")(lambda: inner())() == "degraded"


@pytest.mark.promise("P13")
def test_settings_that_come_after_the_guard_hold_for_it_too() -> None:
    @redrive.retry(dependency="defined-late", attempts=1)
    def call() -> None:
        raise ConnectionError

    defined = redrive.define_dependency("defined-late", circuit=redrive.CircuitSettings(failures=2))
    assert call.retrier.dependency is defined  # type: ignore[attr-defined]  # the guarded function's Retrier
    with virtual_clock():
        for expected in (ConnectionError, ConnectionError, redrive.CircuitOpenError):
            with pytest.raises(expected):
                call()


@pytest.mark.promise("P13")
def test_names_share_a_circuit_across_the_process_and_changes_are_told() -> None:
    events: list[Event] = []
    stop = redrive.listen(events.append)

    @redrive.retry(dependency="test-circuit-by-name", attempts=5)
    def one() -> None:
        raise ConnectionError

    @redrive.retry(dependency="test-circuit-by-name")
    def other() -> None:
        raise AssertionError("the circuit is open")

    try:
        with virtual_clock():
            with pytest.raises(ConnectionError):
                one()
            with pytest.raises(redrive.CircuitOpenError):
                other()
    finally:
        stop()
    changes = [event for event in events if isinstance(event, CircuitChanged)]
    assert [(change.dependency, change.after) for change in changes] == [("test-circuit-by-name", "open")]
    assert any(isinstance(event, CallRefused) for event in events)


@pytest.mark.promise("P14")
def test_retries_stop_when_the_budget_is_spent() -> None:
    calls = []

    @redrive.retry(dependency=dependency(floor=3, ratio=0.1, failures=10_000), attempts=3)
    def call() -> None:
        calls.append(1)
        raise ConnectionError

    kinds = []
    with virtual_clock():
        for _ in range(100):
            with pytest.raises(ConnectionError) as caught:
                call()
            report = redrive.report_of(caught.value)
            assert report is not None
            kinds.append(report.gave_up.kind)
    # 100 first attempts, and retries of at most a tenth of them within any minute.
    assert 100 + 3 <= len(calls) <= 100 + 13
    assert kinds[-1] == "budget"


@pytest.mark.promise("P14")
def test_a_retry_that_is_not_made_costs_no_budget() -> None:
    shared = dependency(floor=1, ratio=0)

    @redrive.retry(dependency=shared, attempts=1)
    def once() -> None:
        raise ConnectionError

    @redrive.retry(dependency=shared, attempts=2)
    def twice() -> None:
        raise ConnectionError

    with virtual_clock():
        for _ in range(3):
            with pytest.raises(ConnectionError):
                once()
        assert shared.budget is not None
        assert shared.budget.left(0) == 1
        with pytest.raises(ConnectionError) as caught:
            twice()
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.gave_up.kind in ("exhausted", "circuit_open")


@pytest.mark.promise("P13")
def test_a_broken_predicate_is_raised_with_the_failure_and_gives_the_probe_back() -> None:
    shared = dependency()

    def broken(error: object) -> bool:
        raise RuntimeError("the predicate is broken")

    @redrive.retry(dependency=shared, attempts=1)
    def fail() -> None:
        raise ConnectionError("down")

    with virtual_clock() as clock:
        for _ in range(5):
            with pytest.raises(ConnectionError):
                fail()
        clock.advance(31)
        with pytest.raises(RuntimeError) as caught:
            redrive.retry(dependency=shared, retry_result=broken)(lambda: "fine")()
        with pytest.raises(RuntimeError) as caught:
            redrive.retry(retry_on=broken, attempts=2)(_down)()
        assert isinstance(caught.value.__context__, ConnectionError)
        assert redrive.retry(dependency=shared)(lambda: "fine")() == "fine"


def test_a_predicate_is_asked_once_about_each_failure() -> None:
    asked: list[object] = []

    def note(error: object) -> bool:
        asked.append(error)
        return True

    @redrive.retry(retry_on=note, attempts=2)
    def fail() -> None:
        raise RuntimeError

    with virtual_clock(), pytest.raises(RuntimeError):
        fail()
    assert len(asked) == 2


def _down() -> None:
    raise ConnectionError("down")


@pytest.mark.promise("P13", "P16")
def test_a_refusal_inside_that_is_wrapped_is_still_one_and_says_nothing_about_another_dependency() -> None:
    inside, outside = dependency("inside", failures=1), dependency("outside", failures=2)

    @redrive.retry(dependency=inside)
    def inner() -> None:
        raise ConnectionError

    @redrive.retry(dependency=outside)
    def outer() -> None:
        try:
            inner()
        except redrive.CircuitOpenError as error:
            raise ConnectionError("no price today") from error

    with virtual_clock() as clock:
        with pytest.raises(ConnectionError):
            inner()
        for _ in range(5):
            with pytest.raises(ConnectionError) as caught:
                outer()
            report = redrive.report_of(caught.value)
            assert report is not None
            assert report.gave_up.kind == "circuit_open"
        assert clock.waits == []
    assert outside.circuit is not None
    assert outside.circuit.state.phase == "closed"


@pytest.mark.promise("P14")
def test_a_retry_that_was_cancelled_during_its_wait_is_given_back() -> None:
    shared = dependency(floor=1, ratio=0)

    @redrive.retry(dependency=shared, backoff=3600, max_wait=None, deadline=None)
    async def fail() -> None:
        raise ConnectionError

    async def main() -> None:
        task = asyncio.ensure_future(fail())
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert shared.budget is not None
    assert shared.budget._left() == 1


@pytest.mark.promise("P14")
def test_a_retry_that_the_circuit_refuses_is_given_back() -> None:
    shared = dependency(floor=1, ratio=0, failures=2)
    assert shared.circuit is not None
    assert shared.budget is not None

    def someone_else_fails(event: Event) -> None:
        if isinstance(event, AttemptFailed):
            permit, _ = shared.circuit.admit(0.0)  # type: ignore[union-attr]  # it has a circuit
            assert permit is not None
            shared.circuit.report(failed, permit, 0.0)  # type: ignore[union-attr]  # as above

    with virtual_clock(), pytest.raises(redrive.CircuitOpenError):
        redrive.retry(dependency=shared, on_event=someone_else_fails)(_down)()
    assert shared.budget.left(0) == 1


@pytest.mark.promise("P13")
@pytest.mark.parametrize("each_second", [20, 200])
def test_steady_calls_over_the_share_of_a_recovering_dependency_fail_fast_and_the_others_succeed(
    each_second: int,
) -> None:
    """A hundred calls a second, to what can do more than that or less."""
    services = redrive.resilience.Dependencies()
    seen: dict[int, int] = {}
    made, refused, succeeded = 0, 0, 0
    told: list[str] = []
    refusals: list[tuple[float, bool, float]] = []

    def note(event: Event) -> None:
        if isinstance(event, CircuitRecovery):
            told.append(event.stage)

    @redrive.retry(attempts=1, dependency=services.get("busy"), on_event=note)
    def call(up_since: float) -> None:
        nonlocal made
        now = current_clock().monotonic()
        made += now >= up_since
        seen[int(now)] = seen.get(int(now), 0) + 1
        if now < up_since or seen[int(now)] > each_second:
            raise ConnectionError("busy")

    with virtual_clock() as clock:
        up_since = clock.now + 5
        while clock.now < up_since + 65:
            clock.advance(0.01)
            is_late = clock.now > up_since + 45
            try:
                call(up_since)
                succeeded += is_late
            except redrive.CircuitOpenError as error:
                refused += is_late
                refusals.append((clock.now - up_since, error.recovering, error.retry_in))
            except ConnectionError:
                pass
    # In the last twenty seconds: close to what it can do, and without a call too many refused by it.
    assert succeeded > 0.75 * 20 * min(each_second, 100)
    assert told[0] == "began"
    assert all(retry_in >= 0 for _, _, retry_in in refusals)
    assert all(recovering for since, recovering, _ in refusals if since > 35)
    if each_second > 100:
        assert refused == 0
        assert told[-1] == "ended"
    else:
        assert made < 1.3 * 40 * each_second
