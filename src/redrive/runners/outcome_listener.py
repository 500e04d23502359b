"""Where a runner reports how attempts ended."""

from typing import Any, Protocol

from redrive.failures.failure import Failure
from redrive.flows.values.signature import NOT_READ
from redrive.runners.attempt import Attempt


class OutcomeListener(Protocol):
    """Called in the event loop, once for each attempt that was not cancelled."""

    def succeeded(self, attempt: Attempt, result: str, read: Any = NOT_READ) -> None:
        """`result`: as JSON. `read`: the value that reading it gives, if known."""
        ...

    def accepted(self, attempt: Attempt) -> None:
        """The handler of an asynchronous HTTP step took the work; its outcome is reported by callback."""
        ...

    def failed(
        self,
        attempt: Attempt,
        error: BaseException,
        *,
        timed_out: bool = False,
        poison: bool = False,
        failure: Failure | None = None,
    ) -> None:
        """`poison`: no other attempt can succeed. `failure`: the classified error, if known."""
        ...
