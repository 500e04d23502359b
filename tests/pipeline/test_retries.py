"""Retries of stages: what is retried, how often, how far apart, and what is told about it. No real time passes."""

import asyncio
import inspect
import logging
from typing import Any

import aiohttp
import httpx
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from prometheus_client import CollectorRegistry
from tests.pipeline.scene import Stage, gives, one, run
from yarl import URL

import redrive
from redrive.errors import PipelineError
from redrive.integrations.prometheus import export
from redrive.pipeline import (
    BackoffStrategy,
    CircuitBreakerInterceptor,
    ErrorAction,
    JitterStrategy,
    Pipeline,
    RetryInterceptor,
    StageContext,
    StageOutput,
    StageReportedError,
    StageRun,
    TracingInterceptor,
    get_default_interceptors,
)
from redrive.testing import virtual_clock

NO_JITTER = JitterStrategy.NONE


def http_errors(status: int) -> list[Exception]:
    """The status as each HTTP client has it: httpx, requests (an OSError, whatever the status) and aiohttp."""
    request = httpx.Request("GET", "http://service/")
    answer = requests.Response()
    answer.status_code = status
    info = aiohttp.RequestInfo(URL("http://service/"), "GET", CIMultiDictProxy(CIMultiDict()), URL("http://service/"))
    return [
        httpx.HTTPStatusError("no", request=request, response=httpx.Response(status, request=request)),
        requests.HTTPError("no", response=answer),
        aiohttp.ClientResponseError(info, (), status=status),
    ]


@pytest.mark.promise("S1")
@pytest.mark.parametrize("client", [0, 1, 2], ids=["httpx", "requests", "aiohttp"])
@pytest.mark.parametrize(
    ("status", "calls"), [(429, 3), (500, 3), (503, 3), (408, 3), (400, 1), (401, 1), (404, 1), (409, 1), (422, 1)]
)
def test_statuses_that_may_pass_are_retried_and_client_errors_are_not(client: int, status: int, calls: int) -> None:
    stage = Stage(http_errors(status)[client])
    with virtual_clock():
        assert run(one(stage), [RetryInterceptor()]).failed.error is stage.endings[0]
    assert stage.calls == calls


@pytest.mark.promise("S1")
@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (TimeoutError(), 3),
        (ConnectionResetError(), 3),
        (OSError("no route"), 3),
        (httpx.ConnectTimeout("slow"), 3),
        (ValueError("bad"), 1),
        (KeyError("missing"), 1),
        (redrive.Permanent("no"), 1),
    ],
)
def test_errors_that_may_pass_are_retried_and_others_are_not(error: Exception, calls: int) -> None:
    stage = Stage(error)
    with virtual_clock():
        assert run(one(stage), [RetryInterceptor()]).failed.error is error
    assert stage.calls == calls


def test_only_the_errors_that_are_named_are_retried() -> None:
    class RateLimited(Exception):
        pass

    named = RetryInterceptor(retryable_errors=(RateLimited,))
    limited, lost = Stage(RateLimited()), Stage(ConnectionError())
    with virtual_clock():
        run(one(limited), [named])
        run(one(lost), [named])
    assert (limited.calls, lost.calls) == (3, 1)


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    ("strategy", "waits"),
    [
        (BackoffStrategy.EXPONENTIAL, [1, 2, 4, 8, 16, 30]),
        (BackoffStrategy.LINEAR, [1, 2, 3, 4, 5, 6]),
        (BackoffStrategy.CONSTANT, [1, 1, 1, 1, 1, 1]),
    ],
)
def test_waits_without_jitter_follow_their_formula_up_to_the_cap(strategy: BackoffStrategy, waits: list[int]) -> None:
    retry = RetryInterceptor(max_attempts=7, backoff_strategy=strategy, jitter_strategy=NO_JITTER)
    with virtual_clock() as clock:
        told = run(one(Stage(ConnectionError())), [retry]).events.named("stage.retry_scheduled")
    assert clock.waits == waits
    assert [event.delay_ms for event in told] == [1000 * wait for wait in waits]


