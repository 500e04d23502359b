"""The headers with which a guarded call tells the next process who retries, and how much time is left."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

import redrive
from redrive.calls.ownership_headers import RETRY_OWNER, read_ownership
from redrive.calls.scope import CURRENT, owns_retries
from redrive.integrations.ownership import inherit_ownership, ownership_headers
from redrive.testing import virtual_clock

STEP = {"Redrive-Delivery-Token": "d", "Redrive-Attempt": "2"}


def test_outside_a_guarded_call_there_are_none() -> None:
    assert ownership_headers() == {}
    redrive.Retrier().call(lambda: None)
    assert ownership_headers() == {}


@pytest.mark.promise("L4")
@pytest.mark.parametrize("timeout", [None, 5])
def test_each_attempt_says_its_number_and_the_time_left(timeout: int | None) -> None:
    sent: list[dict[str, str]] = []

    def work() -> None:
        sent.append(ownership_headers())
        raise ConnectionError

    policy = redrive.Policy(backoff=redrive.constant(10), jitter=redrive.policies.Jitter("none"), deadline=25)
    with virtual_clock(), pytest.raises(ConnectionError):
        redrive.Retrier(policy, attempt_timeout=timeout).call(work)
    left = ["25.000", "15.000", "5.000"] if timeout is None else ["5.000"] * 3
    assert sent == [
        {"Redrive-Attempt": str(number), "Redrive-Deadline": seconds} for number, seconds in enumerate(left, start=1)
    ]


def test_the_fast_path_says_the_same() -> None:
    sent: list[dict[str, str]] = []

    @redrive.retry(backoff=0, floor=0, jitter="none", deadline=None)
    def work() -> None:
        sent.append(ownership_headers())
        raise ConnectionError

    with pytest.raises(ConnectionError):
        work()
    assert sent == [{"Redrive-Attempt": str(number)} for number in (1, 2, 3)]

    @redrive.retry(backoff=0, floor=0, jitter="none", deadline=None)
    async def work_async() -> None:
        work_async.sent.append(ownership_headers())  # type: ignore[attr-defined]
        raise ConnectionError

    work_async.sent = []  # type: ignore[attr-defined]
    with pytest.raises(ConnectionError):
        asyncio.run(work_async())
    assert work_async.sent == sent  # type: ignore[attr-defined]


def test_a_call_that_does_not_retry_says_only_its_deadline() -> None:
    with virtual_clock():
        assert redrive.Retrier(attempts=1, deadline=9).call(ownership_headers) == {"Redrive-Deadline": "9.000"}


def test_a_nested_call_speaks_for_the_owner() -> None:
    """The number is that of the call that retries; the time is that of the call with less of it."""
    sent: list[dict[str, str]] = []
    inner = redrive.Retrier(deadline=3)
    same_deadline = redrive.Retrier(deadline=None)

    def work() -> None:
        sent.append(inner.call(ownership_headers))
        sent.append(same_deadline.call(ownership_headers))
        raise ConnectionError

    policy = redrive.Policy(attempts=2, backoff=redrive.constant(0.1), jitter=redrive.policies.Jitter("none"))
    with virtual_clock(), pytest.raises(ConnectionError):
        redrive.Retrier(policy, deadline=60).call(work)
    assert [one["Redrive-Attempt"] for one in sent] == ["1", "1", "2", "2"]
    assert [float(one["Redrive-Deadline"]) for one in sent] == [3, 60, 3, 59.9]


@pytest.mark.parametrize(
    ("headers", "attempt", "retries", "seconds"),
    [
        ({}, None, False, None),
        ({"Redrive-Attempt": "3", "Redrive-Deadline": "2.5"}, 3, True, 2.5),
        ({"redrive-attempt": " 3 ", "REDRIVE-DEADLINE": "0"}, 3, True, 0.0),
        ({"Redrive-Attempt": "003"}, 3, True, None),
        ({"Redrive-Deadline": "12.345"}, None, False, 12.345),
        ({**STEP, "Redrive-Deadline": "1"}, 2, False, 1.0),
        ({**STEP, RETRY_OWNER: "redrive"}, 2, True, None),
    ],
)
def test_the_headers_are_read(
    headers: Mapping[str, str], attempt: int | None, retries: bool, seconds: float | None
) -> None:
    found = read_ownership(headers)
    assert (found.attempt, found.retries, found.seconds_left) == (attempt, retries, seconds)


@pytest.mark.parametrize(
    "wrong",
    ["", "0", "000", "-1", "1.5", "x", "1" * 10, "0" * 5000 + "1", "١", "1,2", "1 2", "0x1", "1_0", "\x00"],  # noqa: RUF001 - a digit that is no ASCII
    ids=lambda wrong: ascii(wrong[:12]),
)
def test_a_number_that_cannot_be_read_is_ignored(wrong: str) -> None:
    assert read_ownership({"Redrive-Attempt": wrong}) == read_ownership({})


@pytest.mark.parametrize("wrong", ["", "-1", "1e9", "inf", "nan", "x", "1" * 10, "1.", ".5", "1.5.5", "١", "1s"])  # noqa: RUF001 - as above
def test_a_time_that_cannot_be_read_is_ignored(wrong: str) -> None:
    assert read_ownership({"Redrive-Deadline": wrong}) == read_ownership({})


def attempts_made(headers: Mapping[str, str], **settings: Any) -> int:
    made = []

    def work() -> None:
        made.append(redrive.time_left())
        raise ConnectionError

    with inherit_ownership(headers), pytest.raises((ConnectionError, redrive.DeadlineExceededError)):
        redrive.Retrier(**settings).call(work)
    return len(made)


@pytest.mark.promise("L4")
def test_guarded_code_leaves_the_retries_to_its_caller() -> None:
    with virtual_clock():
        assert attempts_made({}) == 3
        assert attempts_made({"Redrive-Attempt": "1"}) == 1
        assert attempts_made({"Redrive-Attempt": "1"}, independent=True) == 3
        assert attempts_made({**STEP, RETRY_OWNER: "redrive"}) == 1
        assert attempts_made(STEP) == 3


@pytest.mark.promise("L4")
@pytest.mark.parametrize("headers", [{"Redrive-Attempt": "2"}, {"Redrive-Attempt": "2", "Redrive-Deadline": "60"}])
@pytest.mark.parametrize("attempts", [1, 3])
def test_a_failure_has_its_report_whoever_retries(headers: Mapping[str, str], attempts: int) -> None:
    """A handler that reads the report must not depend on what its caller sends."""
    events: list[Any] = []

    def work() -> None:
        inner.call(raise_connection_error)

    def raise_connection_error() -> None:
        raise ConnectionError("lost")

    inner = redrive.Retrier(operation="inner", on_event=events.append)
    outer = redrive.Retrier(attempts=attempts, operation="outer", on_event=events.append)
    with virtual_clock(), inherit_ownership(headers), pytest.raises(ConnectionError) as caught:
        outer.call(work)
    report = redrive.report_of(caught.value)
    assert report is not None
    assert (report.operation, report.made, report.gave_up.kind) == ("outer", 1, "nested")
    assert [event.operation for event in events][-1] == "outer"


def test_a_loop_over_attempts_has_its_report_too() -> None:
    def work() -> None:
        for attempt in redrive.attempts():
            with attempt:
                raise ConnectionError

    with virtual_clock(), inherit_ownership({"Redrive-Attempt": "1"}), pytest.raises(ConnectionError) as caught:
        work()
    report = redrive.report_of(caught.value)
    assert report is not None
    assert (report.made, report.gave_up.kind) == (1, "nested")


@pytest.mark.promise("L4")
def test_guarded_code_stays_within_its_callers_time() -> None:
    with virtual_clock() as clock:
        before = clock.monotonic()
        # A third attempt would begin too late.
        assert attempts_made({"Redrive-Deadline": "2.5"}, backoff=2, jitter="none") == 2
        assert clock.monotonic() - before <= 2.5
        assert attempts_made({"Redrive-Deadline": "0"}) == 0
        with inherit_ownership({"Redrive-Attempt": "1", "Redrive-Deadline": "7"}):
            assert redrive.time_left() == 7
            assert redrive.Retrier(deadline=3).call(redrive.time_left) == 3
        assert redrive.time_left() is None


def test_an_attempt_that_hangs_is_cut_at_the_callers_deadline() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        with inherit_ownership({"Redrive-Attempt": "1", "Redrive-Deadline": "0.05"}):
            await redrive.Retrier().acall(hang)

    with pytest.raises(redrive.DeadlineExceededError):
        asyncio.run(main())


@pytest.mark.promise("L4")
def test_the_next_process_hears_of_the_first_owner() -> None:
    """A process in the middle passes the number on, and the time that is left by then."""
    with virtual_clock() as clock, inherit_ownership({"Redrive-Attempt": "4", "Redrive-Deadline": "9"}):
        clock.sleep_until(clock.monotonic() + 2)
        assert redrive.Retrier().call(ownership_headers) == {"Redrive-Attempt": "4", "Redrive-Deadline": "7.000"}


def test_work_that_outlives_the_request_owns_its_retries_again() -> None:
    async def late(made: list[int]) -> None:
        @redrive.retry(backoff=0, floor=0, jitter="none")
        async def work() -> None:
            made.append(1)
            raise ConnectionError

        with pytest.raises(ConnectionError):
            await work()

    async def main() -> list[int]:
        made: list[int] = []
        with inherit_ownership({"Redrive-Attempt": "1", "Redrive-Deadline": "5"}):
            task = asyncio.create_task(late(made))
        await task
        return made

    assert asyncio.run(main()) == [1, 1, 1]


def test_a_stream_inside_the_block_may_be_closed_by_another_task() -> None:
    async def stream() -> AsyncGenerator[int, None]:
        with inherit_ownership({"Redrive-Attempt": "2"}):
            yield 1

    async def main() -> bool:
        chunks = stream()
        await anext(chunks)
        owned_meanwhile = owns_retries(CURRENT.get())
        await asyncio.create_task(chunks.aclose())
        return owned_meanwhile and not owns_retries(CURRENT.get())

    assert asyncio.run(main())
