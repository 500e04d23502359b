"""A time limit for each attempt at a stage."""

from redrive.pipeline.interceptors.base import StatelessInterceptor
from redrive.pipeline.stage import read_timeout_ms


class TimeoutInterceptor(StatelessInterceptor):
    """Cuts each attempt after `timeout_ms`, or after the stage's own.

    An attempt that is cut fails with AttemptTimeoutError, a TimeoutError, and is retried like other failures. After the
    first timeout, attempts get 1.5 times the time.
    """

    name = "timeout"
    priority = 5

    def __init__(self, timeout_ms: float | None = None) -> None:
        self.timeout = None if timeout_ms is None else read_timeout_ms(timeout_ms)