@pytest.mark.promise("S3")
@given(
    jitter=st.sampled_from([JitterStrategy.FULL, JitterStrategy.EQUAL, JitterStrategy.DECORRELATED]),
    strategy=st.sampled_from(BackoffStrategy),
    base=st.integers(1, 100_000),
    cap=st.integers(1, 100_000),
)
def test_waits_stay_in_the_range_of_their_jitter(
    jitter: JitterStrategy, strategy: BackoffStrategy, base: int, cap: int
) -> None:
    retry = RetryInterceptor(6, base, cap, strategy, jitter)
    with virtual_clock() as clock:
        run(one(Stage(ConnectionError())), [retry])
    assert len(clock.waits) == 5
    previous = min(base, cap) / 1000
    for n, wait in enumerate(clock.waits):
        grown = {"exponential": base * 2**n, "linear": base * (n + 1), "constant": base}[strategy.value]
        d = min(grown, cap) / 1000
        low, high = {"full": (0.0, d), "equal": (d / 2, d)}.get(jitter.value, (0.0, 0.0))
        if jitter is JitterStrategy.DECORRELATED:
            low = min(base, cap) / 1000
            high = max(low, min(3 * previous, cap / 1000))
        assert low - 1e-9 <= wait <= high + 1e-9
        previous = wait


@pytest.mark.promise("S4")
def test_the_interceptor_has_the_arguments_and_the_place_that_it_is_known_for() -> None:
    parameters = inspect.signature(RetryInterceptor).parameters
    assert {name: one.default for name, one in parameters.items()} == {
        "max_attempts": 3,
        "base_delay_ms": 1000,
        "max_delay_ms": 30000,
        "backoff_strategy": BackoffStrategy.EXPONENTIAL,
        "jitter_strategy": JitterStrategy.FULL,
        "retryable_errors": (TimeoutError, ConnectionError, OSError),
    }
    assert (RetryInterceptor.name, RetryInterceptor.priority) == ("retry", 15)
    assert CircuitBreakerInterceptor.priority < RetryInterceptor.priority < TracingInterceptor.priority
    assert [one.name for one in get_default_interceptors()] == [
        *("timeout", "circuit_breaker", "tracing", "metrics", "logging")
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"max_attempts": 0}, "write 1 for one attempt"),
        ({"base_delay_ms": -1}, "base_delay_ms"),
        ({"jitter_strategy": "wild"}, "none, full, equal, decorrelated"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused_by_name(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        RetryInterceptor(**arguments)


@pytest.mark.promise("S5")
@pytest.mark.parametrize("with_defaults", [False, True])
def test_four_failures_and_five_attempts_are_five_calls(with_defaults: bool) -> None:
    stage = Stage(*[ConnectionError("away")] * 4, StageOutput.ok(answer=42))
    interceptors = [*(get_default_interceptors() if with_defaults else []), RetryInterceptor(max_attempts=5)]
    with virtual_clock():
        ended = run(one(stage), interceptors)
    assert stage.calls == 5
    assert ended.result.data("work") == {"answer": 42}
    assert [event.attempt for event in ended.events.named("stage.retry_scheduled")] == [1, 2, 3, 4]


@pytest.mark.promise("S5")
def test_when_all_attempts_fail_the_error_carries_each_of_them() -> None:
    stage = Stage(ConnectionError("away"))
    with virtual_clock():
        failed = run(one(stage), [RetryInterceptor(max_attempts=5)]).failed
    assert stage.calls == 5
    report = redrive.report_of(failed.error)
    assert report is not None
    assert (report.made, report.gave_up.kind) == (5, "exhausted")
    assert "stage 'work' failed after 5 attempts (exhausted): ConnectionError: away" in str(failed)


@pytest.mark.promise("S8")
def test_a_stage_that_asks_for_a_retry_gets_it_after_that_time_and_nothing_runs_before() -> None:
    seen: list[Any] = []

    async def after(ctx: StageContext) -> None:
        seen.append(ctx.inputs["answer"])

    asks = Stage(StageOutput.retry(reason="busy", retry_after_ms=7000), StageOutput.ok(answer=42))
    pipeline = one(asks).with_stage("after", after, dependencies=("work",))
    with virtual_clock() as clock:
        ended = run(pipeline, [RetryInterceptor()])
    assert (clock.waits, asks.calls, seen) == ([7.0], 2, [42])
    scheduled = ended.events.named("stage.retry_scheduled")
    assert [(event.delay_ms, event.error) for event in scheduled] == [(7000, "busy")]


@pytest.mark.promise("S8")
def test_without_a_time_the_settings_say_how_long_and_with_any_set_of_interceptors() -> None:
    for interceptors in ([RetryInterceptor(jitter_strategy=NO_JITTER)], get_default_interceptors(), []):
        asks = Stage(StageOutput.retry("busy"))
        with virtual_clock() as clock:
            failed = run(one(asks).with_stage("after", Stage(), dependencies=("work",)), interceptors).failed
        assert asks.calls == 3
        assert len(clock.waits) == 2
        assert isinstance(failed.error, StageReportedError)
        assert "after" not in failed.results


@pytest.mark.promise("S9")
def test_a_stage_that_fails_by_its_output_fails_once_unless_it_opts_in() -> None:
    retry = RetryInterceptor(retryable_errors=(Exception,))
    once, often = Stage(StageOutput.fail("bad input")), Stage(StageOutput.fail("bad luck"), retry_on_fail=True)
    with virtual_clock():
        failed = run(one(once), [retry]).failed
        run(one(often), [retry])
    assert (once.calls, often.calls) == (1, 3)
    assert isinstance(failed.error, StageReportedError)
    assert str(failed.error) == "bad input"


@pytest.mark.promise("S10")
def test_retry_config_goes_over_the_interceptor_and_takes_the_rest_from_it() -> None:
    config = {"max_attempts": 4, "base_delay_ms": 100, "backoff_strategy": "linear"}
    stage, other = Stage(ConnectionError(), retry_config=config), Stage(ConnectionError())
    retry = RetryInterceptor(max_attempts=2, base_delay_ms=5000, max_delay_ms=250, jitter_strategy=NO_JITTER)
    with virtual_clock() as clock:
        run(one(stage), [retry])
        assert clock.waits == [0.1, 0.2, 0.25]
        run(one(other), [retry])
    assert (stage.calls, other.calls) == (4, 2)


@pytest.mark.promise("S10")
def test_retry_config_needs_no_interceptor() -> None:
    stage = Stage(ConnectionError(), retry_config={"max_attempts": 4})
    with virtual_clock():
        run(one(stage))
    assert stage.calls == 4


@pytest.mark.promise("S10")
@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"max_attempts": 0}, "write 1 for one attempt"),
        ({"max_atempts": 5}, "did you mean 'max_attempts'"),
        ({"backoff_strategy": "exponentially"}, "exponential, linear, constant|constant, linear, exponential"),
        ({"base_delay_ms": "soon"}, "base_delay_ms"),
        ({"retryable_errors": [KeyboardInterrupt]}, "retryable_errors"),
        ("max_attempts: 5", "a mapping"),
        (5, "a mapping"),
    ],
)
def test_a_retry_config_that_cannot_be_meant_is_refused_when_the_pipeline_is_built(config: Any, says: str) -> None:
    with pytest.raises(PipelineError, match=says) as refused:
        Pipeline().with_stage("pay", Stage(retry_config=config))
    assert "pay" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.promise("S11")
