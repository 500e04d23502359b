"""A guarded function takes exactly what the bare one takes, and every attempt gets the same."""

import asyncio
import gc
import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

import redrive
from redrive.testing import no_waits

# Parameters of every kind, some under names that a guard might use itself, and how they are passed on.
SHAPES = [
    ("", ""),
    ("x", "x"),
    ("x='x'", "x"),
    ("x, y=2", "x, y"),
    ("x, y, z", "x, y, z"),
    ("x, y=2, /", "x, y"),
    ("x, /, y", "x, y"),
    ("x, y, z, w=4", "x, y, z, w"),
    ("x, *, y=2", "x, y"),
    ("*args, **kwargs", "*args, **kwargs"),
    ("x, *args", "x, *args"),
    ("function, scope, guard='guard'", "function, scope, guard"),
    ("args, kwargs", "args, kwargs"),
    ("c, error, task='task'", "c, error, task"),
    ("x, y", "*(lambda: (x, y))()"),
]
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    *((tuple(range(number)), {}) for number in range(6)),
    ((), {"x": 1}),
    ((1,), {"y": 5}),
    ((1,), {"x": 1}),
    ((), {"x": 1, "y": 5}),
    ((), {"x": 1, "y": 5, "z": 6}),
    ((1,), {"scope": 5}),
    ((), {"function": 1, "scope": 5}),
    ((1,), {"kwargs": 5}),
    ((1,), {"error": 5}),
    ((1,), {"nothing": 5}),
]
KINDS = ["def", "async def"]


class Work:
    """Answers with what it is told; the first `failures` times it fails instead."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise ConnectionError
        return args, kwargs


def made(kind: str, shape: tuple[str, str], work: Work) -> Callable[..., Any]:
    parameters, arguments = shape
    names: dict[str, Any] = {"work": work}
    exec(f"{kind} function({parameters}):\n    return work({arguments})\n", names)  # noqa: S102 - the shapes above
    function: Callable[..., Any] = names["function"]
    return function


def outcome(call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What a call answers, or the words in which it is refused."""
    try:
        answer = call(*args, **kwargs)
        return asyncio.run(answer) if inspect.iscoroutine(answer) else answer
    except TypeError as error:
        return str(error)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    # As in most programs: a call then finds its task by the shorter way.
    monkeypatch.delitem(sys.modules, "trio", raising=False)
    return str(request.param)


@pytest.mark.promise("P16")
@pytest.mark.parametrize("shape", SHAPES, ids=[parameters for parameters, _ in SHAPES])
@pytest.mark.parametrize("failures", [0, 2])
def test_every_attempt_gets_the_arguments_and_wrong_ones_are_refused_in_the_words_of_the_function(
    kind: str, shape: tuple[str, str], failures: int
) -> None:
    accepted = 0
    with no_waits():
        for args, kwargs in CALLS:
            expected = outcome(made(kind, shape, Work()), args, kwargs)
            guarded = redrive.retry(made(kind, shape, Work(failures)))
            assert outcome(guarded, args, kwargs) == expected
            accepted += isinstance(expected, tuple)
    assert accepted


@pytest.mark.parametrize("shape", SHAPES, ids=[parameters for parameters, _ in SHAPES])
def test_so_it_is_without_a_test_clock_and_inside_another_call(kind: str, shape: tuple[str, str]) -> None:
    for args, kwargs in CALLS:
        expected = outcome(made(kind, shape, Work()), args, kwargs)
        guarded = redrive.retry(made(kind, shape, Work()))
        assert outcome(guarded, args, kwargs) == expected
        again = redrive.retry(backoff=0, floor=0, jitter="none")(made(kind, shape, Work(1)))
        assert outcome(again, args, kwargs) == expected

        def inside(guarded: Callable[..., Any] = guarded) -> Any:
            return outcome(guarded, args, kwargs)  # noqa: B023 - called at once

        assert redrive.retry(inside)() == expected


def test_a_guarded_function_can_be_called_as_its_type_and_signature_say(kind: str) -> None:
    default: list[int] = []
    bare = made(kind, ("x, y=None, /", "x, y"), Work())
    bare.__defaults__ = (default,)
    guarded = redrive.retry(bare)
    assert inspect.signature(guarded) == inspect.signature(bare)
    assert inspect.iscoroutinefunction(guarded) is (kind == "async def")
    assert outcome(guarded, (1,), {})[0][1] is default


class Failed(ConnectionError):
    pass


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("error", [Failed, Interrupted])
@pytest.mark.parametrize("settings", [{}, {"dependency": "arguments"}, {"attempt_timeout": 30}], ids=repr)
@pytest.mark.parametrize("attempts", [1, 3])
def test_an_error_that_was_raised_is_not_kept_alive_by_its_call(
    kind: str, attempts: int, settings: dict[str, Any], error: type[BaseException]
) -> None:
    redrive.define_dependency("arguments")

    def fail(*_: Any) -> Any:
        raise error

    work: Any = fail
    guarded = redrive.retry(attempts=attempts, backoff=0, floor=0, jitter="none", **settings)(
        made(kind, ("x", ""), work)
    )

    async def in_a_task() -> None:
        with pytest.raises(error):
            await guarded(1)

    def one_call() -> None:
        if kind == "async def":
            asyncio.run(in_a_task())
        else:
            with pytest.raises(error):
                guarded(1)

    one_call()
    gc.collect()
    gc.disable()
    try:
        one_call()
        alive = [one for one in gc.get_objects() if type(one) is error]
    finally:
        gc.enable()
    assert not alive
