"""Scopes are opened by compiled code or in Python: the two do the same."""

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from redrive.calls import opening, opening_in_python
from redrive.calls.deadline_watch import STEPPING
from redrive.calls.scope import CURRENT, NO_SCOPE, NOBODY, OWNER, STARTED, Scope

FORMS: list[ModuleType] = [opening_in_python]
if opening.COMPILED:
    from redrive.calls import _opening  # type: ignore[attr-defined]  # where it was compiled

    FORMS.append(_opening)

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=FORMS, ids=lambda form: form.__name__.rpartition(".")[2])
def form(request: pytest.FixtureRequest) -> Any:
    return request.param


def place_in(form: Any, loop: Any, only: Scope | None, stepping: Any = STEPPING) -> Any:
    """A place that keeps what it is woken up with."""

    class Place(form.LoopPlace):  # type: ignore[misc]  # it is one of two
        __slots__ = ("__weakref__", "woken")
        woken: Any

        def wake_up(self, scope: Scope, task: Any, before: int) -> None:
            self.woken = scope, task, before

    place = Place()
    place.loop, place.thread, place.stepping = loop, threading.get_ident(), stepping
    place.running = asyncio._get_running_loop
    place.only, place.task, place.before, place.more, place.woken = only, None, 0, {}, None
    return place


@pytest.mark.promise("P16")
@pytest.mark.parametrize(
    ("around", "opened"),
    [(None, True), (NO_SCOPE, True), ([None, 5.0], True), ([NOBODY, 0.0], False), ([object(), 5.0], False)],
    ids=["nothing", "no scope", "an ended call", "a test's clock", "a running call"],
)
def test_a_scope_is_opened_where_no_call_is_running(form: Any, around: Scope | None, opened: bool) -> None:
    def check() -> None:
        if around is not None:
            CURRENT.set(around)
        scope: Scope = ["me", 0.0]
        before = time.monotonic()
        assert form.open_scope(scope) is opened
        assert CURRENT.get() is (scope if opened else around)
        assert scope[OWNER] == "me"
        if opened:
            assert before <= scope[STARTED] <= time.monotonic()
        else:
            assert scope == ["me", 0.0]

    contextvars.Context().run(check)


async def opened_in(place: Any, around: Scope) -> tuple[bool, Scope]:
    CURRENT.set(around)
    scope: Scope = ["me", 0.0]
    return place.open(scope), scope


@pytest.mark.promise("P16", "P6")
def test_a_call_takes_the_free_place_or_stands_with_the_others(form: Any) -> None:
    async def main() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)

        free = place_in(form, loop, only=None)
        opened, scope = await opened_in(free, NO_SCOPE)
        assert opened
        assert CURRENT.get() is scope
        assert scope[STARTED] > 0
        assert (free.only, free.task, free.before, free.more, free.woken) == (scope, task, 1, {}, None)

        other: Scope = ["other", 1.0]
        taken = place_in(form, loop, only=other)
        opened, scope = await opened_in(taken, NO_SCOPE)
        assert opened
        assert taken.only is other
        assert taken.more == {id(scope): (scope, task, 1)}
        assert taken.woken is None

        asleep = place_in(form, loop, only=[])
        opened, scope = await opened_in(asleep, NO_SCOPE)
        assert opened
        assert (asleep.woken, asleep.more) == ((scope, task, 1), {})

    asyncio.run(main())


