"""`redrive worker` and `redrive run` as processes: signals, hand-over, and processes that are kept alive."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

import redrive
from redrive.cli.definitions.named import find
from redrive.cli.options.inputs import read_input
from redrive.cli.processes.worker_process import work
from redrive.client.app import App
from redrive.errors import StoreUnavailableError
from redrive.explain.explanation import Explanation
from redrive.explain.parts import AttemptSummary, ItemEntry
from redrive.stores.leases import Lease, NewWorker, WorkerRecord
from redrive.stores.memory.store import MemoryStore

T = TypeVar("T")

REDRIVE = [sys.executable, "-m", "redrive.cli"]
SHOP = str(Path(__file__).with_name("durable_shop.py"))
STUCK = str(Path(__file__).with_name("stuck_flows.py"))
PATIENCE = 30.0


class Shell:
    """A folder with a store, and the processes started there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "REDRIVE_STORE": f"sqlite:///{folder}/app.db"}
        self.processes: list[subprocess.Popen[str]] = []

    def begin(self, *arguments: str, command: Sequence[str] = REDRIVE, stdin: int | None = None) -> "Process":
        output = self.folder / f"output-{len(self.processes)}"
        with output.open("w") as file:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [*command, *arguments],
                stdin=stdin,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                env=self.environment,
            )
        self.processes.append(process)
        return Process(process, output)

    def start(self, action: str, module: str = SHOP, **arguments: object) -> str:
        definition = find(f"{module}:{action}")
        given = read_input(definition, json.dumps(arguments))

        async def start(app: App) -> str:
            return (await definition.start(app, given)).id

        return self.ask(start)

    def start_waiting(self) -> str:
        """A flow whose attempt has begun, and ends once `let_go` was called."""
        flow_id = self.start("wait_for", path=f"{self.folder}/go")
        until((self.folder / "go.begun").exists)
        return flow_id

    def start_stuck(self) -> str:
        """A flow whose code holds up its worker for good."""
        flow_id = self.start("CliStuck", STUCK, begun=f"{self.folder}/stuck")
        until((self.folder / "stuck").exists)
        return flow_id

    def let_go(self) -> None:
        (self.folder / "go").touch()

    def explain(self, flow_id: str) -> Explanation:
        return self.ask(lambda app: app.explain(flow_id))

    def attempts(self, flow_id: str) -> list[AttemptSummary]:
        (item, *_) = self.explain(flow_id).timeline
        assert isinstance(item, ItemEntry)
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
    (shell.folder / "greeting.rd").write_text('return "hello"\n', encoding="utf-8")
    files = SHOP, f"{shell.folder}/greeting.rd"
    worker = shell.begin("worker", *files, "--queue", "default", "--queue", "mail", "--grace", "1m")
    worker.says(" ready: 3 workflows, 6 actions, 1 script, queues default, mail, store sqlite:///")
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
    assert (attempt.outcome, attempt.reason) == ("returned", "its worker was shut down")


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
    run.says("running attempts have 10 s to finish; press Ctrl-C again to stop at once")
    assert run.ends_with(signal.SIGINT) == 130
    (flow,) = shell.ask(lambda app: app.flows())
    assert f"flow {flow.id} stays in the store" in run.said
    worker = shell.begin("worker", SHOP)
    shell.let_go()
    shell.becomes(flow.id, "completed")
    assert worker.ends_with(signal.SIGTERM) == 0


def test_a_run_that_was_stopped_gently_says_how_to_go_on(shell: Shell) -> None:
    run = shell.begin("run", f"{SHOP}:CliNaps", "--input", '{"seconds": 3600}')
    until(lambda: [flow.status for flow in shell.ask(lambda app: app.flows())] == ["waiting"])
    assert run.ends_with(signal.SIGTERM) == 130
    (flow,) = shell.ask(lambda app: app.flows())
    assert f"it continues with: redrive worker {SHOP}; to see where it stands: redrive explain {flow.id}" in run.said


def test_worker_processes_are_kept_alive_and_stopped_together(shell: Shell) -> None:
    supervisor = shell.begin("worker", SHOP, "--processes", "2", "--grace", "1m")
    supervisor.says(" ready: ", times=2)
    (victim, other) = children(supervisor)
    os.kill(victim, signal.SIGKILL)
    supervisor.says(f"worker process {victim} was killed by signal 9; restarting in 0.5 s")
    supervisor.says(" ready: ", times=3)
    assert other in children(supervisor)
    flow_id = shell.start_waiting()
    workers = children(supervisor)
    supervisor.process.send_signal(signal.SIGTERM)
    shell.let_go()
    assert supervisor.ends_with() == 0
    assert not any(is_alive(worker) for worker in workers)
    assert shell.explain(flow_id).status == "completed"


