"""Actions in processes of their own: real processes, killed for real."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tests.runners.process_actions import (
    Order,
    Refused,
    beat,
    beat_after_the_end,
    chatter,
    close_stdout,
    die,
    echo,
    echo_later,
    facts,
    fail,
    hang,
    leave_a_program,
    leave_a_program_and_die,
    meet,
    nested_calls,
    not_what_it_says,
    outlive,
    who,
    write_into_the_protocol,
)

import redrive
from redrive.errors import AttemptLostError, DeserializationError, SerializationError
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.flows.action import Action, action
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.runners.attempt import Attempt
from redrive.runners.process_pool import ProcessDied, ProcessPool
from redrive.runners.process_protocol import NotImportable


def attempt_of(action: Action[Any, Any], *, beats: list[str] | None = None, **facts: Any) -> Attempt:
    known: dict[str, Any] = {
        "flow_id": "flow",
        "item": 1,
        "step": action.name,
        "number": 1,
        "delivery_token": "delivery",
        "policy": DURABLE_DEFAULT,
        "timeout": None,
        "timeout_at": None,
        "details": None,
        "on_beat": lambda _flow_id, _item, _delivery, text: None if beats is None else beats.append(text),
    }
    return Attempt(**known | facts)


@asynccontextmanager
async def open_pool(limit: int = 1) -> AsyncIterator[ProcessPool]:
    pool = ProcessPool(limit)
    try:
        yield pool
    finally:
        await pool.close()


async def ask(pool: ProcessPool, action: Action[Any, Any], *args: Any) -> Any:
    text = await pool.call(action, attempt_of(action), action.signature.bind(args, {}).encoded)
    return action.signature.read_result(text)


def with_pool(scenario: Callable[[ProcessPool], Awaitable[None]], limit: int = 1) -> None:
    async def run() -> None:
        async with open_pool(limit) as pool:
            await scenario(pool)

    asyncio.run(run())


def is_there(pid: int) -> bool:
    """Zombies are, too."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - what it waits for is another process
            await asyncio.sleep(0.005)


def test_results_come_back_as_their_type_hints_say() -> None:
    order = Order("o-1", datetime(2030, 1, 2, tzinfo=UTC))

    async def scenario(pool: ProcessPool) -> None:
        assert await ask(pool, echo, order) == order
        assert await ask(pool, echo_later, order) == order

    with_pool(scenario)


