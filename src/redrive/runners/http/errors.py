"""The errors of HTTP steps.

HttpStepError             the error of an attempt, with its classified `failure`
Permanent
├── RefusedAnswer
│   ├── WorkFailed        the handler answered `success: false`
│   └── BadAnswer         the answer cannot be used: not JSON, too large, a redirect
└── BadRequest            the request was not sent: wrong address, or too large
    └── AddressRefused    the address must not be called
"""

from redrive.errors import Permanent
from redrive.failures.failure import Failure, JudgedError


class HttpStepError(JudgedError):
    """An attempt of an HTTP step failed."""

    def __init__(self, message: str, failure: Failure) -> None:
        super().__init__(message)
        self.failure = failure

    def judged(self) -> Failure:
        return self.failure


class RefusedAnswer(Permanent):
    """An answer that a retry would not change."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class WorkFailed(RefusedAnswer):
    """The handler answered that the work failed, and must not be retried."""


class BadAnswer(RefusedAnswer):
    """The answer is not a valid answer of a handler."""


class BadRequest(Permanent):
    """The request cannot be sent."""


class AddressRefused(BadRequest):
    """The host has a private address, and the settings do not allow it."""

    def __init__(self, host: str, address: str) -> None:
        subject = host if host == address else f"{host} resolves to {address}, which"
        super().__init__(
            f"{subject} is not a public address, and is not called; allow it with --allow {address}, or in Python with "
            f'http=HttpSettings(allow=("{address}",))'
        )
