"""The errors that an error was raised from: they decide when the error says nothing by itself.

An explicit cause (`raise ApiError from error`) always counts: the code that raised the error named it.

An implicit context (an error raised inside an `except` block) counts only under two conditions, because it may just as
well be a mistake in the handler itself, or an error that was dealt with, such as a cache miss:

- The class of the raised error is installed from a library. Client libraries often wrap the errors of their transport
  without naming them. A builtin (`RuntimeError`, `KeyError`) or a class of the user's own code says nothing that way.
- The context is transient, or carries an HTTP status: it is evidence about the service, not about the code.

`raise ... from None` hides the context. Errors that are known by themselves are not asked for their causes: a KeyError
that was raised while a timeout was handled stays permanent, and so does a ValueError raised from one.
"""

import sys
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from redrive.errors import RedriveError
from redrive.failures.failure import Failure

# Errors may be wrapped several times over, or be their own cause.
_DEEPEST = 8
_INSTALLED = ("site-packages", "dist-packages")


class Cause(msgspec.Struct, frozen=True):
    """One link in the chain of causes."""

    error: Exception
    explicit: bool
    """True when every link up to this one was named with `from`."""

    def may_decide(self, failure: Failure) -> bool:
        """Whether the classification of this cause counts for the error that was raised."""
        if failure.category == "unknown":
            return False
        return self.explicit or failure.category == "transient" or failure.status is not None


def causes_of(error: BaseException) -> Iterator[Cause]:
    """Yield the causes of an error that may decide its category, nearest first."""
    seen = {id(error)}
    explicit = True
    for _ in range(_DEEPEST):
        # redrive's own errors mean what they are, whatever led to them.
        if isinstance(error, RedriveError):
            return
        cause = error.__cause__
        kind: type = type(error)
        if cause is None and not error.__suppress_context__ and _of_a_library(kind):
            cause = error.__context__
            explicit = False
        # A cancellation or the end of the program is no reason to retry what was raised from it.
        if not isinstance(cause, Exception) or id(cause) in seen:
            return
        seen.add(id(cause))
        yield Cause(cause, explicit)
        error = cause


@lru_cache(maxsize=1024)
def _of_a_library(kind: type) -> bool:
    """Whether the class comes from an installed package, and not from Python or from the user's own code."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return isinstance(file, str) and any(folder in file for folder in _INSTALLED)