def test_a_process_is_used_again_and_another_is_started_only_when_it_is_busy(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> None:
        first = await ask(pool, who)
        assert first != os.getpid()
        assert [await ask(pool, who) for _ in range(3)] == [first] * 3
        both = await asyncio.gather(ask(pool, meet, tmp_path, 2), ask(pool, meet, tmp_path, 2))
        assert len({*both, first}) == 2
        assert {await ask(pool, who) for _ in range(3)} <= set(both)

    with_pool(scenario, limit=3)


def test_no_more_processes_run_than_the_limit() -> None:
    async def scenario(pool: ProcessPool) -> None:
        assert len(set(await asyncio.gather(*(ask(pool, who) for _ in range(12))))) <= 2

    with_pool(scenario, limit=2)


@pytest.mark.parametrize(
    ("how", "kind", "text"),
    [
        ("own", Refused, "refused with 7"),
        ("lookup", KeyError, "'x'"),
        ("permanent", redrive.Permanent, "no such user"),
        ("stop", RuntimeError, "StopIteration"),
        ("exit", redrive.Permanent, "SystemExit: 3"),
        ("interrupt", redrive.Permanent, "KeyboardInterrupt"),
    ],
)
def test_what_an_action_raises_is_raised_here_with_its_own_type(how: str, kind: type[Exception], text: str) -> None:
    async def scenario(pool: ProcessPool) -> None:
        with pytest.raises(kind, match=text) as caught:
            await ask(pool, fail, how)
        assert type(caught.value) is kind
        assert await ask(pool, fail, "not at all") is None

    with_pool(scenario)


def test_errors_keep_their_attributes_and_their_cause() -> None:
    async def scenario(pool: ProcessPool) -> None:
        with pytest.raises(ValueError, match="outer") as wrapped:
            await ask(pool, fail, "wrapped")
        cause = wrapped.value.__cause__
        assert isinstance(cause, Refused)
        assert cause.code == 8
        with pytest.raises(redrive.RetryAfter) as later:
            await ask(pool, fail, "later")
        assert later.value.seconds == 30.0

    with_pool(scenario)


def test_an_http_failure_is_classified_as_if_it_had_happened_here() -> None:
    async def scenario(pool: ProcessPool) -> None:
        with pytest.raises(httpx.HTTPStatusError) as caught:
            await ask(pool, fail, "http")
        failure = DEFAULT_CLASSIFIER.failure_of(caught.value, time.time())
        assert (failure.category, failure.status, failure.retry_after) == ("transient", 503, 17.0)

    with_pool(scenario)


@pytest.mark.promise("P18")
def test_values_that_do_not_fit_are_refused_by_the_errors_that_mark_poison() -> None:
    async def scenario(pool: ProcessPool) -> None:
        with pytest.raises(DeserializationError):
            await pool.call(echo, attempt_of(echo), '{"order":{"id":5}}')
        with pytest.raises(SerializationError):
            await ask(pool, not_what_it_says)

    with_pool(scenario)


@pytest.mark.promise("A12")
def test_an_action_sees_its_attempt() -> None:
    async def scenario(pool: ProcessPool) -> None:
        attempt = attempt_of(
            facts,
            flow_id="flow-9",
            item=4,
            number=3,
            timeout=60.0,
            timeout_at=1_893_456_000.0,
            details=msgspec.Raw(b'{"cursor":17}'),
        )
        seen = msgspec.json.decode(await pool.call(facts, attempt, "{}"))
        assert seen == {
            "flow_id": "flow-9",
            "item": 4,
            "step": "facts",
            "number": 3,
            "receipt_token": attempt.receipt_token,
            "delivery_token": "delivery",
            "timeout": 60.0,
            "deadline": "2030-01-01 00:00:00+00:00",
            "last_details": {"cursor": 17},
            "attempts": DURABLE_DEFAULT.attempts,
        }
        assert (await ask(pool, facts))["last_details"] is None

    with_pool(scenario)


@pytest.mark.promise("P16")
def test_the_engine_owns_the_retries_of_guarded_calls_in_the_process_too() -> None:
    async def scenario(pool: ProcessPool) -> None:
        assert await ask(pool, nested_calls) == 1
        alone = attempt_of(nested_calls, policy=DURABLE_DEFAULT.replace(attempts=1))
        assert await pool.call(nested_calls, alone, "{}") == "5"

    with_pool(scenario)


def test_heartbeats_arrive_in_order_before_the_result() -> None:
    async def scenario(pool: ProcessPool) -> None:
        beats: list[str] = []
        await pool.call(beat, attempt_of(beat, beats=beats), '{"times":300}')
        assert beats == [f'{{"cursor":{cursor}}}' for cursor in range(300)]

    with_pool(scenario)


def test_what_goes_on_after_an_attempt_does_not_beat_for_the_next() -> None:
    async def scenario(pool: ProcessPool) -> None:
        beats: list[str] = []
        await ask(pool, beat_after_the_end)
        for _ in range(20):
            await pool.call(beat, attempt_of(beat, beats=beats), '{"times":1}')
        assert set(beats) == {'{"cursor":0}'}

    with_pool(scenario)


def test_prints_reach_stderr_and_disturb_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    async def scenario(pool: ProcessPool) -> None:
        assert await ask(pool, chatter) == ""
        assert await ask(pool, close_stdout) == 1
        assert await ask(pool, who)

    with_pool(scenario)
    shown = capfd.readouterr()
    assert shown.out == ""
    for text in ("from Python", "from fd 1", "from a program", "unfinished line"):
        assert text in shown.err


@pytest.mark.parametrize("how", ["in Python", "in C code"])
def test_a_timeout_kills_the_process_at_once_and_the_next_call_gets_another(tmp_path: Path, how: str) -> None:
    async def scenario(pool: ProcessPool) -> None:
        first = await ask(pool, who)
        call = asyncio.create_task(ask(pool, hang, tmp_path, how))
        await until((tmp_path / "began").exists)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await call
        assert not is_there(first)
        assert await ask(pool, who) != first

    with_pool(scenario)


def test_a_timeout_kills_the_programs_that_the_action_started(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)

    def is_held() -> bool:
        try:
            return os.read(held, 1) != b""
        except BlockingIOError:
            return True

    async def scenario(pool: ProcessPool) -> None:
        call = asyncio.create_task(ask(pool, hang, tmp_path, "in a program"))
        await until((tmp_path / "began").exists)
        assert is_held()
        call.cancel()
        await until(lambda: not is_held())

    with_pool(scenario)
    os.close(held)


def test_calls_cancelled_at_any_moment_leave_the_pool_whole() -> None:
    async def scenario(pool: ProcessPool) -> None:
        for round_ in range(30):
            call = asyncio.create_task(ask(pool, who))
            for _ in range(round_):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            assert len(pool._children) + len(pool._starting) <= 1
        assert await ask(pool, who)

    with_pool(scenario)


@pytest.mark.parametrize(
    ("how", "said"),
    [("3", "exit code 3"), ("0", "exit code 0"), ("SIGSEGV", r"signal 11 \(SIGSEGV\)"), ("SIGKILL", "signal 9")],
)
def test_a_process_that_dies_is_reported_and_replaced(how: str, said: str) -> None:
    async def scenario(pool: ProcessPool) -> None:
        with pytest.raises(ProcessDied, match=f"the process of action die died with {said}.*not known") as caught:
            await ask(pool, die, how)
        assert isinstance(caught.value, AttemptLostError)
        assert await ask(pool, who)

    with_pool(scenario)


def test_a_death_is_noticed_though_a_program_left_behind_holds_the_pipe(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> None:
        with pytest.raises(ProcessDied, match="exit code 4"):
            await ask(pool, leave_a_program_and_die, tmp_path / "pid")

    with_pool(scenario)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("left_behind", [False, True])
def test_a_process_that_died_while_idle_is_not_used(tmp_path: Path, left_behind: bool) -> None:
    """Not even while a program left behind holds the pipe, so that its end has not been read yet."""

    async def scenario(pool: ProcessPool) -> None:
        first = await (ask(pool, leave_a_program, tmp_path / "pid") if left_behind else ask(pool, who))
        [child] = pool._idle
        os.kill(first, signal.SIGKILL)
        await until(lambda: not child.is_alive())
        assert await ask(pool, who) != first

    with_pool(scenario)
    if left_behind:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_an_action_that_writes_into_the_protocol_is_stopped() -> None:
    async def scenario(pool: ProcessPool) -> None:
        with pytest.raises(ProcessDied):
            await ask(pool, write_into_the_protocol)
        assert await ask(pool, who)

    with_pool(scenario)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_service_leaves_the_attempt_to_its_worker(number: int) -> None:
    async def scenario(pool: ProcessPool) -> None:
        assert await ask(pool, outlive, number) == "still here"

    with_pool(scenario)


def test_an_action_inside_a_function_is_refused_with_what_to_do() -> None:
    @action(process=True)
    def inside() -> None: ...

    async def scenario(pool: ProcessPool) -> None:
        with pytest.raises(NotImportable, match=r"action inside .*<locals>.inside; put it at module level"):
            await ask(pool, inside)
        assert await ask(pool, who)

    with_pool(scenario)


def test_a_function_of_another_module_may_be_made_an_action() -> None:
    made = action(process=True, name="cut")(os.path.basename)

    async def scenario(pool: ProcessPool) -> None:
        assert await ask(pool, made, "a/b") == "b"

    with_pool(scenario)


def test_closing_leaves_no_process_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        pool = ProcessPool(3)
        pids = set(await asyncio.gather(ask(pool, meet, tmp_path, 2), ask(pool, meet, tmp_path, 2)))
        call = asyncio.create_task(ask(pool, hang, tmp_path, "in Python"))
        await until((tmp_path / "began").exists)
        await pool.close()
        with pytest.raises(ProcessDied):
            await call
        assert not any(map(is_there, pids))
        with pytest.raises(RuntimeError, match="closed"):
            await ask(pool, who)
        await pool.close()

    asyncio.run(scenario())


SCRIPT = """
import asyncio, os, sys, time
from pathlib import Path
from redrive.flows.action import action
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.runners.attempt import Attempt
from redrive.runners.process_pool import ProcessPool

class Refused(Exception):
    pass

@action(process=True)
def refuse(text: str) -> None:
    raise Refused(text)

@action(process=True)
def hang(how: str) -> None:
    import re, subprocess
    if how == "in a program":
        subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)"])
    print("hanging", flush=True)
    if how == "in C code":
        re.match(r"(a+)+$", "a" * 60 + "b")
    time.sleep(1000)

def attempt(action):
    return Attempt(flow_id="f", item=1, step=action.name, number=1, delivery_token="d", policy=DURABLE_DEFAULT,
                   timeout=None, timeout_at=None, details=None, on_beat=print)

async def run(action, *args):
    pool = ProcessPool(1)
    try:
        await pool.call(action, attempt(action), action.signature.bind(args, {}).encoded)
    finally:
        await pool.close()
"""

REFUSING = """
try:
    asyncio.run(run(refuse, "not today"))
except Refused as error:
    print("refused:", error)
"""


def run_python(*args: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *args], cwd=cwd, capture_output=True, text=True, timeout=60)  # noqa: S603 - our own script


def under_guard(code: str) -> str:
    return 'if __name__ == "__main__":' + code.replace("\n", "\n    ")


@pytest.mark.parametrize(
    ("executor", "how"),
    [
        ("shop.py", ["shop.py"]),
        ("shop-worker", ["shop-worker"]),
        ("site.py", ["site.py"]),
        ("shop/orders.py", ["-m", "shop.orders"]),
        ("shop/__main__.py", ["-m", "shop"]),
        ("shop/__main__.py", ["shop"]),
    ],
    ids=["script", "script without suffix", "named like a library", "module", "package", "folder"],
)
def test_actions_of_the_program_itself_are_found(tmp_path: Path, executor: str, how: list[str]) -> None:
    (tmp_path / executor).parent.mkdir(exist_ok=True)
    (tmp_path / executor).write_text(SCRIPT + under_guard(REFUSING))
    finished = run_python(*how, cwd=tmp_path)
    assert (finished.stdout, finished.returncode) == ("refused: not today\n", 0), finished.stderr


def test_files_in_the_current_folder_do_not_get_in_the_way(tmp_path: Path) -> None:
    """The program's folder is on its path, the one that it happens to run in is not."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "shop.py").write_text(SCRIPT + under_guard(REFUSING))
    (tmp_path / "msgspec.py").write_text("raise SystemExit('wrong module')")
    finished = run_python("bin/shop.py", cwd=tmp_path)
    assert finished.stdout == "refused: not today\n", finished.stderr


def test_a_program_without_a_guard_does_not_multiply(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SCRIPT + REFUSING)
    finished = run_python("shop.py", cwd=tmp_path)
    assert finished.returncode == 1
    assert 'what starts the app under `if __name__ == "__main__":`' in finished.stderr


def test_code_typed_in_is_refused_with_what_to_do(tmp_path: Path) -> None:
    finished = run_python("-c", SCRIPT + REFUSING, cwd=tmp_path)
    assert "NotImportable: action refuse cannot run in a process of its own" in finished.stderr


@pytest.mark.parametrize("how", ["in Python", "in C code", "in a program", "idle"])
def test_when_the_worker_is_killed_its_processes_end(tmp_path: Path, how: str) -> None:
    idle = """
        pool = ProcessPool(1)
        await asyncio.gather(pool.call(refuse, attempt(refuse), '{"text":""}'), return_exceptions=True)
        print("hanging", file=sys.stderr, flush=True)
        time.sleep(1000)
    """
    (tmp_path / "shop.py").write_text(
        SCRIPT
        + (f"async def run(*_):{idle}\n" if how == "idle" else "")
        + under_guard(f"\nasyncio.run(run(hang, {how!r}))")
    )
    with subprocess.Popen(
        [sys.executable, "shop.py"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stderr is not None
        try:
            assert worker.stderr.readline() == "hanging\n"
        finally:
            worker.kill()
        # All its processes have this pipe: it ends with the last of them.
        worker.communicate(timeout=30)
