"""`redrive worker` and `redrive run` as processes: signals, hand-over, and processes that are kept alive."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

import redrive
from redrive.cli.definitions import find
from redrive.cli.flow_input import read_input
from redrive.engine.app import App
from redrive.engine.explanation import AttemptStory, Explanation, ItemStory

T = TypeVar("T")

REDRIVE = [sys.executable, "-m", "redrive.cli"]
SHOP = str(Path(__file__).with_name("durable_shop.py"))
PATIENCE = 30.0


class Shell:
    """A folder with a store, and the processes started there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "REDRIVE_STORE": f"sqlite:///{folder}/app.db"}
        self.processes: list[subprocess.Popen[str]] = []

    def begin(self, *arguments: str) -> "Process":
        output = self.folder / f"output-{len(self.processes)}"
        with output.open("w") as file:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [*REDRIVE, *arguments], stdout=file, stderr=subprocess.STDOUT, text=True, env=self.environment
            )
        self.processes.append(process)
        return Process(process, output)

    def start(self, action: str, **arguments: object) -> str:
        definition = find(f"{SHOP}:{action}")
        given = read_input(definition, json.dumps(arguments))

        async def start(app: App) -> str:
            return (await definition.start(app, given)).id

        return self.ask(start)

    def start_waiting(self) -> str:
        """A flow whose attempt has begun, and ends once `let_go` was called."""
        flow_id = self.start("wait_for", path=f"{self.folder}/go")
        until((self.folder / "go.begun").exists)
        return flow_id

    def let_go(self) -> None:
        (self.folder / "go").touch()

    def explain(self, flow_id: str) -> Explanation:
        return self.ask(lambda app: app.explain(flow_id))

    def attempts(self, flow_id: str) -> list[AttemptStory]:
        (item, *_) = self.explain(flow_id).timeline
        assert isinstance(item, ItemStory)
        return item.attempts

    def becomes(self, flow_id: str, status: str) -> None:
        until(lambda: self.explain(flow_id).status == status)

    def ask(self, question: Callable[[App], Coroutine[Any, Any, T]]) -> T:
        async def ask() -> T:
            async with redrive.open(self.environment["REDRIVE_STORE"], worker=False) as app:
                return await question(app)

        return asyncio.run(ask())


class Process:
    def __init__(self, process: "subprocess.Popen[str]", output: Path) -> None:
        self.process = process
        self._output = output

    @property
    def said(self) -> str:
        return self._output.read_text()

    def says(self, text: str, times: int = 1) -> None:
        until(lambda: self.said.count(text) >= times or self.process.poll() is not None)
        assert self.said.count(text) >= times, self.said

    def ends_with(self, *signals: signal.Signals) -> int:
        for number in signals:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    for process in shell.processes:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_a_worker_says_when_it_is_ready_and_finishes_what_it_began_when_told_to_stop(shell: Shell) -> None:
    worker = shell.begin("worker", SHOP, "--queue", "default", "--queue", "mail", "--grace", "1m")
    worker.says(" ready: 3 workflows, 5 actions, queues default, mail, store sqlite:///")
    flow_id = shell.start_waiting()
    worker.process.send_signal(signal.SIGTERM)
    shell.let_go()
    assert worker.ends_with() == 0
    assert shell.explain(flow_id).status == "completed"
    assert len(shell.attempts(flow_id)) == 1


def test_what_outlasts_the_grace_period_is_handed_over_uncounted(shell: Shell) -> None:
    worker = shell.begin("worker", SHOP, "--grace", "0s")
    flow_id = shell.start_waiting()
    assert worker.ends_with(signal.SIGINT) == 0
    assert shell.explain(flow_id).status in ("ready", "waiting")
    (attempt,) = shell.attempts(flow_id)
    assert (attempt.outcome, attempt.reason) == ("returned", "its worker was told to stop")


def test_a_function_that_cannot_be_stopped_does_not_hold_up_the_end(shell: Shell) -> None:
    worker = shell.begin("worker", SHOP, "--grace", "100ms")
    flow_id = shell.start("block", seconds=3600)
    until(lambda: bool(shell.explain(flow_id).timeline))
    assert worker.ends_with(signal.SIGTERM) == 0
    (attempt,) = shell.attempts(flow_id)
    assert attempt.outcome == "left behind"


def test_a_second_signal_stops_a_worker_at_once(shell: Shell) -> None:
    worker = shell.begin("worker", SHOP, "--grace", "1h")
    shell.start_waiting()
    worker.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert worker.process.poll() is None

    def is_told_again() -> bool:
        # Signals that come before the first was looked at are one.
        worker.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        return worker.process.poll() is not None

    until(is_told_again)
    assert worker.ends_with() == 130


def test_an_interrupted_run_says_that_the_flow_is_kept_and_a_worker_goes_on_with_it(shell: Shell) -> None:
    run = shell.begin("run", f"{SHOP}:wait_for", "--input", json.dumps({"path": f"{shell.folder}/go"}), "--key", "k")
    until((shell.folder / "go.begun").exists)
    run.process.send_signal(signal.SIGINT)
    run.says("what runs may end within 10 s; once more (Ctrl-C) stops at once")
    assert run.ends_with(signal.SIGINT) == 130
    (flow,) = shell.ask(lambda app: app.flows())
    assert f"flow {flow.id} is kept" in run.said
    worker = shell.begin("worker", SHOP)
    shell.let_go()
    shell.becomes(flow.id, "completed")
    assert worker.ends_with(signal.SIGTERM) == 0


def test_a_run_that_was_stopped_gently_says_how_to_go_on(shell: Shell) -> None:
    run = shell.begin("run", f"{SHOP}:CliNaps", "--input", '{"seconds": 3600}')
    until(lambda: [flow.status for flow in shell.ask(lambda app: app.flows())] == ["waiting"])
    assert run.ends_with(signal.SIGTERM) == 130
    (flow,) = shell.ask(lambda app: app.flows())
    assert f"it goes on with: redrive worker {SHOP}; where it stands: redrive explain {flow.id}" in run.said


def test_worker_processes_are_kept_alive_and_stopped_together(shell: Shell) -> None:
    supervisor = shell.begin("worker", SHOP, "--processes", "2", "--grace", "1m")
    supervisor.says(" ready: ", times=2)
    (victim, other) = children(supervisor)
    os.kill(victim, signal.SIGKILL)
    supervisor.says(f"worker process {victim} was killed by signal 9; another one begins in 0.5 s")
    supervisor.says(" ready: ", times=3)
    assert other in children(supervisor)
    flow_id = shell.start_waiting()
    workers = children(supervisor)
    supervisor.process.send_signal(signal.SIGTERM)
    shell.let_go()
    assert supervisor.ends_with() == 0
    assert not any(is_alive(worker) for worker in workers)
    assert shell.explain(flow_id).status == "completed"


def test_workers_end_with_their_supervisor_however_it_ends(shell: Shell) -> None:
    supervisor = shell.begin("worker", SHOP, "--processes", "2")
    supervisor.says(" ready: ", times=2)
    workers = children(supervisor)
    assert len(workers) == 2
    assert supervisor.ends_with(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: not any(is_alive(worker) for worker in workers))


def children(process: Process) -> list[int]:
    path = Path(f"/proc/{process.process.pid}/task/{process.process.pid}/children")
    return [int(word) for word in path.read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
