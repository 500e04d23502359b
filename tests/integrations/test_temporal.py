"""Temporal activities whose retries redrive decides, on a real Temporal server."""

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import Worker
from tests.ports import free_ports

import redrive
from redrive.integrations.temporal import RedriveInterceptor, policy_of
from redrive.policies.jitter import Jitter
from redrive.policies.preview import preview
from redrive.telemetry.events import AttemptFailed, CallRecovered
from redrive.telemetry.stream import listen

pytestmark = pytest.mark.promise("L8")

BINARY = next(
    (one for one in (Path(sys.executable).parent / "temporal", shutil.which("temporal")) if one and Path(one).exists()),
    None,
)
QUICK = redrive.Policy(attempts=3, backoff=redrive.constant(0.02), jitter=Jitter("none"), deadline=60, floor=0)
# If redrive's delay were not obeyed, the test would wait for an hour.
SLOW = RetryPolicy(initial_interval=timedelta(hours=1))


class Seen:
    def __init__(self) -> None:
        self.attempts: list[int] = []
        self.inner = 0
        self.keys: list[str] = []
        self.fail_times = 0
        self.error: Callable[[], Exception] = lambda: ConnectionError("refused")


SEEN = Seen()


def one_attempt() -> str:
    SEEN.attempts.append(activity.info().attempt)
    if len(SEEN.attempts) <= SEEN.fail_times:
        raise SEEN.error()
    return "done"


@activity.defn
async def charge() -> str:
    return one_attempt()


@activity.defn
def charge_in_thread() -> str:
    @redrive.retry(attempts=5, backoff=0, floor=0)
    def call() -> str:
        from redrive.calls.idempotency_keys import current_keys

        keys = current_keys()
        assert keys is not None
        SEEN.keys.append(keys.key_for("POST", "/charges"))
        SEEN.inner += 1
        return one_attempt()

    return call()


@activity.defn
async def left_alone() -> str:
    return one_attempt()


