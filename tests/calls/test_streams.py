"""Generators are retried until their first item: after it, a retry would repeat output."""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest
import trio

import redrive
from redrive.errors import StreamBrokenError
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.testing import VirtualClock, virtual_clock

Script = list[list[Any]]
"""One list per time the stream is opened: items to yield, errors to raise."""


def consumed(kind: str, script: Script, got: list[Any], **settings: Any) -> None:
    """Read a guarded stream of the given kind into `got`."""

    def stream() -> Iterator[Any]:
        for item in script.pop(0):
            if isinstance(item, BaseException):
                raise item
            yield item

    async def async_stream() -> AsyncIterator[Any]:
        for item in stream():
            yield item

    async def main() -> None:
        async for item in redrive.retry(**settings)(async_stream)():
            got.append(item)  # noqa: PERF401 - what was read before an error counts

    if kind == "plain":
        got.extend(redrive.retry(**settings)(stream)())
    elif kind == "asyncio":
        asyncio.run(main())
    else:
        trio.run(main)


kinds = pytest.mark.parametrize("kind", ["plain", "asyncio", "trio"])


@kinds
@pytest.mark.promise("L5")
def test_a_stream_that_fails_before_its_first_item_is_opened_again(kind: str) -> None:
    script: Script = [[ConnectionError("refused")], [TimeoutError("slow")], ["a", "b"]]
    got: list[Any] = []
    with virtual_clock() as clock:
        consumed(kind, script, got)
    assert (got, script, len(clock.waits)) == (["a", "b"], [], 2)


@kinds
@pytest.mark.promise("L5")
def test_a_stream_that_breaks_after_output_is_not_retried_and_says_so(kind: str) -> None:
    cause = ConnectionResetError("reset by peer")
    script: Script = [[ConnectionError("refused")], ["a", "b", cause], ["never"]]
    got: list[Any] = []
    with virtual_clock() as clock, pytest.raises(StreamBrokenError) as caught:
        consumed(kind, script, got, dependency=f"streams-{kind}")
    error = caught.value
    assert got == ["a", "b"]
    assert script == [["never"]]
    assert (error.chunks, error.__cause__, len(clock.waits)) == (2, cause, 1)
    assert str(error).startswith("the stream broke after 2 chunks and was not retried")
    report = redrive.report_of(error)
    assert report is not None
    assert (report.gave_up.kind, report.made) == ("output_handed_on", 2)


@kinds
@pytest.mark.promise("L5")
@pytest.mark.parametrize("error", [ValueError("wrong"), RuntimeError("new")], ids=["permanent", "unknown"])
def test_what_no_policy_retries_is_raised_as_it_is_also_after_output(kind: str, error: Exception) -> None:
    got: list[Any] = []
    with virtual_clock(), pytest.raises(type(error)) as caught:
        consumed(kind, [["a", error]], got)
    assert (caught.value, got) == (error, ["a"])
    assert redrive.report_of(error) is not None


@pytest.mark.promise("L5")
def test_whoever_collects_the_whole_stream_may_retry_it() -> None:
    script: Script = [["a", ConnectionResetError()], ["a", "b"]]

    @redrive.retry
    def stream() -> Iterator[str]:
        for item in script.pop(0):
            if isinstance(item, Exception):
                raise item
            yield item

    @redrive.retry
    def collect() -> str:
        return "".join(stream())

    with virtual_clock() as clock:
        assert collect() == "ab"
    assert len(clock.waits) == 1, "the enclosing call owns the retries"


def test_a_broken_stream_counts_as_what_broke_it() -> None:
    def category(error: Exception) -> str:
        return DEFAULT_CLASSIFIER.failure_of(error, 0.0).category

    assert category(StreamBrokenError(3, ConnectionResetError())) == "transient"
    assert category(StreamBrokenError(3, ValueError())) == "permanent"
    lost = StreamBrokenError(1, ConnectionResetError())
    lost.__cause__ = None
    assert category(lost) == "unknown", "as after its copy was sent to another process"


async def hang_at_once(clock: VirtualClock) -> AsyncIterator[int]:
    await clock.asleep(3600)
    yield 1


async def take_an_hour(clock: VirtualClock) -> AsyncIterator[int]:
    yield 1
    await clock.asleep(3600)
    yield 2


@pytest.mark.parametrize("run", [lambda main: asyncio.run(main()), trio.run], ids=["asyncio", "trio"])
@pytest.mark.promise("L5")
def test_time_limits_hold_until_the_first_item(run: Callable[[Any], None]) -> None:
    with virtual_clock() as clock:

        async def main() -> None:
            guarded = redrive.retry(deadline=100, attempt_timeout=10, attempts=2, backoff=0, jitter="none", floor=0)
            with pytest.raises(redrive.AttemptTimeoutError):
                await anext(guarded(hang_at_once)(clock))
            assert clock.now == 10 + 15
            assert [item async for item in guarded(take_an_hour)(clock)] == [1, 2]

        run(main)


def test_a_guarded_stream_function_is_still_one() -> None:
    @redrive.retry
    def items() -> Iterator[int]:
        yield 1

    @redrive.retry
    async def async_items() -> AsyncIterator[int]:
        yield 1

    assert inspect.isgeneratorfunction(items)
    assert inspect.isasyncgenfunction(async_items)


def test_the_set_up_of_a_context_manager_is_retried_and_its_body_is_not() -> None:
    story: list[str] = []

    @contextlib.contextmanager
    @redrive.retry
    def session() -> Iterator[str]:
        story.append("open")
        if story.count("open") < 2:
            raise ConnectionError("refused")
        yield "session"

    with virtual_clock(), pytest.raises(ConnectionError, match="in the body"), session():
        raise ConnectionError("in the body")
    assert story == ["open", "open"]


def test_a_consumer_that_leaves_early_neither_fails_nor_succeeds() -> None:
    closed: list[bool] = []

    @redrive.retry(dependency="left-early")
    def items() -> Generator[int, None, None]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    reading = items()
    assert next(reading) == 1
    reading.close()
    assert closed == [True]
