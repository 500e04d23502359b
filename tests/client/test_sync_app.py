"""The app for programs without an event loop: the same methods, from any thread, and it never hangs."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import shared_server

import redrive
from redrive.client.app import App
from redrive.client.handle import Handle
from redrive.client.sync_app import SyncApp
from redrive.client.sync_handle import SyncHandle
from redrive.stores.records import DeadQuery

PATIENCE = 30.0
WHERE: ContextVar[str] = ContextVar("where")

may_ship = threading.Event()


@redrive.action(name="sync.double")
def double(n: int) -> int:
    return n * 2


@redrive.action(name="sync.naps")
def naps(seconds: float) -> None:
    time.sleep(seconds)


@redrive.action(name="sync.waits")
async def waits() -> str:
    await asyncio.Event().wait()
    return "never"


@redrive.action(name="sync.ships")
async def ships(order: str) -> str:
    if not may_ship.is_set():
        raise redrive.Permanent("out of stock")
    return f"shipped {order}"


@redrive.workflow(name="sync.Order")
class Order(redrive.Workflow):
    async def run(self, order: str) -> str:
        return await self.run_action(ships(order))


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/app.db" if request.param == "sqlite" else shared_server().fresh_database()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[SyncApp]:
    with redrive.open_sync(f"sqlite:///{tmp_path}/app.db", grace=0) as opened:
        yield opened


def public(kind: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind, callable) if not name.startswith("_")}


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


@pytest.mark.promise("L6")
@pytest.mark.parametrize(("kind", "twin"), [(App, SyncApp), (Handle, SyncHandle)])
def test_every_method_has_its_twin_with_the_same_parameters_and_words(kind: type, twin: type) -> None:
    twins = public(twin)
    for name, method in public(kind).items():
        assert name in twins, f"{twin.__name__} lacks {name}"
        assert not inspect.iscoroutinefunction(twins[name])
        assert parameters(twins[name]) == parameters(method), name
        first, _, _ = (method.__doc__ or "").partition("\n")
        assert (twins[name].__doc__ or "").startswith(first.replace("await ", "")), name
    assert {*twins} - {*public(kind)} <= {"open", "close"}


@pytest.mark.promise("L6")
def test_a_flow_is_started_awaited_explained_and_redriven_without_a_loop(address: str) -> None:
    may_ship.clear()
    with redrive.open_sync(address) as app:
        handle = app.start(Order.call("o-17"), key="o-17")
        with pytest.raises(redrive.Permanent, match="out of stock"):
            handle.result(timeout=PATIENCE)
        assert handle.is_new
        assert not app.start(Order.call("o-17"), key="o-17").is_new
        assert handle.status() == "failed"
        assert app.find(handle.id).key == "o-17"
        assert "out of stock" in str(app.explain(handle.id))
        (letter,) = app.dead_letters(DeadQuery(flow_ids=(handle.id,)))
        may_ship.set()
        assert app.redrive(letter.flow_id, by="ann", why="restocked") == [handle.id]
        assert app.handle(handle.id).result(timeout="30s") == "shipped o-17"
        assert app.start(double(4)).result(PATIENCE) == 8
        app.limit_queue("mail", 3)
        assert {one.name: one.limit for one in app.queues()}["mail"] == 3


@pytest.mark.promise("L6")
def test_many_threads_use_one_app_at_once(app: SyncApp) -> None:
    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(lambda n: app.start(double(n)).result(PATIENCE), range(200)))
    assert results == [n * 2 for n in range(200)]
    assert [one.name for one in threading.enumerate()].count("redrive-app") == 1


def test_a_result_that_does_not_come_in_time_is_a_timeout(app: SyncApp) -> None:
    handle = app.start(waits())
    with pytest.raises(TimeoutError, match=rf"flow {handle.id} is still .* after 0.05 s"):
        handle.result(timeout=0.05)
    handle.cancel(by="ann", why="no longer needed")
    with pytest.raises(redrive.FlowCancelledError):
        handle.result(timeout=PATIENCE)


def test_what_the_caller_is_in_reaches_the_app(app: SyncApp) -> None:
    """The context of the calling thread, where correlation ids and traces are kept, is the call's."""
    seen: list[Any] = []

    async def look(_: App) -> None:
        seen.append(WHERE.get())

    WHERE.set("the caller")
    app._run(look)
    assert seen == ["the caller"]


