"""Celery tasks whose retries redrive decides, run by a real worker."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from celery import Celery, Task
from celery.contrib.testing.worker import start_worker
from celery.exceptions import Reject
from celery.signals import setup_logging

import redrive
from redrive.errors import NotationError
from redrive.integrations.carried_history import LARGEST, read_carried, write_carried
from redrive.integrations.celery import HEADER, RedriveTask, hints, policy_of
from redrive.policies.decision import RetryAt
from redrive.policies.history import History
from redrive.policies.jitter import Jitter
from redrive.policies.preview import preview, read_failure
from redrive.policies.report import AttemptRecord
from redrive.telemetry.events import AttemptFailed, CallRecovered
from redrive.telemetry.stream import listen

pytestmark = pytest.mark.promise("L8")

QUICK = redrive.Policy(
    attempts=4, backoff=redrive.constant(0.01), jitter=Jitter("none"), deadline=60, floor=0, max_retry_after=5
)


class Seen:
    """What the attempts of the tasks in this module saw."""

    def __init__(self) -> None:
        self.attempts: list[dict[str, Any]] = []
        self.inner = 0
        self.fail_times = 0
        self.error: Exception = ConnectionError("refused")
        self.events: list[Any] = []
        self.errors: list[BaseException] = []

    def attempt(self, task: Any) -> None:
        self.attempts.append(
            {"retries": task.request.retries, "headers": dict(task.request.headers or {}), "id": task.request.id}
        )
        if len(self.attempts) <= self.fail_times:
            raise self.error


SEEN = Seen()

app = Celery("shop", broker="memory://", backend="cache+memory://", set_as_current=False)


@setup_logging.connect(weak=False)
def leave_logging_alone(**_: Any) -> None:
    """Celery would reconfigure the loggers of the whole process, those of other tests included."""


app.conf.update(worker_hijack_root_logger=False, broker_transport_options={"polling_interval": 0.01})


class Recorded(RedriveTask):
    abstract = True

    def on_failure(self, exc: BaseException, *others: Any) -> None:
        SEEN.errors.append(exc)


@app.task(base=Recorded, policy=QUICK, bind=True)
def work(self: Any, order: str) -> str:
    SEEN.attempt(self)
    return f"done {order}"


@app.task(base=Recorded, policy=QUICK.replace(attempts=3), bind=True)
def guarded(self: Any) -> None:
    @redrive.retry(attempts=5, backoff=0, floor=0)
    def call() -> None:
        SEEN.inner += 1
        raise ConnectionError("refused")

    call()


@app.task(base=Recorded, policy=QUICK, bind=True)
def keys(self: Any) -> None:
    from redrive.calls.idempotency_keys import current_keys

    issued = current_keys()
    assert issued is not None
    SEEN.attempts.append({"key": issued.key_for("POST", "/charges", "body")})
    if len(SEEN.attempts) < 2:
        raise ConnectionError("refused")


@app.task(base=Recorded, policy=QUICK, bind=True)
def calls_itself(self: Any, depth: int = 1) -> str:
    if depth:
        calls_itself(depth - 1)
        return "fine"
    SEEN.attempts.append({})
    raise ConnectionError("refused")


@app.task(base=Recorded, policy=QUICK, bind=True)
def rejects(self: Any) -> None:
    SEEN.attempts.append({})
    raise Reject("no", requeue=False)


@app.task(base=Recorded, policy=QUICK.replace(retry_on=redrive.ANYTHING), bind=True)
def retries_itself(self: Any) -> None:
    SEEN.attempts.append({})
    try:
        raise ConnectionError("refused")
    except ConnectionError as error:
        raise self.retry(exc=error, countdown=0.01)  # noqa: B904 - as Celery's own documentation writes it


@pytest.fixture(scope="module")
def worker() -> Iterator[None]:
    with start_worker(app, perform_ping_check=False, pool="solo", shutdown_timeout=20):
        yield


@pytest.fixture(autouse=True)
def seen() -> Iterator[Seen]:
    SEEN.__init__()  # type: ignore[misc]
    stop = listen(SEEN.events.append)
    yield SEEN
    stop()


def result_of(answer: Any) -> Any:
    return answer.get(timeout=20, interval=0.01)


@pytest.mark.usefixtures("worker")
def test_a_transient_failure_is_retried_with_the_history_in_the_message(seen: Seen) -> None:
    seen.fail_times = 2
    assert result_of(work.apply_async(("o-1",), headers={"tenant": "north"})) == "done o-1"
    assert [one["retries"] for one in seen.attempts] == [0, 1, 2]
    assert [one["headers"].get("tenant") for one in seen.attempts] == ["north"] * 3
    assert HEADER not in seen.attempts[0]["headers"]
    carried = read_carried(seen.attempts[2]["headers"][HEADER])
    assert carried is not None
    assert carried.attempts == 3
    assert [(one.number, one.failure.type, one.failure.message) for one in carried.records] == [
        (1, "ConnectionError", "refused"),
        (2, "ConnectionError", "refused"),
    ]
    failed = [one for one in seen.events if isinstance(one, AttemptFailed)]
    assert [(one.attempt, isinstance(one.decision, RetryAt)) for one in failed] == [(1, True), (2, True)]
    assert [one.attempts for one in seen.events if isinstance(one, CallRecovered)] == [3]


@pytest.mark.usefixtures("worker")
def test_when_redrive_gives_up_the_error_has_the_report_of_all_attempts(seen: Seen) -> None:
    seen.fail_times = 99
    answer = work.delay("o-2")
    with pytest.raises(ConnectionError, match="refused"):
        result_of(answer)
    assert len(seen.attempts) == 4
    report = redrive.report_of(seen.errors[0])
    assert report is not None
    assert [one.number for one in report.attempts] == [1, 2, 3, 4]
    assert (report.gave_up.kind, report.operation) == ("exhausted", work.name)
    assert "attempt 4 of 4 failed" in answer.traceback


@pytest.mark.usefixtures("worker")
def test_a_permanent_failure_is_not_retried(seen: Seen) -> None:
    seen.fail_times, seen.error = 99, redrive.Permanent("card refused")
    with pytest.raises(Exception, match="card refused"):
        result_of(work.delay("o-3"))
    assert len(seen.attempts) == 1


@pytest.mark.usefixtures("worker")
def test_retry_after_is_obeyed_and_a_longer_one_than_accepted_ends_the_retries(seen: Seen) -> None:
    request = httpx.Request("GET", "http://shop.test")
    answer = httpx.Response(503, headers={"retry-after-ms": "30"}, request=request)
    seen.fail_times, seen.error = 1, httpx.HTTPStatusError("503", request=request, response=answer)
    assert result_of(work.delay("o-4")) == "done o-4"
    (failed,) = [one for one in seen.events if isinstance(one, AttemptFailed)]
    assert failed.decision.because.wait == pytest.approx(0.03)
    answer.headers["retry-after-ms"] = "60000"
    seen.attempts.clear()
    with pytest.raises(Exception, match="503"):
        result_of(work.delay("o-5"))
    assert len(seen.attempts) == 1


@pytest.mark.promise("L4")
@pytest.mark.usefixtures("worker")
def test_guarded_calls_inside_a_task_make_one_attempt_each(seen: Seen) -> None:
    with pytest.raises(ConnectionError):
        result_of(guarded.delay())
    assert seen.inner == 3


@pytest.mark.usefixtures("worker")
def test_requests_keep_their_idempotency_key_on_every_attempt(seen: Seen) -> None:
    result_of(keys.delay())
    first, second = (one["key"] for one in seen.attempts)
    assert first == second


@pytest.mark.usefixtures("worker")
def test_a_task_that_calls_itself_is_retried_once_per_message(seen: Seen) -> None:
    with pytest.raises(ConnectionError):
        result_of(calls_itself.delay())
    assert len(seen.attempts) == 4


@pytest.mark.usefixtures("worker")
def test_celerys_own_answers_pass_through(seen: Seen) -> None:
    rejects.delay()
    seen.fail_times = 0
    result_of(work.delay("after it"))
    assert len(seen.attempts) == 2
    assert not seen.errors


@pytest.mark.usefixtures("worker")
def test_a_retry_in_the_body_of_a_task_is_refused_at_once_with_the_error_behind_it(seen: Seen) -> None:
    answer = retries_itself.delay()
    with pytest.raises(Exception, match=r"self.retry\(...\) makes the task a second owner.*raise the error itself"):
        result_of(answer)
    assert len(seen.attempts) == 1
    (error,) = seen.errors
    assert isinstance(error.__cause__, ConnectionError)
    seen.attempts.clear()
    with pytest.raises(ConnectionError, match="refused"):
        retries_itself()


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("header", ["{", "x" * (LARGEST + 1), 7, '{"started_at": 1, "attempts": -3}'])
def test_a_header_that_somebody_else_wrote_does_no_harm(seen: Seen, header: Any) -> None:
    seen.fail_times = 1
    assert result_of(work.apply_async(("o-6",), headers={HEADER: header})) == "done o-6"
    assert len(seen.attempts) == 2


def test_a_task_called_like_a_function_is_not_retried(seen: Seen) -> None:
    seen.fail_times = 99
    with pytest.raises(ConnectionError):
        work("o-7")
    assert len(seen.attempts) == 1


def test_the_history_that_travels_is_bounded(seen: Seen) -> None:
    from redrive.failures.failure import Failure
    from redrive.integrations.engine_attempt import EngineAttempt

    history, left_out = History(0.0), 0
    records: tuple[AttemptRecord, ...] = ()
    policy = QUICK.replace(attempts=None, deadline=None)
    sizes = []
    for _ in range(60):
        attempt = EngineAttempt(
            policy,
            "work",
            history,
            receipt_token="t",
            classifier=RedriveTask.classifier,
            records=records,
            left_out=left_out,
        )
        error = ConnectionError("x" * 10_000)
        failure = Failure(category="transient", reason="r" * 10_000, message="m" * 10_000)
        decision = attempt.failed(error, failure)
        assert isinstance(decision, RetryAt)
        text = write_carried(history.after(decision), attempt.records, attempt.left_out)
        carried = read_carried(text)
        assert carried is not None
        history, records, left_out = carried.history, carried.records, carried.left_out
        sizes.append(len(text))
    assert max(sizes) < 16_000
    assert (history.attempts, len(records) + left_out) == (61, 60)
    assert [one.number for one in records][:2] == [1, 2]
    assert records[-1].number == 60


def nothing() -> None: ...


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"autoretry_for": (OSError,)}, "autoretry_for makes Celery a second owner of the retries"),
        ({"max_retries": 5}, r"write policy=redrive.Policy\(attempts=...\)"),
        ({"policy": {"attempts": 3}}, r"must be a redrive.Policy, not dict; write policy=redrive.Policy\("),
    ],
)
def test_a_second_owner_of_the_retries_is_refused(options: dict[str, Any], says: str) -> None:
    own = Celery("own", broker="memory://", set_as_current=False)
    with pytest.raises(TypeError, match=says):
        own.task(base=RedriveTask, lazy=False, shared=False, **options)(nothing)


def test_the_policy_of_a_task_is_read_from_its_options() -> None:
    own = Celery("own", broker="memory://", set_as_current=False)

    @own.task(
        lazy=False,
        autoretry_for=(OSError, httpx.HTTPError),
        dont_autoretry_for=(FileNotFoundError,),
        retry_backoff=5,
        retry_backoff_max=120,
        retry_kwargs={"max_retries": 6},
    )
    def send() -> None: ...

    policy = policy_of(send)
    assert (policy.attempts, policy.backoff, policy.max_wait) == (7, redrive.exponential(5), 120)
    assert policy.jitter.kind == "full"
    assert policy.retry_on.types == (OSError, httpx.HTTPError)
    assert policy.never_on.types == (FileNotFoundError,)
    shown = preview(policy, read_failure("ConnectionError"))
    assert shown.attempts == 7
    with pytest.raises(NotationError, match="task options: key 'max_retries'"):
        policy_of({"autoretry_for": (OSError,), "max_retries": "many"})


def test_hints_name_the_settings_that_lose_or_double_work() -> None:
    own = Celery("own", broker="redis://localhost", set_as_current=False)
    long = redrive.Policy(max_wait=7200, deadline=None, max_retry_after=60)

    def task(**options: Any) -> Any:
        return own.task(base=RedriveTask, lazy=False, shared=False, name=str(len(own.tasks)), **options)(nothing)

    assert ["acks_late=True, reject_on_worker_lost=True" in one for one in hints(task())] == [True]
    assert hints(task(acks_late=True, reject_on_worker_lost=True)) == []
    assert "reject_on_worker_lost" in hints(task(acks_late=True))[0]
    timed = redrive.Policy(attempt_timeout=20)
    (limit,) = hints(task(acks_late=True, reject_on_worker_lost=True, policy=timed))
    assert "write soft_time_limit=20" in limit
    assert hints(task(acks_late=True, reject_on_worker_lost=True, policy=timed, soft_time_limit=20)) == []
    unsafe = redrive.Policy(idempotent=False)
    assert "write acks_late=False" in hints(task(acks_late=True, reject_on_worker_lost=True, policy=unsafe))[0]
    (waits,) = hints(task(acks_late=True, reject_on_worker_lost=True, policy=long))
    assert "a retry may wait 2h, but the broker delivers a message again after 1h" in waits
    own.conf.broker_transport_options = {"visibility_timeout": 10_000}
    assert hints(task(acks_late=True, reject_on_worker_lost=True, policy=long)) == []


PROCESS = """
import json, os, sys
import redrive
from celery import Celery
from redrive.integrations.celery import RedriveTask

