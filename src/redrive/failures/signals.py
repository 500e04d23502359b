"""Exceptions that your code raises to control retries, and those that redrive raises for a failed attempt.

Exception
├── Permanent             raised by your code: do not retry this
├── RetryAfter            raised by your code: retry this after a delay
├── Snooze                raised by an action: run it again later, without using up an attempt
├── ResultRejected        `retry_result` rejected the result of the last attempt
├── AttemptLost           the worker that ran the attempt is gone
├── CrashLoop             every worker that claims the flow dies
├── Relayed               stands for another error, and is classified as that one
└── TimeoutError
    ├── AttemptTimeout    one attempt took longer than `attempt_timeout`
    └── DeadlineExceeded  the attempt was still running at the deadline of the call
"""

from typing import Any

from redrive.failures.duration import read_duration


class Permanent(Exception):
    """Raise it to give up without a retry."""


class RetryAfter(Exception):
    """Raise it to ask for a retry after `delay` (seconds, a timedelta, or text such as "30s")."""

    def __init__(self, delay: Any, *args: object) -> None:
        super().__init__(delay, *args)
        self.delay = delay
        self.seconds = read_duration(delay)

    def __str__(self) -> str:
        detail = " ".join(str(part) for part in self.args[1:])
        return detail or f"retry after {self.delay}"


class Snooze(Exception):
    """Raise it in an action to run it again after `delay` (seconds, a timedelta, or text such as "30s").

    No attempt is used up: the next one has the same number.
    """

    def __init__(self, delay: Any, *args: object) -> None:
        super().__init__(delay, *args)
        self.delay = delay
        self.seconds = read_duration(delay)

    def __str__(self) -> str:
        detail = " ".join(str(part) for part in self.args[1:])
        return detail or f"snoozed for {self.delay}"


class AttemptLost(Exception):
    """The worker that ran the attempt is gone, so the outcome of the attempt is not known."""


class CrashLoop(Exception):
    """Every worker that claimed the flow died: the flow's own code kills the process that runs it."""


class Relayed(Exception):
    """An error that stands for another one, which is classified in its place."""

    retries_were_made = False
    """Whether the retries that the other error asked for have been made already."""

    @property
    def stands_for(self) -> BaseException:
        """The other error."""
        raise NotImplementedError


class AttemptTimeout(TimeoutError):
    """One attempt ran longer than its `attempt_timeout`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the attempt took longer than its {seconds:g} s")
        self.seconds = seconds

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.seconds,), vars(self)


class DeadlineExceeded(TimeoutError):
    """The attempt was cut at the deadline of the whole call."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the attempt was cut at the call's deadline of {seconds:g} s")
        self.seconds = seconds

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.seconds,), vars(self)


class ResultRejected(Exception):
    """Every attempt returned, but `retry_result` rejected the value; the last value is in `.result`."""

    def __init__(self, result: Any) -> None:
        super().__init__(f"the result ({type(result).__name__}) was rejected by retry_result")
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.result,), vars(self)