def test_each_retry_event_reaches_the_sink_with_all_its_fields() -> None:
    retry = RetryInterceptor(max_attempts=3, jitter_strategy=NO_JITTER)
    stage = Stage(ConnectionError("away"), ConnectionError("away"), StageOutput.ok())
    with virtual_clock():
        events = run(one(stage), [retry], request_id="r-1").events
    scheduled, succeeded = events.named("stage.retry_scheduled"), events.named("stage.retry_succeeded")
    assert [(one.stage, one.attempt, one.delay_ms, one.error, one.error_type) for one in scheduled] == [
        ("work", 1, 1000, "away", "ConnectionError"),
        ("work", 2, 2000, "away", "ConnectionError"),
    ]
    assert [(one.stage, one.attempt, one.total_time_ms) for one in succeeded] == [("work", 3, 3000)]
    assert {one.request_id for one in scheduled + succeeded} == {"r-1"}
    assert len({one.pipeline_run_id for one in scheduled + succeeded}) == 1

    with virtual_clock():
        events = run(one(Stage(ConnectionError("away"))), [retry]).events
    exhausted = events.named("stage.retry_exhausted")
    assert [(one.stage, one.attempts, one.total_time_ms, one.error) for one in exhausted] == [("work", 3, 3000, "away")]
    assert events.names[-3:] == ["stage.retry_exhausted", "stage.failed", "pipeline.ended"]


@pytest.mark.promise("S11")
def test_what_needs_no_retry_tells_of_none() -> None:
    names = run(one(Stage()), [RetryInterceptor()]).events.names
    names += run(one(Stage(ValueError())), [RetryInterceptor()]).events.names
    assert not [name for name in names if "retry" in name]