folder = sys.argv[1] if __name__ == "__main__" else os.environ["FOLDER"]
app = Celery("across", broker="filesystem://")
app.conf.update(
    broker_transport_options={
        "data_folder_in": folder + "/queue", "data_folder_out": folder + "/queue", "polling_interval": 0.05
    },
    control_exchange="c", worker_enable_remote_control=False,
)


class Reported(RedriveTask):
    abstract = True

    def on_failure(self, exc, *others):
        report = redrive.report_of(exc)
        numbers = [[one.number, one.failure.message] for one in report.attempts]
        with open(folder + "/ending.json", "w") as file:
            json.dump({"kind": report.gave_up.kind, "attempts": numbers}, file)
        os.rename(folder + "/ending.json", folder + "/ended.json")


POLICY = redrive.Policy(attempts=3, backoff=redrive.constant(0.01), floor=0)


@app.task(base=Reported, policy=POLICY, name="fail")
def fail():
    with open(folder + "/attempts", "a") as file:
        file.write(f"{os.getpid()}\\n")
    raise ConnectionError(f"refused in {os.getpid()}")


if __name__ == "__main__":
    fail.delay()
"""


def test_the_history_survives_the_process(tmp_path: Path) -> None:
    """Each attempt has a process of its own; the last one reports the attempts of all."""
    (tmp_path / "queue").mkdir()
    (tmp_path / "across.py").write_text(PROCESS)
    environment = os.environ | {"FOLDER": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    options = {
        "cwd": tmp_path,
        "env": environment,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "start_new_session": True,
    }
    subprocess.run([sys.executable, "across.py", str(tmp_path)], timeout=60, check=True, **options)  # type: ignore[call-overload]  # noqa: S603 - our own command
    worker = ["-m", "celery", "-A", "across", "worker", "--pool=prefork", "--concurrency=1", "--max-tasks-per-child=1"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
    running = subprocess.Popen([sys.executable, *worker, *quiet], **options)  # type: ignore[call-overload]  # noqa: S603 - our own command
    try:
        until = time.monotonic() + 60
        while not (tmp_path / "ended.json").exists() and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait(60)
    ended = json.loads((tmp_path / "ended.json").read_text())
    pids = (tmp_path / "attempts").read_text().split()
    assert len(set(pids)) == 3
    assert ended["kind"] == "exhausted"
    assert ended["attempts"] == [[index + 1, f"refused in {pid}"] for index, pid in enumerate(pids)]


def test_it_is_a_task_like_any_other() -> None:
    assert issubclass(RedriveTask, Task)
