"""A traceback through a guard shows the user's code, and redrive at most twice."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import redrive

PACKAGE = str(Path(redrive.__file__).parent)
AT_ONCE: Any = {"backoff": 0, "floor": 0, "jitter": "none"}


def fail() -> None:
    raise ConnectionError("down")


async def afail() -> None:
    await asyncio.sleep(0)
    fail()


def items() -> Iterator[int]:
    yield 1
    fail()


async def async_items() -> AsyncIterator[int]:
    yield 1
    await afail()


def frames_of(error: BaseException) -> tuple[list[str], list[str]]:
    """The names of redrive's functions in the traceback, and those of this file."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame.name for frame in frames if frame.filename.startswith(PACKAGE)]
    return ours, [frame.name for frame in frames if frame.filename == __file__]


def call_guarded(**settings: Any) -> Any:
    return redrive.retry(**settings)(fail)()


def call_retrier(**settings: Any) -> Any:
    return redrive.Retrier(**settings).call(fail)


def loop_over_attempts(**settings: Any) -> None:
    settings.pop("attempt_timeout", None)
    for attempt in redrive.attempts(**settings):
        with attempt:
            fail()


def consume_generator(**settings: Any) -> None:
    settings.pop("attempt_timeout", None)
    for _ in redrive.retry(generators="restart", **settings)(items)():
        pass


async def await_guarded(**settings: Any) -> None:
    await redrive.retry(**settings)(afail)()


async def await_retrier(**settings: Any) -> None:
    await redrive.Retrier(**settings).acall(afail)


async def loop_over_async_attempts(**settings: Any) -> None:
    async for attempt in redrive.attempts(**settings):
        with attempt:
            await afail()


async def consume_async_generator(**settings: Any) -> None:
    settings.pop("attempt_timeout", None)
    async for _ in redrive.retry(generators="restart", **settings)(async_items)():
        pass


SETTINGS: list[dict[str, Any]] = [
    {"attempts": 1},
    {"attempts": 3, **AT_ONCE},
    {"attempts": 3, "dependency": "tracebacks", **AT_ONCE},
    {"attempts": 3, "attempt_timeout": 30, **AT_ONCE},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
@pytest.mark.parametrize("call", [call_guarded, call_retrier, loop_over_attempts, consume_generator])
def test_a_traceback_has_two_frames_of_redrive_at_most(call: Callable[..., Any], settings: dict[str, Any]) -> None:
    redrive.define_dependency("tracebacks")
    with pytest.raises(ConnectionError) as caught:
        call(**settings)
    ours, users = frames_of(caught.value)
    assert len(ours) <= 2, ours
    assert users[1:] in ([call.__name__, "fail"], [call.__name__, "items", "fail"], ["fail"])


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
@pytest.mark.parametrize("call", [await_guarded, await_retrier, loop_over_async_attempts, consume_async_generator])
def test_so_has_the_traceback_of_a_coroutine(call: Callable[..., Awaitable[Any]], settings: dict[str, Any]) -> None:
    redrive.define_dependency("tracebacks")

    async def main() -> None:
        # The first call in a loop finds that loop, which must not show either.
        for _ in range(2):
            with pytest.raises(ConnectionError) as caught:
                await call(**settings)
            ours, users = frames_of(caught.value)
            assert len(ours) <= 2, ours
            assert users[-2:] == ["afail", "fail"]

    asyncio.run(main())


def test_arguments_that_do_not_fit_are_reported_at_the_call() -> None:
    with pytest.raises(TypeError, match="takes 0 positional arguments") as caught:
        redrive.retry(fail)(1)  # type: ignore[call-arg]
    assert len(frames_of(caught.value)[0]) <= 2
