"""What an action sees and may do, and how its attempts are limited."""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

import redrive
from redrive import Policy, RetryPolicy, Workflow, action, current_attempt, workflow
from redrive.client.app import App
from redrive.failures.matching import NOTHING
from redrive.flows.events import AttemptFailed, AttemptStarted
from redrive.policies import Rule
from redrive.testing import VirtualClock, flow_app, virtual_clock


def in_virtual_time(scenario: Callable[[App, VirtualClock], Awaitable[None]], **settings: Any) -> None:
    async def run(clock: VirtualClock) -> None:
        async with redrive.open("memory://", **settings) as app:
            await scenario(app, clock)

    with virtual_clock() as clock:
        asyncio.run(run(clock))


@pytest.mark.promise("A12", "R2")
def test_an_action_sees_its_attempt_and_the_receipt_token_is_the_same_on_all_of_them() -> None:
    seen = []

    @action
    async def flaky() -> str:
        attempt = current_attempt()
        seen.append((attempt.number, attempt.receipt_token, attempt.delivery_token, attempt.last_details))
        attempt.heartbeat({"page": attempt.number})
        if attempt.number < 3:
            raise ConnectionError
        return attempt.flow_id

    async def scenario(app: App, clock: VirtualClock) -> None:
        handle = await app.start(flaky(), retry=RetryPolicy(attempts=3, backoff_seconds=60, jitter=0))
        assert await handle.result() == handle.id
        assert [number for number, *_ in seen] == [1, 2, 3]
        assert len({receipt for _, receipt, _, _ in seen}) == 1
        assert len({delivery for _, _, delivery, _ in seen}) == 3
        assert [details for *_, details in seen] == [None, {"page": 1}, {"page": 2}]
        assert clock.now == pytest.approx(60 + 120)

    in_virtual_time(scenario)


def test_a_heartbeat_without_details_keeps_the_last_ones_of_this_attempt_or_of_an_earlier_one() -> None:
    seen = []

    @action
    async def flaky() -> None:
        attempt = current_attempt()
        attempt.heartbeat()
        if attempt.number == 2:
            attempt.heartbeat({"cursor": 5})
            attempt.heartbeat()
        seen.append(attempt.last_details)
        if attempt.number < 4:
            raise ConnectionError

    async def scenario(app: App, clock: VirtualClock) -> None:
        handle = await app.start(flaky(), retry=RetryPolicy(attempts=4, backoff_seconds=60))
        await handle.result()
        assert seen == [None, None, {"cursor": 5}, {"cursor": 5}]

    in_virtual_time(scenario)


@pytest.mark.promise("P8", "R4")
def test_an_attempt_that_takes_too_long_is_cut_and_the_next_gets_half_as_much_again() -> None:
    limits = []

    @action
    async def slow() -> None:
        limits.append(current_attempt().timeout)
        await asyncio.Event().wait()

    @workflow
    class Impatient(Workflow):
        async def run(self) -> str:
            try:
                await self.run_action(
                    slow(), retry=RetryPolicy(attempts=3, backoff_seconds=1, jitter=0), timeout=timedelta(seconds=10)
                )
            except TimeoutError as error:
                report = redrive.report_of(error)
                assert report is not None
                return f"{type(error).__name__} after {report.made}"
            return "?"

    async def scenario(app: App, clock: VirtualClock) -> None:
        handle = await app.start(Impatient.call())
        assert await handle.result() == "AttemptTimeoutError after 3"
        assert limits == [pytest.approx(10), pytest.approx(15), pytest.approx(15)]
        assert clock.now == pytest.approx(10 + 1 + 15 + 2 + 15)

    in_virtual_time(scenario)


@pytest.mark.promise("P6")
def test_a_deadline_holds_for_all_attempts_together() -> None:
    made = []

    @action
    async def away() -> None:
        made.append(1)
        raise ConnectionError

    async def scenario(app: App, clock: VirtualClock) -> None:
        policy = Policy(
            attempts=None, deadline=10.0, backoff=redrive.constant(3), jitter=redrive.policies.Jitter("none")
        )
        handle = await app.start(away(), retry=policy)
        with pytest.raises(ConnectionError) as raised:
            await handle.result()
        report = redrive.report_of(raised.value)
        assert report is not None
        assert report.gave_up.kind == "deadline"
        assert len(made) == 4
        assert clock.now < 10

    in_virtual_time(scenario)


