"""Exceptions that say what should happen next, and those redrive itself raises for a failed attempt.

Exception
├── Permanent             raised by your code: do not retry this
├── RetryAfter            raised by your code: retry this, after that long
├── Snooze                raised by an action: come back later, this was no attempt
├── ResultRejected        the result of the last attempt was refused by `retry_result`
├── AttemptLost           the worker that made the attempt is gone
├── CrashLoop             each worker that takes the flow up is lost
├── Relayed               stands for another error, and is judged as that one
└── TimeoutError
    ├── AttemptTimeout    one attempt took longer than `attempt_timeout`
    └── DeadlineExceeded  the attempt was still running when the total deadline came
"""

from typing import Any

from redrive.failures.duration import read_duration


class Permanent(Exception):
    """Raise it to say that no retry will help."""


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
    """Raise it in an action to come back after `delay` (seconds, a timedelta, or text such as "30s").

    No attempt is spent: the next one has the same number.
    """

    def __init__(self, delay: Any, *args: object) -> None:
        super().__init__(delay, *args)
        self.delay = delay
        self.seconds = read_duration(delay)

    def __str__(self) -> str:
        detail = " ".join(str(part) for part in self.args[1:])
        return detail or f"snoozed for {self.delay}"


class AttemptLost(Exception):
    """The worker that made the attempt is gone, and nobody knows how it ended."""


class CrashLoop(Exception):
    """One worker after the other was lost when it took the flow up: its own code ends the process that runs it."""


class Relayed(Exception):
    """An error that stands for another one: whoever decides about a retry judges that one."""

    retries_were_made = False
    """Whether the other one was tried again as often as it had asked for."""

    @property
    def stands_for(self) -> BaseException:
        raise NotImplementedError


class AttemptTimeout(TimeoutError):
    """One attempt ran longer than its `attempt_timeout`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the attempt took longer than its {seconds:g} s")
        self.seconds = seconds

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.seconds,), vars(self)


class DeadlineExceeded(TimeoutError):
    """The attempt was cut because the total deadline of the call had come."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the attempt was cut at the call's deadline of {seconds:g} s")
        self.seconds = seconds

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.seconds,), vars(self)


class ResultRejected(Exception):
    """Every attempt returned, but `retry_result` refused the value; the last one is in `.result`."""

    def __init__(self, result: Any) -> None:
        super().__init__(f"the result ({type(result).__name__}) was refused by retry_result")
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.result,), vars(self)
