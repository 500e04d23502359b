"""How an attempt over HTTP fails.

HttpStepError             the one that callers see; `.failure` says what it means
Permanent
├── RefusedAnswer
│   ├── WorkFailed        the handler said so: `success: false`
│   └── BadAnswer         the answer cannot be used: not JSON, too large, a redirect
└── BadRequest            it was not sent: the address, or its size
    └── AddressRefused    it leads to an address that must not be called
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
    """No other answer is to be expected."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class WorkFailed(RefusedAnswer):
    """The handler says that the work failed for good."""


class BadAnswer(RefusedAnswer):
    """The answer is none that a handler gives."""


class BadRequest(Permanent):
    """The request cannot be sent."""


class AddressRefused(BadRequest):
    """Outgoing calls do not go to private addresses, unless they are allowed."""

    def __init__(self, host: str, address: str) -> None:
        leads = host if host == address else f"{host} leads to {address}, which"
        super().__init__(
            f"{leads} is not a public address, and is not called; allow it with --allow {address}, or in Python with "
            f'http=HttpSettings(allow=("{address}",))'
        )