def test_plain_functions_run_in_threads_and_no_more_than_allowed_at_once() -> None:
    running: set[int] = set()
    most = 0
    both = threading.Barrier(2, timeout=10)

    @action
    def blocking(n: int) -> str:
        nonlocal most
        running.add(n)
        most = max(most, len(running))
        both.wait()
        running.discard(n)
        return threading.current_thread().name

    async def run() -> None:
        async with redrive.open("memory://", threads=2) as app:
            handles = [await app.start(blocking(n)) for n in range(6)]
            names = [await handle.result(timeout=20) for handle in handles]
        assert most == 2
        assert all(name.startswith("redrive-action") for name in names)

    asyncio.run(run())


@pytest.mark.promise("P16")
def test_inside_an_action_the_engine_owns_the_retries() -> None:
    calls = []

    @redrive.retry(attempts=5, backoff=0, floor=0)
    async def guarded() -> None:
        calls.append(1)
        raise ConnectionError

    @action
    async def outer() -> None:
        await guarded()

    async def scenario(app: App, clock: VirtualClock) -> None:
        handle = await app.start(outer(), retry=RetryPolicy(attempts=3, backoff_seconds=1))
        with pytest.raises(ConnectionError):
            await handle.result()
        assert len(calls) == 3

    in_virtual_time(scenario)


def test_requests_made_by_an_action_keep_their_idempotency_key_on_every_attempt() -> None:
    from redrive.calls.idempotency_keys import current_keys

    keys = []

    @action
    async def post() -> None:
        made = current_keys()
        assert made is not None
        keys.append(made.key_for("POST", "https://example.org/charge"))
        raise ConnectionError

    async def scenario(app: App, clock: VirtualClock) -> None:
        handle = await app.start(post(), retry=RetryPolicy(attempts=3, backoff_seconds=1))
        with pytest.raises(ConnectionError):
            await handle.result()
        assert len(keys) == 3
        assert len(set(keys)) == 1

    in_virtual_time(scenario)


@pytest.mark.promise("R6", "A9")
def test_a_waiting_retry_is_a_row_that_says_what_waits_and_until_when() -> None:
    @action
    async def away() -> None:
        raise ConnectionError

    async def scenario(app: App, clock: VirtualClock) -> None:
        policy = Policy(
            attempts=4,
            backoff=redrive.exponential(7200),
            jitter=redrive.policies.Jitter("none"),
            max_wait=None,
            deadline=None,
            attempt_timeout=30.0,
            timeout_retries=2,
        )
        began = clock.wall()
        await app.start(away(), retry=policy, queue="slow")
        while not (rows := await app.retries()):  # noqa: ASYNC110 - the row is in a store
            await asyncio.sleep(0)
        (row,) = rows
        assert row.attempt_number == 1
        assert row.max_retries == 3
        assert row.timeout_seconds == 30
        assert row.timeout_retry_limit == 2
        assert row.backoff_kind == "exponential"
        assert row.backoff_base_delay_ms == 7_200_000
        assert row.retry_kind == "exception"
        assert row.scheduled_at == pytest.approx(began + 7200)
        assert (row.queue, row.status, row.step) == ("slow", "waiting", "away")
        assert row.delivery_token is None

    in_virtual_time(scenario)


@pytest.mark.promise("R6")
@pytest.mark.parametrize(
    ("retries", "limit"),
    [((2, 3), 5), ((2, None), None)],
    ids=["each rule has a limit", "one rule has none"],
)
def test_the_row_of_a_retry_that_only_rules_allow_has_the_sum_of_their_limits(
    retries: tuple[int | None, int | None], limit: int | None
) -> None:
    @action
    async def reset() -> None:
        raise ConnectionResetError

    async def scenario(app: App, clock: VirtualClock) -> None:
        policy = Policy(
            attempts=None,
            retry_on=NOTHING,
            rules=tuple(
                Rule(match=kind, retries=most) for kind, most in zip((OSError, KeyError), retries, strict=True)
            ),
            backoff=redrive.constant(7200),
            max_wait=None,
            deadline=None,
        )
        await app.start(reset(), retry=policy)
        while not (rows := await app.retries()):  # noqa: ASYNC110 - the row is in a store
            await asyncio.sleep(0)
        assert [row.max_retries for row in rows] == [limit]

    in_virtual_time(scenario)