def test_waiting_callers_are_told_when_another_thread_closes_the_app(tmp_path: Path) -> None:
    app = redrive.open_sync(f"sqlite:///{tmp_path}/app.db", grace=0).open()
    handle, told = app.start(waits()), []

    def wait() -> None:
        try:
            handle.result()
        except RuntimeError as error:
            told.append(str(error))

    waiting = [threading.Thread(target=wait) for _ in range(4)]
    for thread in waiting:
        thread.start()
    app.close()
    for thread in waiting:
        thread.join(PATIENCE)
    assert len(told) == 4
    # Those that came too late to wait are told as much.
    assert all("this app was closed" in text or "this app is not open" in text for text in told)


@pytest.mark.parametrize("round_number", range(5))
def test_no_caller_hangs_whenever_the_app_is_closed(tmp_path: Path, round_number: int) -> None:
    app = redrive.open_sync(f"sqlite:///{tmp_path}/app.db", worker=False).open()
    begun, over = threading.Barrier(5), []

    def use() -> None:
        begun.wait()
        try:
            while True:
                app.queues()
        except (RuntimeError, redrive.errors.StoreError):
            over.append(1)

    using = [threading.Thread(target=use) for _ in range(4)]
    for thread in using:
        thread.start()
    begun.wait()
    app.close()
    for thread in using:
        thread.join(PATIENCE)
    assert len(over) == 4


def test_it_can_be_opened_any_number_of_times_and_again_after_it_was_closed(tmp_path: Path) -> None:
    app = redrive.open_sync(f"sqlite:///{tmp_path}/app.db")
    with pytest.raises(RuntimeError, match=r"not open; use it inside `with redrive\.open_sync\(\.\.\.\) as app`"):
        app.queues()
    with app, app.open() as same:
        assert same is app
        assert app.start(double(1)).result(PATIENCE) == 2
    with app:
        assert app.start(double(2)).result(PATIENCE) == 4
    app.close()
    app.close()


def test_a_handle_is_good_for_the_app_that_is_opened_again(tmp_path: Path) -> None:
    app = redrive.open_sync(f"sqlite:///{tmp_path}/app.db", grace=0)
    with app:
        handle = app.start(double(3))
        assert handle.result(PATIENCE) == 6
    with pytest.raises(RuntimeError, match="this app is not open"):
        handle.status()
    with app:
        assert (handle.result(PATIENCE), handle.status(), handle.is_new) == (6, "completed", True)


def test_what_keeps_the_store_from_opening_is_raised_where_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(redrive.errors.StoreUnusableError, match=r"folder .* does not exist"):
        redrive.open_sync(f"sqlite:///{tmp_path}/nowhere/app.db").open()
    with pytest.raises(redrive.errors.StoreUnusableError, match="is not a kind of store"):
        redrive.open_sync("mysql://host/app")
    with pytest.raises(TypeError, match=r"open_sync: .*; settings are worker, codec, queues"):
        redrive.open_sync("memory://", wrokers=3)
    assert "redrive-app" not in {one.name for one in threading.enumerate()}


def test_inside_an_event_loop_it_says_what_to_use_instead(app: SyncApp) -> None:
    async def main() -> None:
        for use in (app.queues, lambda: app.handle("f-1").result(), app.close):
            with pytest.raises(RuntimeError, match=r"would block the event loop.*use redrive\.open\("):
                use()
        with pytest.raises(RuntimeError, match=r"would block the event loop.*use redrive\.open\("):
            redrive.open_sync("memory://").open()
        assert await asyncio.to_thread(app.queues) == []

    asyncio.run(main())