@workflow.defn(sandboxed=False)
class Order:
    @workflow.run
    async def run(self, name: str) -> str:
        result: str = await workflow.execute_activity(
            name, start_to_close_timeout=timedelta(seconds=10), retry_policy=SLOW, result_type=str
        )
        return result


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if BINARY is None:
        pytest.skip("needs the temporal binary")
    # Its other services take ports that they find free.
    port = free_ports(3)
    command = [str(BINARY), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    command += ["--http-port", str(port + 1), "--metrics-port", str(port + 2)]
    running = subprocess.Popen(  # noqa: S603 - our own command
        [*command, "--log-level", "error"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"127.0.0.1:{port}"
    finally:
        running.kill()
        running.wait(30)


@pytest.fixture(autouse=True)
def seen() -> Iterator[list[Any]]:
    SEEN.__init__()  # type: ignore[misc]
    events: list[Any] = []
    stop = listen(events.append)
    yield events
    stop()


async def connected(address: str) -> Client:
    until = time.monotonic() + 30
    while True:
        try:
            return await Client.connect(address)
        except RuntimeError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.1)


class Ended:
    def __init__(self, result: str | None, error: ApplicationError | None, details: list[Any]) -> None:
        self.result, self.error = result, error
        self.last_failure_details = details


def error_of_activity(failed: WorkflowFailureError) -> ApplicationError:
    of_activity = failed.cause
    assert isinstance(of_activity, ActivityError)
    assert isinstance(of_activity.cause, ApplicationError)
    return of_activity.cause


def run(address: str, name: str = "charge", policy: redrive.Policy = QUICK, **options: Any) -> Ended:
    """Run the workflow with a worker of its own, and return how it ended."""

    async def main() -> Ended:
        client = await connected(address)
        settings: dict[str, Any] = {"policies": {"charge": policy, "charge_in_thread": policy}, "default": None}
        interceptor = RedriveInterceptor(**settings | options)
        with ThreadPoolExecutor(2) as threads:
            async with Worker(
                client,
                task_queue="shop",
                workflows=[Order],
                activities=[charge, charge_in_thread, left_alone],
                interceptors=[interceptor],
                activity_executor=threads,
            ):
                handle = await client.start_workflow(
                    Order.run, name, id=f"{name}-{time.monotonic_ns()}", task_queue="shop"
                )
                result, error = None, None
                try:
                    result = await asyncio.wait_for(handle.result(), 20)
                except WorkflowFailureError as failed:
                    error = error_of_activity(failed)
                details = []
                async for event in handle.fetch_history_events():
                    started = event.activity_task_started_event_attributes
                    if started.HasField("last_failure"):
                        payloads = started.last_failure.application_failure_info.details.payloads
                        details = await client.data_converter.decode(payloads)
                return Ended(result, error, details)

    return asyncio.run(main())


def test_a_transient_failure_is_retried_after_the_delay_that_redrive_says(server: str, seen: list[Any]) -> None:
    SEEN.fail_times = 2
    ended = run(server)
    assert ended.result == "done"
    assert SEEN.attempts == [1, 2, 3]
    failed = [one for one in seen if isinstance(one, AttemptFailed)]
    assert [(one.attempt, one.decision.because.wait, one.decision.because.retry_number) for one in failed] == [
        (1, 0.02, 0),
        (2, 0.02, 1),
    ]
    assert [one.attempts for one in seen if isinstance(one, CallRecovered)] == [3]
    # The server kept why.
    said = ended.last_failure_details[-1]["redrive"]
    assert (said["decision"], said["because"]["attempt"], said["because"]["wait"]) == ("retry", 2, 0.02)


def test_when_redrive_gives_up_the_failure_is_final_and_says_why(server: str) -> None:
    SEEN.fail_times = 99
    ended = run(server)
    assert SEEN.attempts == [1, 2, 3]
    assert ended.error is not None
    assert (ended.error.non_retryable, ended.error.type, ended.error.message) == (True, "ConnectionError", "refused")
    said = ended.error.details[-1]["redrive"]
    assert (said["decision"], said["kind"]) == ("give_up", "exhausted")
    assert said["because"]["detail"] == "attempt 3 of 3 failed"
    assert "allow more attempts" in said["next_step"]


def test_a_permanent_failure_is_final_at_once(server: str) -> None:
    SEEN.fail_times, SEEN.error = 99, lambda: redrive.Permanent("card refused")
    ended = run(server)
    assert SEEN.attempts == [1]
    assert ended.error is not None
    assert ended.error.details[-1]["redrive"]["kind"] == "permanent"


def test_retry_after_becomes_the_delay(server: str, seen: list[Any]) -> None:
    SEEN.fail_times, SEEN.error = 1, lambda: redrive.RetryAfter(0.04)
    assert run(server).result == "done"
    (failed,) = [one for one in seen if isinstance(one, AttemptFailed)]
    assert failed.decision.because.wait == pytest.approx(0.04)


@pytest.mark.promise("L4")
def test_guarded_calls_in_a_thread_make_one_attempt_and_keep_their_keys(server: str) -> None:
    SEEN.fail_times = 99
    run(server, "charge_in_thread")
    assert (SEEN.inner, SEEN.attempts) == (3, [1, 2, 3])
    assert len(set(SEEN.keys)) == 1


def test_an_application_error_may_be_retried_unless_it_says_otherwise(server: str) -> None:
    SEEN.fail_times = 99
    SEEN.error = lambda: ApplicationError("busy", {"till": 3}, type="Busy")
    ended = run(server)
    assert SEEN.attempts == [1, 2, 3]
    assert ended.error is not None
    assert (ended.error.type, ended.error.details[0]) == ("Busy", {"till": 3})
    SEEN.attempts.clear()
    run(server, policy=QUICK.replace(never_on=redrive.failures.as_match("Busy")))
    assert SEEN.attempts == [1]
    SEEN.attempts.clear()
    SEEN.error = lambda: ApplicationError("refused", "mine", non_retryable=True)
    ended = run(server)
    assert SEEN.attempts == [1]
    assert ended.error is not None
    assert list(ended.error.details) == ["mine"]


def test_activities_without_a_policy_get_the_default_or_are_left_to_temporal(server: str) -> None:
    SEEN.fail_times, SEEN.error = 99, lambda: ApplicationError("refused", non_retryable=True)
    ended = run(server, "left_alone")
    assert ended.error is not None
    assert not ended.error.details
    SEEN.attempts.clear()
    SEEN.error = lambda: ValueError("wrong")
    ended = run(server, "left_alone", default=redrive.Policy())
    assert ended.error is not None
    assert ended.error.details[-1]["redrive"]["kind"] == "permanent"


@pytest.mark.parametrize(
    ("given", "attempts", "waits"),
    [
        (None, None, [1, 2, 4, 8, 16, 32, 64, 100, 100]),
        (RetryPolicy(maximum_attempts=3), 3, [1, 2]),
        (
            RetryPolicy(
                initial_interval=timedelta(seconds=2), backoff_coefficient=3, maximum_interval=timedelta(seconds=10)
            ),
            None,
            [2, 6, 10, 10],
        ),
    ],
)
def test_a_retry_policy_is_read(given: RetryPolicy | None, attempts: int | None, waits: list[float]) -> None:
    policy = policy_of(given)
    assert policy.attempts == attempts
    assert [row.high for row in preview(policy, rows=len(waits) + 1).rows[1:]] == waits


def test_timeouts_and_final_errors_are_read() -> None:
    given = RetryPolicy(non_retryable_error_types=["Refused"])
    policy = policy_of(
        given, start_to_close_timeout=timedelta(seconds=9), schedule_to_close_timeout=timedelta(minutes=2)
    )
    assert (policy.attempt_timeout, policy.deadline, policy.never_on.names) == (9.0, 120.0, ("Refused",))


def test_a_wrong_policy_is_refused() -> None:
    with pytest.raises(TypeError, match=r"activity charge: dict is not a redrive\.Policy"):
        RedriveInterceptor({"charge": {"attempts": 3}})  # type: ignore[dict-item]