@pytest.mark.promise("R6")
def test_the_row_of_a_retry_that_runs_names_that_attempt_and_its_token() -> None:
    tokens: list[str] = []
    runs, may_end = asyncio.Event(), asyncio.Event()

    @action
    async def second_time() -> None:
        if current_attempt().number == 1:
            raise ConnectionError
        tokens.append(current_attempt().delivery_token)
        runs.set()
        await may_end.wait()

    async def scenario(app: App, clock: VirtualClock) -> None:
        await app.start(second_time(), retry=RetryPolicy(attempts=3, backoff_seconds=60))
        await runs.wait()
        (row,) = await app.retries()
        assert (row.status, row.attempt_number, row.max_retries) == ("dispatched", 1, 2)
        assert [row.delivery_token] == tokens
        may_end.set()

    in_virtual_time(scenario)


@pytest.mark.promise("P18")
def test_a_result_that_does_not_fit_its_type_is_poison_and_is_not_tried_again() -> None:
    made = []

    @action
    async def wrong() -> int:
        made.append(1)
        return "many"  # type: ignore[return-value]

    async def scenario(app: App, clock: VirtualClock) -> None:
        handle = await app.start(wrong(), retry=RetryPolicy(attempts=5))
        with pytest.raises(redrive.errors.SerializationError, match="action wrong"):
            await handle.result()
        (letter,) = await app.dead_letters()
        assert letter.kind == "poison"
        assert made == [1]

    in_virtual_time(scenario)


def test_arguments_that_cannot_be_stored_are_refused_at_the_call() -> None:
    @action
    async def takes(data: Any) -> None: ...

    @action
    async def counts(n: int) -> None: ...

    with pytest.raises(redrive.errors.SerializationError, match="action takes: argument data"):
        takes(object())
    with pytest.raises(TypeError, match="n"):
        counts("three")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="action counts: missing a required argument: 'n'"):
        counts()  # type: ignore[call-arg]


def test_a_call_that_is_made_twice_takes_the_same_arguments_twice_though_the_action_changes_them() -> None:
    @action(name="actions.take")
    async def take(items: list[int]) -> int:
        items.append(9)
        return len(items)

    @workflow
    class TwiceTheSame(Workflow):
        async def run(self) -> list[int]:
            call = take([1])
            return [await self.run_action(call), await self.run_action(call)]

    async def scenario(app: App, clock: VirtualClock) -> None:
        handle = await app.start(TwiceTheSame.call())
        assert await handle.result() == [2, 2]

    in_virtual_time(scenario)


def test_outside_of_a_flow_an_action_is_the_function_itself() -> None:
    @action
    async def twice(n: int) -> int:
        return 2 * n

    @action
    def plain(n: int) -> int:
        return n + 1

    async def scenario() -> None:
        assert await twice(4) == 8
        assert await plain(4) == 5
        with pytest.raises(RuntimeError, match="only inside an action"):
            current_attempt()

    asyncio.run(scenario())


@pytest.mark.promise("A9", "A13")
def test_the_log_alone_tells_when_and_why_each_retry_happened() -> None:
    @action
    async def away() -> str:
        if current_attempt().number < 3:
            raise ConnectionError("gone")
        return "back"

    async def scenario(app: App, clock: VirtualClock) -> None:
        handle = await app.start(away(), retry=RetryPolicy(attempts=3, backoff_seconds=10))
        assert await handle.result() == "back"
        lines = await app.log(handle.id)
        started = [line for line in lines if isinstance(line.event, AttemptStarted)]
        failed = [line for line in lines if isinstance(line.event, AttemptFailed)]
        for number, line in enumerate(failed):
            assert isinstance(line.event, AttemptFailed)
            decision = line.event.decision
            assert isinstance(decision, redrive.policies.RetryAt)
            assert decision.because.matched == "any failure"
            assert decision.because.raw == 10 * 2**number
            assert started[number + 1].at >= decision.when == pytest.approx(line.at + 10 * 2**number)
            assert line.event.failure.category == "transient"

    in_virtual_time(scenario)


