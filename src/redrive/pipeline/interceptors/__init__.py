"""The interceptors that ship with redrive, in the order in which they run around each attempt.

| priority | name | in the default set | |
|---|---|---|---|
| 3 | `IdempotencyInterceptor` | | runs work with the same key once |
| 5 | `TimeoutInterceptor` | yes | cuts attempts that exceed the timeout |
| 10 | `CircuitBreakerInterceptor` | yes | refuses attempts while the stage's dependency is down |
| 15 | `RetryInterceptor` | | retries transient failures |
| 20 | `TracingInterceptor` | yes | OpenTelemetry spans, if a tracer provider is set up |
| 40 | `MetricsInterceptor` | yes | durations and outcomes of attempts, for Prometheus |
| 50 | `LoggingInterceptor` | yes | a log record for each attempt |
"""

from redrive.pipeline.interceptors.base import BaseInterceptor, ErrorAction
from redrive.pipeline.interceptors.circuit_breaker import CircuitBreakerInterceptor
from redrive.pipeline.interceptors.idempotency import IdempotencyInterceptor
from redrive.pipeline.interceptors.logging import LoggingInterceptor
from redrive.pipeline.interceptors.metrics import MetricsInterceptor
from redrive.pipeline.interceptors.retry import BackoffStrategy, JitterStrategy, RetryInterceptor
from redrive.pipeline.interceptors.timeout import TimeoutInterceptor
from redrive.pipeline.interceptors.tracing import TracingInterceptor

__all__ = [
    "BackoffStrategy",
    "BaseInterceptor",
    "CircuitBreakerInterceptor",
    "ErrorAction",
    "IdempotencyInterceptor",
    "JitterStrategy",
    "LoggingInterceptor",
    "MetricsInterceptor",
    "RetryInterceptor",
    "TimeoutInterceptor",
    "TracingInterceptor",
    "get_default_interceptors",
]


def get_default_interceptors() -> list[BaseInterceptor]:
    """Return a new list of the default interceptors. They do not retry: append a RetryInterceptor for that.

    Settings of a stage (`retry_config`, `timeout_ms`) and `StageOutput.retry` work with any interceptors.
    """
    return [
        TimeoutInterceptor(),
        CircuitBreakerInterceptor(),
        TracingInterceptor(),
        MetricsInterceptor(),
        LoggingInterceptor(),
    ]