@pytest.mark.promise("P16", "P6")
def test_a_place_of_another_loop_thread_or_call_is_left_alone(form: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        elsewhere = place_in(form, object(), None)
        another_thread = place_in(form, loop, None)
        another_thread.thread = threading.get_ident() + 1
        of_none = place_in(form, None, None)
        of_none.thread = 0
        # In the middle of a step, too, but another one runs inside of it.
        around = place_in(form, loop, None, stepping={loop: asyncio.current_task(), object(): object()})
        around.running = object
        for place, scope_around in [
            (elsewhere, NO_SCOPE),
            (another_thread, NO_SCOPE),
            (of_none, NO_SCOPE),
            (around, NO_SCOPE),
            (place_in(form, loop, None), [object(), 1.0]),
            (place_in(form, loop, None), [NOBODY, 0.0]),
        ]:
            opened, scope = await opened_in(place, scope_around)
            assert not opened
            assert CURRENT.get() is scope_around
            assert scope == ["me", 0.0]
            assert (place.only, place.more, place.woken) == (None, {}, None)

    asyncio.run(main())


def test_asyncio_is_asked_for_the_task_where_it_keeps_no_record(form: Any) -> None:
    class Asked:
        def get(self, loop: Any) -> Any:
            return asyncio.current_task(loop)

        def __len__(self) -> int:
            return 0

    async def main() -> None:
        place = place_in(form, asyncio.get_running_loop(), None, stepping=Asked())
        place.running = lambda: None
        assert not (await opened_in(place, NO_SCOPE))[0]
        place.running = asyncio._get_running_loop
        assert (await opened_in(place, NO_SCOPE))[0]
        assert place.task is asyncio.current_task()

    asyncio.run(main())


def test_errors_on_the_way_are_raised(form: Any) -> None:
    class Broken:
        def get(self, loop: Any) -> Any:
            raise LookupError("no such task")

        def __len__(self) -> int:
            return 1

        def cancelling(self) -> int:
            raise LookupError("not now")

        def running(self) -> Any:
            raise LookupError("nothing runs")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(LookupError, match="no such task"):
            await opened_in(place_in(form, loop, None, stepping=Broken()), NO_SCOPE)
        with pytest.raises(LookupError, match="not now"):
            await opened_in(place_in(form, loop, None, stepping={loop: Broken()}), NO_SCOPE)
        place = place_in(form, loop, None, stepping={})
        place.running = Broken().running
        with pytest.raises(LookupError, match="nothing runs"):
            await opened_in(place, NO_SCOPE)
        asleep = form.LoopPlace()
        asleep.loop, asleep.thread, asleep.stepping = loop, threading.get_ident(), STEPPING
        asleep.running, asleep.only, asleep.more = asyncio._get_running_loop, [], {}
        with pytest.raises((NotImplementedError, AttributeError)):
            await opened_in(asleep, NO_SCOPE)

    asyncio.run(main())


@pytest.mark.skipif(not opening.COMPILED, reason="there is no C compiler here")
def test_compiled_code_touches_nothing_but_scopes() -> None:
    form = FORMS[-1]
    place = form.LoopPlace()
    wrong: Any
    for wrong in (None, (1, 2), [], [1], "scope", {}):
        with pytest.raises(TypeError, match="a scope is a list"):
            form.open_scope(wrong)
        with pytest.raises(TypeError, match="a scope is a list"):
            place.open(wrong)
    # Nothing of it was set: no call can be opened there.
    assert place.open(["me", 0.0]) is False

    def among_strangers() -> bool:
        CURRENT.set("no scope")  # type: ignore[arg-type]
        return bool(form.open_scope(["me", 0.0]))

    assert contextvars.Context().run(among_strangers) is False


def test_nothing_is_kept_alive(form: Any) -> None:
    async def main() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        free, taken = place_in(form, loop, None), place_in(form, loop, ["other", 0.0])

        def open_many() -> tuple[int, ...]:
            for _ in range(200):
                for place in (free, taken):
                    scope: Scope = [object(), 0.0]
                    assert place.open(scope)
                    scope[OWNER] = None
                    assert form.open_scope(["me", 0.0])
                    CURRENT.get()[OWNER] = None
                free.only = free.task = None
                taken.more.clear()
            gc.collect()
            return len(gc.get_objects()), sys.getrefcount(task), sys.getrefcount(loop), sys.getrefcount(free)

        before = open_many()
        # Python itself may keep a few.
        assert all(now - earlier < 100 for earlier, now in zip(before, open_many(), strict=True))

    contextvars.Context().run(asyncio.run, main())


def test_a_place_that_leads_to_itself_is_collected(form: Any) -> None:
    place = place_in(form, None, None)
    place.more["itself"] = place
    gone = weakref.ref(place)
    del place
    gc.collect()
    assert gone() is None


@pytest.mark.promise("P6", "P16")
def test_guarded_calls_are_the_same_without_compiled_code() -> None:
    """The tests of what is opened, interrupted, cut and nested, in the form that was not chosen here."""
    names = [
        "interrupted_calls",
        "loops_and_deadlines",
        "one_retry_owner",
        "retry_decorator",
        "timeouts_and_cancellation",
    ]
    files = [f"tests/calls/test_{name}.py" for name in names]
    environment = os.environ | {"REDRIVE_PURE_PYTHON": "1"}
    done = subprocess.run(  # noqa: S603 - this interpreter and these tests
        [sys.executable, "-m", "pytest", *files, "-x", "-p", "no:xdist"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    chosen = subprocess.run(
        [sys.executable, "-c", "from redrive.calls.opening import COMPILED; print(COMPILED)"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert chosen.stdout.strip() == "False"