def test_an_action_that_leaves_the_program_fails_and_the_worker_goes_on() -> None:
    @action
    async def leave() -> None:
        raise SystemExit(3)

    @action
    async def fine() -> str:
        return "fine"

    async def scenario(app: App, clock: VirtualClock) -> None:
        handle = await app.start(leave(), retry=RetryPolicy(attempts=3))
        with pytest.raises(RuntimeError, match="action leave raised SystemExit"):
            await handle.result()
        assert await (await app.start(fine())).result() == "fine"

    in_virtual_time(scenario)


class NetworkError(Exception): ...


class RateLimitError(NetworkError): ...


ATTEMPTS, SECONDS, NO_JITTER = 4, 2.5, redrive.policies.Jitter("none")


@pytest.mark.promise("R5", "R2", "R3", "R10")
@pytest.mark.parametrize(
    ("retry", "waits"),
    [
        (RetryPolicy(attempts=ATTEMPTS, backoff_seconds=SECONDS, jitter=0), [2.5, 5, 10]),
        (
            RetryPolicy(2, ["NetworkError"], backoff_seconds=timedelta(minutes=1), jitter=0),
            [60],
        ),
        (RetryPolicy(attempts=3, exception_types=[NetworkError], backoff_seconds=1, jitter=0), [1, 2]),
        (RetryPolicy(attempts=3, exception_types=["OtherError"], backoff_seconds=1), []),
        ([RetryPolicy(3, ["RateLimitError"], 7, jitter=0), RetryPolicy(5, ["NetworkError"], 1)], [7, 14]),
        ([RetryPolicy(5, ["OtherError"], 7), RetryPolicy(3, ["NetworkError"], 1, jitter=0)], [1, 2]),
        ("[NetworkError -> retry: 2, backoff: 30s] [timeout: 2m]", [30, 60]),
        (
            Policy(
                attempts=2,
                retry_on=redrive.ANYTHING,
                backoff=redrive.constant(9),
                jitter=redrive.policies.Jitter("none"),
            ),
            [9],
        ),
    ],
)
@pytest.mark.parametrize("timeout", [None, 5, 0.5, timedelta(minutes=2), "2m"])
def test_run_action_takes_its_policy_in_every_form_and_keeps_to_it(
    retry: Any, waits: list[float], timeout: Any
) -> None:
    @action
    async def limited() -> None:
        raise RateLimitError("slow down")

    @workflow
    class Asking(Workflow):
        async def run(self) -> str:
            try:
                await self.run_action(limited(), retry=retry, timeout=timeout)
            except NetworkError as error:
                return f"{type(error).__name__}: {error}"
            return "?"

    async def scenario(app: App, clock: VirtualClock) -> None:
        handle = await app.start(Asking.call())
        assert await handle.result() == "RateLimitError: slow down"
        decisions = [line.event.decision for line in await app.log(handle.id) if isinstance(line.event, AttemptFailed)]
        assert [one.because.wait for one in decisions if isinstance(one, redrive.policies.RetryAt)] == waits
        assert clock.now == pytest.approx(sum(waits))

    in_virtual_time(scenario)


@pytest.mark.promise("P18")
def test_an_action_that_takes_its_process_down_three_times_is_poison() -> None:
    from tests.runners.process_actions import die

    async def run() -> None:
        async with redrive.open("memory://", processes=1) as app:
            handle = await app.start(die("SIGSEGV"), retry=RetryPolicy(attempts=None))
            with pytest.raises(redrive.errors.AttemptLostError):
                await handle.result(timeout=60)
            (letter,) = await app.dead_letters()
            assert (letter.kind, letter.attempts) == ("poison", 3)

    asyncio.run(run())


def test_arguments_of_every_kind_reach_an_action_in_a_process_of_its_own() -> None:
    from tests.runners.process_actions import spread

    @workflow(name="actions.Spreading")
    class Spreading(Workflow):
        async def run(self) -> list[int]:
            return await spread(1, 2, 3, last=4, more=5)

    async def run() -> None:
        async with redrive.open("memory://", processes=1) as app:
            assert await (await app.start(Spreading.call())).result(timeout=60) == [1, 2, 3, 4, 5]

    asyncio.run(run())


