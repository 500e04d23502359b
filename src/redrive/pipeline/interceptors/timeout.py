"""Time for each attempt at a stage."""

from redrive.pipeline.interceptors.base import StatelessInterceptor
from redrive.pipeline.stage import read_timeout_ms


class TimeoutInterceptor(StatelessInterceptor):
    """Cuts each attempt, the first and every other, after `timeout_ms`, or the stage's own.

    An attempt that was cut failed with AttemptTimeoutError, a TimeoutError: retried like any other. After the first
    timeout attempts get half as much time again.
    """

    name = "timeout"
    priority = 5

    def __init__(self, timeout_ms: float | None = None) -> None:
        self.timeout = None if timeout_ms is None else read_timeout_ms(timeout_ms)