def test_worker_processes_end_for_good_when_a_newer_version_has_changed_their_store(shell: Shell) -> None:
    supervisor = shell.begin("worker", SHOP, "--processes", "2")
    supervisor.says(" ready: ", times=2)
    with sqlite3.connect(shell.folder / "app.db") as database:
        database.execute("INSERT INTO redrive_migrations VALUES (99, '0099_later.sql', 0)")
    database.close()
    os.kill(children(supervisor)[0], signal.SIGKILL)
    assert supervisor.ends_with() == 2
    assert supervisor.said.count("its schema has version 99") == 1


@pytest.mark.promise("A14")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_workers_that_are_told_to_stop_by_their_supervisor_and_beside_it_finish_what_they_began(
    shell: Shell, number: signal.Signals
) -> None:
    """As systemd does, which tells every process of a service."""
    supervisor = shell.begin("worker", SHOP, "--processes", "2", "--grace", "1m")
    supervisor.says(" ready: ", times=2)
    flow_id = shell.start_waiting()
    for worker in children(supervisor):
        os.kill(worker, number)
    time.sleep(0.1)  # signals that come before the first was looked at are one
    supervisor.process.send_signal(number)
    time.sleep(0.1)
    shell.let_go()
    assert supervisor.ends_with() == 0
    assert [attempt.outcome for attempt in shell.attempts(flow_id)] == ["completed"]


def test_ctrl_c_again_stops_worker_processes_at_once(shell: Shell) -> None:
    supervisor = shell.begin("worker", SHOP, "--processes", "2", "--grace", "1h")
    supervisor.says(" ready: ", times=2)
    flow_id = shell.start_waiting()
    supervisor.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert supervisor.process.poll() is None
    supervisor.ends_with(signal.SIGINT)
    assert [attempt.outcome for attempt in shell.attempts(flow_id)] == ["left behind"]


def test_workers_end_with_their_supervisor_however_it_ends(shell: Shell) -> None:
    supervisor = shell.begin("worker", SHOP, "--processes", "2")
    supervisor.says(" ready: ", times=2)
    workers = children(supervisor)
    assert len(workers) == 2
    assert supervisor.ends_with(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: not any(is_alive(worker) for worker in workers))


def impatient(command: str, **seconds: float) -> list[str]:
    """`redrive` with other patience than a user has."""
    settings = "; ".join(f"{name.replace('__', '.')} = {value}" for name, value in seconds.items())
    imports = "from redrive.cli.processes import event_loop; from redrive.worker.maintenance import lease_thread"
    return [sys.executable, "-c", f"{imports}; {settings}; {command}"]


MAIN = "import redrive.cli; redrive.cli.main()"


def test_a_flow_that_spins_fails_and_its_worker_goes_on(shell: Shell) -> None:
    worker = shell.begin("worker", STUCK, SHOP)
    flow_id = shell.start("CliSpins", STUCK)
    shell.becomes(flow_id, "failed")
    worker.says("the workflow's code spins at stuck_flows.py:21")
    shell.becomes(shell.start("nap", seconds=0), "completed")
    assert worker.ends_with(signal.SIGTERM) == 0


def test_a_worker_that_is_held_up_says_by_what_and_ends_at_the_second_signal(shell: Shell) -> None:
    worker = shell.begin("worker", STUCK, command=impatient(MAIN, lease_thread__TOO_LONG=0.1))
    flow_id = shell.start_stuck()
    worker.says(f" flow {flow_id}: the event loop has been blocked for ")
    worker.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert worker.process.poll() is None
    assert worker.ends_with(signal.SIGINT) == 130


def test_a_worker_that_is_held_up_ends_when_its_supervisor_is_gone(shell: Shell) -> None:
    worker = shell.begin(
        *("worker", STUCK, "--supervised", "--grace", "0s"),
        command=impatient(MAIN, event_loop__RELEASE_TIME=0.1),
        stdin=subprocess.PIPE,
    )
    shell.start_stuck()
    assert worker.process.stdin is not None
    worker.process.stdin.close()
    assert worker.ends_with() == 1