@pytest.mark.promise("S12")
def test_the_three_metrics_have_their_labels() -> None:
    registry = CollectorRegistry()
    stop = export(registry)
    retry = RetryInterceptor(jitter_strategy=NO_JITTER)
    try:
        with virtual_clock():
            run(one(Stage(ConnectionError(), TimeoutError(), None), "pay"), [*get_default_interceptors(), retry])

        def value(name: str, **labels: str) -> float | None:
            return registry.get_sample_value(name, {"stage": "pay", **labels})

        assert value("redrive_retry_attempts_total", error_type="ConnectionError") == 1
        assert value("redrive_retry_attempts_total", error_type="TimeoutError") == 1
        assert value("redrive_retry_success_total", attempt="3") == 1
        assert value("redrive_retry_delay_seconds_count") == 2
        assert value("redrive_retry_delay_seconds_sum") == 3.0
        assert value("redrive_stage_attempt_seconds_count", outcome="failed") == 2
        assert value("redrive_stage_attempt_seconds_count", outcome="completed") == 1
    finally:
        stop()


@pytest.mark.promise("S15")
def test_the_log_record_of_a_retry_has_all_its_facts_and_no_secrets(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(ConnectionError("no route to https://u:hunter2@api/"), None)
    with virtual_clock(), caplog.at_level(logging.INFO, "redrive"):
        ended = run(one(stage), [RetryInterceptor()], request_id="r-1")
    record: Any = caplog.records[0]
    assert record.levelno == logging.INFO
    assert (record.stage, record.error, record.error_type) == (
        "work",
        "no route to https://***@api/",
        "ConnectionError",
    )
    assert (record.attempt, record.request_id, record.pipeline_run_id) == (1, "r-1", ended.result.run_id)
    assert "hunter2" not in caplog.text


def test_the_logging_interceptor_tells_of_each_attempt_and_of_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "redrive.pipeline"):
        run(one(Stage(ValueError("token=abc123456789"))), request_id="r-1")
    begins, failed = caplog.records
    assert (begins.levelno, failed.levelno) == (logging.DEBUG, logging.WARNING)
    facts: Any = failed
    assert (facts.stage, facts.error_type, facts.attempt, facts.request_id) == ("work", "ValueError", 1, "r-1")
    assert "abc123456789" not in caplog.text


def test_guarded_calls_in_a_stage_that_is_retried_make_one_attempt_each() -> None:
    calls = 0

    @redrive.retry(attempts=3)
    async def call() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionError

    async def stage(ctx: StageContext) -> None:
        await call()

    with virtual_clock():
        run(one(stage), [RetryInterceptor(max_attempts=3)])
        assert calls == 3
        calls = 0
        run(one(stage))
        assert calls == 3


def test_a_pipeline_in_a_guarded_call_leaves_the_retries_to_it() -> None:
    stage = Stage(ConnectionError())

    @redrive.retry(attempts=2, retry_on=Exception)
    async def call() -> None:
        await one(stage).run(interceptors=[RetryInterceptor(max_attempts=5)])

    with virtual_clock(), pytest.raises(Exception, match="work"):
        asyncio.run(call())
    assert stage.calls == 2


def test_a_retry_interceptor_of_ones_own_may_overrule_the_policy() -> None:
    class Choosy(RetryInterceptor):
        async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction | None:
            return ErrorAction.FAIL if "fatal" in str(error) else await super().on_error(stage_name, error, ctx)

    fatal, passing = Stage(ConnectionError("fatal")), Stage(ConnectionError("busy"))
    with virtual_clock():
        run(one(fatal), [Choosy()])
        run(one(passing), [Choosy()])
    assert (fatal.calls, passing.calls) == (1, 3)


def test_the_inputs_of_a_stage_are_the_same_on_every_attempt() -> None:
    seen: list[tuple[int, Any, str]] = []

    async def flaky(ctx: StageContext) -> None:
        seen.append((ctx.attempt, ctx.inputs["cents"], ctx.idempotency_key))
        if ctx.attempt < 3:
            raise ConnectionError

    pipeline = Pipeline().with_stage("price", gives(cents=100)).with_stage("pay", flaky, dependencies=("price",))
    with virtual_clock():
        run(pipeline, [RetryInterceptor()])
    assert [(attempt, cents) for attempt, cents, _ in seen] == [(1, 100), (2, 100), (3, 100)]
    assert len({key for _, _, key in seen}) == 1
