"""Each failed attempt is logged with its facts, and never with a secret."""

import io
import json
import logging
import urllib.error
from collections.abc import Iterator
from email.message import Message
from typing import Any
from uuid import UUID

import pytest
import structlog

import redrive
from redrive.calls.fallback import GivenUpCall
from redrive.notation import read_policy
from redrive.telemetry.events import Event
from redrive.telemetry.stream import correlation_id
from redrive.testing import virtual_clock

SECRETS = ("hunter2", "sk_live_abcdef0123456789", "s3cr3t-t0k3n", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl")


class RateLimitedError(Exception):
    status_code = 429

    def __init__(self, message: str, headers: dict[str, str]) -> None:
        super().__init__(message)
        self.headers = headers


class Records:
    """The records that the logger "redrive" has made so far."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def __iter__(self) -> Iterator[Any]:
        return iter(self._caplog.records)

    def __getitem__(self, index: int) -> Any:
        return self._caplog.records[index]


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Iterator[Records]:
    with caplog.at_level(logging.DEBUG, logger="redrive"):
        yield Records(caplog)


@pytest.mark.promise("P11")
def test_a_failed_attempt_logs_all_its_facts(records: Records) -> None:
    @redrive.retry(operation="charge", dependency="payments-log-test")
    def charge() -> None:
        raise RateLimitedError("slow down", {"Retry-After": "2"})

    with virtual_clock(), redrive.correlate("req-17"), pytest.raises(RateLimitedError):
        charge()
    first, _, last = records
    facts = {
        "operation": "charge",
        "attempt": 1,
        "max_attempts": 3,
        "error_class": "transient",
        "status": 429,
        "retry_after_s": 2.0,
        "wait_s": 2.0,
        "elapsed_s": 0.0,
        "correlation_id": "req-17",
        "dependency": "payments-log-test",
    }
    assert {name: getattr(first, name) for name in facts} == facts
    assert first.levelname == "INFO"
    assert "attempt 1/3" in first.getMessage()
    assert (last.levelname, last.gave_up, last.elapsed_s) == ("WARNING", "exhausted", 4.0)


@pytest.mark.promise("P11")
def test_recovery_is_logged(records: Records) -> None:
    tries: list[int] = []

    @redrive.retry
    def flaky() -> None:
        tries.append(1)
        if len(tries) < 2:
            raise ConnectionError

    with virtual_clock():
        flaky()
    assert "succeeded on attempt 2" in records[-1].getMessage()


def plant_secrets() -> list[Exception]:
    url = f"https://user:{SECRETS[0]}@api.example/v1?api_key={SECRETS[1]}&x=1"
    headers = Message()
    headers["Authorization"] = f"Bearer {SECRETS[2]}"
    return [
        ConnectionError(f"cannot reach {url}"),
        TimeoutError(f"Authorization: Bearer {SECRETS[2]}"),
        urllib.error.HTTPError(url, 503, f"token={SECRETS[2]}", headers, io.BytesIO(b"")),
        ConnectionError(f"jwt {SECRETS[3]} expired, password='{SECRETS[0]}'"),
        RateLimitedError(f'{{"api_key": "{SECRETS[1]}"}}', {"Retry-After": f"Bearer {SECRETS[2]}"}),
        redrive.RetryAfter(1, f"postgresql://app:{SECRETS[0]}@db/prod is restarting"),
    ]


@pytest.mark.promise("P11")
@pytest.mark.parametrize("number", range(6))
def test_planted_secrets_show_nowhere(records: Records, number: int) -> None:
    shown: list[str] = []

    def look(event: Event) -> None:
        shown.append(repr(event))

    def enqueue(call: GivenUpCall) -> None:
        shown.append(repr(call))
        report = redrive.report_of(call.error)
        shown.extend((str(report), repr(report), *call.error.__notes__))

    error = plant_secrets()[number]

    @redrive.retry(on_event=look, fallback=redrive.fallback.queue(enqueue), dependency=f"secrets-{number}")
    def call(password: str) -> None:
        raise error

    with virtual_clock(), redrive.correlate(f"token={SECRETS[2]}"):
        call(SECRETS[0])
    shown.extend(json.dumps(vars(record), default=str) for record in records)
    shown.extend(record.getMessage() for record in records)
    shown.append(repr(call.retrier))  # type: ignore[attr-defined]  # the guarded function's Retrier
    assert list(records)
    for text in shown:
        for secret in SECRETS:
            assert secret not in text


def test_a_broken_listener_harms_no_one(records: Records) -> None:
    seen: list[Event] = []

    def broken(event: Event) -> None:
        raise RuntimeError("the hook is broken")

    tries: list[int] = []

    @redrive.retry(on_event=[broken, seen.append])
    def flaky() -> str:
        tries.append(1)
        if len(tries) < 2:
            raise ConnectionError
        return "done"

    with virtual_clock():
        assert flaky() == "done"
    assert len(seen) == 2
    assert any("broken" in record.getMessage() for record in records)


@pytest.mark.promise("P11")
def test_a_broken_listener_is_told_with_where_it_broke_and_without_the_secrets_of_the_call(records: Records) -> None:
    def broken(event: Any) -> None:
        raise RuntimeError("the hook is broken") from ExceptionGroup(
            "two", [event.failure.error, ValueError("\x1b[2J")]
        )

    def call() -> None:
        for attempt in redrive.attempts(attempts=1, on_event=broken):
            with attempt:
                raise ConnectionError("no route to https://ann:hunter2@host/\npassword=hunter2")

    with pytest.raises(ConnectionError):
        call()
    told = next(record.getMessage() for record in records if "listener" in record.getMessage())
    formatted = "".join(logging.Formatter().format(record) for record in records)
    assert "hunter2" not in formatted
    assert "\x1b" not in formatted
    assert told.endswith("\nRuntimeError: the hook is broken")
    assert "in broken\n    raise RuntimeError(" in told
    for led_to in (
        "ExceptionGroup: two (2 sub-exceptions)",
        "ConnectionError: no route to https://***@host/",
        "ValueError: ",
    ):
        assert f"\n{led_to}" in told


@pytest.mark.promise("P11")
def test_structlog_takes_the_records_over() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logger = logging.getLogger("redrive")
    logger.addHandler(handler)
    try:
        with virtual_clock(), pytest.raises(ValueError, match="bad"):
            redrive.retry(operation="parse")(_bad)()
    finally:
        logger.removeHandler(handler)
    line = json.loads(stream.getvalue())
    assert (line["operation"], line["error_class"], line["gave_up"]) == ("parse", "permanent", "permanent")


def _bad() -> None:
    raise ValueError("bad")


def test_without_logging_set_up_nothing_reaches_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    try:
        with virtual_clock(), pytest.raises(ValueError, match="bad"):
            redrive.retry(_bad)()
    finally:
        root.handlers = handlers
    assert capfd.readouterr().err == ""


def test_a_listener_that_listens_twice_is_stopped_once_at_a_time() -> None:
    events: list[Event] = []
    note = events.append
    stop_first, stop_second = redrive.listen(note), redrive.listen(note)

    @redrive.retry(attempts=1)
    def fail() -> None:
        raise ConnectionError

    heard = []
    for stop in (stop_first, stop_first, stop_second):
        stop()
        events.clear()
        with pytest.raises(ConnectionError):
            fail()
        heard.append(len(events))
    assert heard == [1, 1, 0]


def test_ids_of_any_kind_correlate() -> None:
    request_id = UUID("12345678-1234-5678-1234-567812345678")
    for given, shown in ((request_id, str(request_id)), (42, "42"), ("req-17", "req-17")):
        with redrive.correlate(given):
            assert correlation_id() == shown


def test_without_a_limit_of_attempts_only_their_number_is_logged_and_the_rule_that_ends_them_in_words(
    records: Records,
) -> None:
    policy = read_policy("[ConnectionError -> retry: 1, backoff: 1s]").policy

    @redrive.retry(policy, operation="charge")
    def charge() -> None:
        raise ConnectionError("away")

    with virtual_clock(), pytest.raises(ConnectionError):
        charge()
    first, last = (record.getMessage() for record in records)
    assert first.startswith("charge: attempt 1 failed (transient)")
    assert last.startswith("charge: attempt 2 failed (transient)")
    assert last.endswith("giving up (exhausted): the rule for ConnectionError grants 1 retry")