def test_a_supervisor_kills_what_does_not_end(shell: Shell) -> None:
    deaf = "trap '' TERM; echo begun; while true; do sleep 0.1; done"
    supervise = f"asyncio.run(supervise(lambda _: ['sh', '-c', {deaf!r}], 2, 0))"
    code = f"import asyncio; from redrive.cli.processes.supervisor import supervise; {supervise}"
    supervisor = shell.begin(command=impatient(code, event_loop__RELEASE_TIME=0.2))
    supervisor.says("begun", times=2)
    workers = children(supervisor)
    assert supervisor.ends_with(signal.SIGTERM) == 0
    supervisor.says("did not stop within 0.2 s and is killed; other workers take over its flows", times=2)
    assert not any(is_alive(worker) for worker in workers)


def test_a_supervisor_ends_with_workers_that_are_refused_from_the_start(shell: Shell) -> None:
    refused = "echo redrive: no rights >&2; exit 2"
    supervise = f"asyncio.run(supervise(lambda _: ['sh', '-c', {refused!r}], 3, 0))"
    code = f"import asyncio, sys; from redrive.cli.processes.supervisor import supervise; sys.exit({supervise})"
    supervisor = shell.begin(command=[sys.executable, "-c", code])
    assert supervisor.ends_with() == 2
    assert "redrive: no rights" in supervisor.said
    assert "restarting" not in supervisor.said


def test_a_supervisor_goes_on_though_an_action_ended_its_worker_with_a_code_of_its_own(shell: Shell) -> None:
    """An action may have called os._exit, or a library of it."""
    supervise = "asyncio.run(supervise(lambda _: ['sh', '-c', 'exit 3'], 1, 0))"
    code = f"import asyncio; from redrive.cli.processes.supervisor import supervise; {supervise}"
    supervisor = shell.begin(command=[sys.executable, "-c", code])
    supervisor.says("ended with exit code 3; restarting in 0.5 s")
    assert supervisor.ends_with(signal.SIGTERM) == 0


class Refuses(MemoryStore):
    """Cannot be written to, for now."""

    async def acquire_lease(self, worker: NewWorker, lease: float) -> Lease:
        raise StoreUnavailableError("attempt to write a readonly database")


def test_a_worker_that_cannot_join_yet_ends_at_the_first_signal() -> None:
    async def told_to_stop() -> int:
        asyncio.get_running_loop().call_later(0.2, os.kill, os.getpid(), signal.SIGTERM)
        settings = {"queues": None, "grace": 3600.0}
        return await asyncio.wait_for(work(Refuses(), settings, supervised=False), PATIENCE)

    assert asyncio.run(told_to_stop()) == 0


class GoesAway(MemoryStore):
    """Cannot be asked who works, once it is away."""

    is_away = False

    async def list_workers(self) -> list[WorkerRecord]:
        if self.is_away:
            raise StoreUnavailableError("connection refused")
        return await super().list_workers()


def test_a_worker_that_is_told_to_stop_while_the_store_is_away_lets_attempts_end() -> None:
    store = GoesAway()
    ended: list[bool] = []

    @redrive.action(name="worker_command.told_to_stop_within")
    async def told_to_stop_within() -> None:
        store.is_away = True
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.1)
        ended.append(True)

    async def scenario() -> int:
        settings = {"queues": None, "grace": PATIENCE}
        working = asyncio.create_task(work(store, settings, supervised=False))
        async with redrive.App(store, worker=False) as app:
            await app.start(told_to_stop_within())
            return await asyncio.wait_for(working, PATIENCE)

    assert asyncio.run(scenario()) == 0
    assert ended == [True]


def children(process: Process) -> list[int]:
    path = Path(f"/proc/{process.process.pid}/task/{process.process.pid}/children")
    return [int(word) for word in path.read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.promise("L1")
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_uses_the_default_policies_of_its_command_line(processes: str, shell: Shell) -> None:
    policy = "default=[ConnectionError -> retry: 1, backoff: 10ms]"
    shell.begin("worker", SHOP, "--queue-policy", policy, "--processes", processes)
    flow_id = shell.start("unreachable")

    async def outcome(app: App) -> Explanation:
        with pytest.raises(ConnectionError):
            await app.handle(flow_id).result(timeout=PATIENCE)
        return await app.explain(flow_id)

    explanation = shell.ask(outcome)
    (item,) = (entry for entry in explanation.timeline if isinstance(entry, ItemEntry))
    assert (item.policy_from, len(item.attempts)) == ("queue", 2)
