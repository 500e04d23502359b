"""What happens around each attempt at a stage.

| priority | name | in the default set | |
|---|---|---|---|
| 3 | `IdempotencyInterceptor` | | work that has a key is done once |
| 5 | `TimeoutInterceptor` | yes | cuts attempts of stages that declare a timeout |
| 10 | `CircuitBreakerInterceptor` | yes | no attempts while what a stage talks to is down |
| 15 | `RetryInterceptor` | | retries failures that may pass |
| 20 | `TracingInterceptor` | yes | OpenTelemetry spans, where that is installed and set up |
| 40 | `MetricsInterceptor` | yes | attempts and how long they take, for Prometheus |
| 50 | `LoggingInterceptor` | yes | attempts, in the log |
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
    """The default set, in a list of your own. It retries nothing unasked: append a RetryInterceptor for that.

    What a stage asks for itself (`retry_config`, `timeout_ms`, `StageOutput.retry`) is done with any set.
    """
    return [
        TimeoutInterceptor(),
        CircuitBreakerInterceptor(),
        TracingInterceptor(),
        MetricsInterceptor(),
        LoggingInterceptor(),
    ]