def test_a_plain_action_may_use_the_app_that_runs_it(app: SyncApp) -> None:
    @redrive.action(name="sync.nested")
    def nested() -> int:
        return app.start(double(21)).result(PATIENCE)

    assert app.start(nested()).result(PATIENCE) == 42


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.promise("L6")
def test_a_forked_child_is_told_to_open_the_app_and_can_do_so(tmp_path: Path) -> None:
    script = f"""
    import os, warnings
    import redrive
    from tests.client.test_sync_app import double

    warnings.simplefilter("ignore", DeprecationWarning)  # newer versions of Python warn of every fork with threads
    app = redrive.open_sync("sqlite:///{tmp_path}/app.db").open()
    handle = app.start(double(1))
    assert handle.result(20) == 2
    child = os.fork()
    if child == 0:
        try:
            app.queues()
        except RuntimeError as error:
            print(error, flush=True)
        app.open()
        assert handle.result(20) == 2
        print(app.start(double(2)).result(20), flush=True)
        app.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print(app.start(double(3)).result(20), flush=True)
    app.close()
    """
    said, four, six = run(script).stdout.splitlines()
    assert "of which this process" in said
    assert "call app.open() in each process, after the fork" in said
    assert (four, six) == ("4", "6")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_ends_by_itself_and_leaves_its_parents_app_alone(tmp_path: Path) -> None:
    script = f"""
    import os, sys, warnings
    import redrive
    from tests.client.test_sync_app import double

    warnings.simplefilter("ignore", DeprecationWarning)
    with redrive.open_sync("sqlite:///{tmp_path}/app.db") as app:
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            print(app.start(double(3)).result(20), flush=True)
    """
    assert run(script).stdout.splitlines() == ["6"]


@pytest.mark.promise("L6")
@pytest.mark.parametrize("address", ["sqlite:///{}/app.db", "postgresql"])
def test_a_program_that_forgets_to_close_the_app_ends(tmp_path: Path, address: str) -> None:
    url = shared_server().fresh_database() if address == "postgresql" else address.format(tmp_path)
    script = f"""
    import redrive
    from tests.client.test_sync_app import double, waits

    app = redrive.open_sync({url!r}, grace=0).open()
    app.start(waits())
    print(app.start(double(3)).result(20))
    for n in range(50):
        app.start(double(n))
    """
    finished = run(script)
    assert (finished.stdout, finished.stderr) == ("6\n", "")


def test_flows_that_come_up_while_the_interpreter_exits_are_left_to_the_next_worker(tmp_path: Path) -> None:
    """A thread that still runs keeps the interpreter waiting, and by then there are no threads for other attempts."""
    address = f"sqlite:///{tmp_path}/app.db"
    script = f"""
    import redrive
    from tests.client.test_sync_app import double, naps

    app = redrive.open_sync({address!r}, grace=5).open()
    running = app.start(naps(2.5))
    while not app.log(running.id):
        pass
    for n in range(1, 11):
        app.start(double(n), key=str(n), delay=0.2 * n)
    """
    finished = run(script)
    assert (finished.stdout, finished.stderr) == ("", "")
    with redrive.open_sync(address, worker=False) as app:
        states = {flow.status for flow in app.flows() if flow.key is not None}
        assert states <= {"ready", "waiting", "completed"}
        assert [flow.status for flow in app.flows() if flow.key is None] == ["completed"]
    with redrive.open_sync(address) as app:
        assert [app.start(double(n), key=str(n)).result(PATIENCE) for n in range(1, 11)] == [*range(2, 21, 2)]


@pytest.mark.promise("L6")
def test_ctrl_c_interrupts_a_caller_that_waits(tmp_path: Path) -> None:
    script = f"""
    import signal

    import redrive
    from tests.client.test_sync_app import double, waits

    # A process that was started in the background ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with redrive.open_sync("sqlite:///{tmp_path}/app.db", grace=0) as app:
        handle = app.start(waits())
        try:
            print("waiting", flush=True)
            handle.result()
        except KeyboardInterrupt:
            handle.cancel()
            print(app.start(double(4)).result(20))
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own script
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "waiting\n"
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=PATIENCE)[0] == "8\n"
            assert process.returncode == 0
        finally:
            process.kill()


def run(script: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)  # noqa: S603 - our own script
    assert finished.returncode == 0, finished.stderr
    return finished