def test_an_action_that_raises_generator_exit_fails_like_any_other() -> None:
    @action
    async def leaves_oddly() -> None:
        raise GeneratorExit

    async def scenario(app: App, clock: VirtualClock) -> None:
        handle = await app.start(leaves_oddly())
        with pytest.raises(RuntimeError, match="GeneratorExit"):
            await handle.result(timeout=5)

    in_virtual_time(scenario)


@pytest.mark.parametrize("in_thread", [True, False])
def test_work_that_a_pool_of_the_action_dropped_is_retried_wherever_the_action_runs(in_thread: bool) -> None:
    """Unlike asyncio's, this error does not say that the task around it is to end."""

    def use_a_pool() -> int:
        if current_attempt().number == 1:
            raise concurrent.futures.CancelledError("dropped")
        return current_attempt().number

    async def use_it() -> int:
        return use_a_pool()

    policy = RetryPolicy(attempts=3, exception_types=["concurrent.futures._base.CancelledError"], backoff_seconds=1)
    called: Any = action(name="actions.uses_a_pool", retry=policy)(use_a_pool if in_thread else use_it)

    async def scenario() -> None:
        async with flow_app() as app:
            assert (await app.outcome(await app.start(called()))).result == 2

    asyncio.run(scenario())


def test_an_action_whose_error_cannot_be_looked_at_parks_its_flow_and_does_not_hang() -> None:
    class Lying(Exception):
        @property  # type: ignore[misc]
        def __class__(self) -> Any:
            raise RuntimeError("no")

    @action(name="actions.lies")
    async def lies() -> None:
        raise Lying

    async def run() -> None:
        async with redrive.open("memory://") as app:
            handle = await app.start(lies())
            async with asyncio.timeout(10):
                while await handle.status() != "parked":  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)

    asyncio.run(run())


def test_who_finds_all_threads_held_by_calls_that_were_given_up_waits_in_line() -> None:
    may_end = threading.Event()

    @action(name="actions.hangs", timeout=60, retry=RetryPolicy(attempts=1))
    def hangs() -> None:
        may_end.wait(30)

    @action(name="actions.quick", timeout=60, retry=RetryPolicy(attempts=1))
    def quick() -> str:
        return "ran"

    @workflow(name="actions.OneAfterTheOther")
    class OneAfterTheOther(Workflow):
        async def run(self) -> str:
            with contextlib.suppress(TimeoutError):
                await hangs()
            waiting = asyncio.ensure_future(quick())
            await asyncio.sleep(3600)
            return await waiting

    async def scenario() -> None:
        async with flow_app(threads=1) as app:
            handle = await app.start(OneAfterTheOther.call())
            await app.until(lambda: app.clock.now >= 3600)
            may_end.set()
            outcome = await app.outcome(handle)
            assert outcome.result == "ran"
            assert [one.step for one in outcome.executed] == ["actions.hangs", "actions.quick"]

    asyncio.run(scenario())


@pytest.mark.parametrize("ends", ["stop", "cancel"])
def test_a_thread_that_hangs_holds_up_no_shutdown(ends: str) -> None:
    began, may_end = threading.Event(), threading.Event()

    @action(name="actions.hangs_on")
    def hangs_on() -> None:
        began.set()
        may_end.wait(30)

    async def scenario() -> None:
        async with redrive.open("memory://", threads=1, grace=0.0) as app:
            handle = await app.start(hangs_on())
            await asyncio.to_thread(began.wait, 30)
            if ends == "cancel":
                await handle.cancel()
        assert not may_end.is_set()
        may_end.set()

    asyncio.run(scenario())


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_workflow_may_change_what_an_action_gave_without_changing_what_the_action_keeps(in_thread: bool) -> None:
    kept = {"a": [1, 2]}

    def plain() -> dict[str, list[int]]:
        return kept

    async def in_loop() -> dict[str, list[int]]:
        return kept

    decorate: Any = action(name=f"actions.known {in_thread}")
    known = decorate(plain if in_thread else in_loop)

    @workflow(name=f"Changes {in_thread}")
    class Changes(Workflow):
        async def run(self) -> dict[str, list[int]]:
            given: dict[str, list[int]] = await self.run_action(known())
            given["a"].append(3)
            return given

    async def scenario(app: App, clock: VirtualClock) -> None:
        assert await (await app.start(Changes.call())).result() == {"a": [1, 2, 3]}

    in_virtual_time(scenario)
    assert kept == {"a": [1, 2]}
