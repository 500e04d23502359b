"""Whether a failure shows that a library has retried by itself, inside a call that is retried already.

Two owners multiply their attempts: three by redrive and three by an SDK are nine requests. Most libraries leave a trace
of their retries in the errors that they raise; Stripe's leave none.
"""

import sys
import warnings
from collections.abc import Iterator, Mapping
from types import FrameType, TracebackType
from typing import Any

from redrive.failures.known_errors.entries import attribute

RETRY_COUNT = "x-stainless-retry-count"
"""The header in which the SDKs of OpenAI, Anthropic and others count their retries of a request."""

# The integrations, and what asks an owned client for retries in a single call.
_INTEGRATIONS = {
    "anthropic": "max_retries=",
    "botocore": "",
    "google": "retry=",
    "openai": "max_retries=",
    "urllib3": "retries=",
}
# What carries out an attempt, and the SDKs with what they are built on: the place to show is the code that uses them.
_CARRIERS = frozenset({"redrive", "asyncio", "concurrent", "contextlib", "functools", "threading", "anyio", "trio"})
_SDKS = frozenset({*_INTEGRATIONS, "boto3", "httpcore", "httpcore2", "httpx", "httpx2", "requests", "s3transfer"})
_LONGEST_CHAIN = 8
_LONGEST_TRACE = 200


class RetryOwnerWarning(UserWarning):
    """A library retries by itself inside a guarded call, so that the attempts multiply."""


def warn_of_retries_inside(error: BaseException, operation: str) -> None:
    """Warn, once per place, if the error shows that a library inside the call has retried by itself."""
    library = retried_inside(error)
    if library is None:
        return
    trace = error.__traceback__
    while trace is not None and _package_of(trace.tb_frame) in _CARRIERS:
        trace = trace.tb_next
    if trace is None or _package_of(trace.tb_frame) in _SDKS:
        # The guarded function is the SDK's own: show where it is called.
        _warn_outside(_text(library, operation))
    else:
        _warn_at(trace.tb_frame, trace.tb_lineno, _text(library, operation))


def warn_of_retries_around(headers: Mapping[str, str], operation: str) -> None:
    """Warn, once per place, if the request says that an SDK around the guarded call has repeated it."""
    if count_of(headers) > 0:
        agent = headers.get("User-Agent", "").lower()
        library = next((name for name in _INTEGRATIONS if name in agent), "the SDK")
        _warn_outside(_text(library, operation))


def _warn_outside(text: str) -> None:
    """Warn in the name of the innermost code that belongs neither to redrive nor to an SDK."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _package_of(frame) in _CARRIERS | _SDKS:
        frame = frame.f_back
    if frame is None:
        warnings.warn(text, RetryOwnerWarning, stacklevel=2)
    else:
        _warn_at(frame, frame.f_lineno, text)


def _warn_at(frame: FrameType, line: int, text: str) -> None:
    # In the name of the guarded code: Python shows a warning once per line, and filters by module.
    warnings.warn_explicit(
        text,
        RetryOwnerWarning,
        frame.f_code.co_filename,
        line,
        frame.f_globals.get("__name__", ""),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _text(library: str, operation: str) -> str:
    if library in _INTEGRATIONS:
        remedy = f"write client = redrive.integrations.{library}.owned(client)"
        if (option := _INTEGRATIONS[library]) != "":
            remedy += f", or if it is owned already, remove {option} from the call"
    else:
        remedy = "switch its own retries off (max_retries=0)"
    return f"{operation} is retried by redrive, and by {library} too, so the attempts multiply; {remedy}"


def retried_inside(error: BaseException) -> str | None:
    """Return the library that has retried by itself before this error was raised; None if nothing shows that."""
    for link in _chain(error):
        module = type(link).__module__.partition(".")[0]
        if module == "builtins":
            continue
        if _retry_count(link) > 0:
            return module
        if module == "botocore" and _botocore_retries(link) > 0:
            return module
        if module == "urllib3" and _passes_through_urllib3(link.__traceback__) > 1:
            return module
        if type(link).__name__ == "RetryError" and type(link).__module__ == "google.api_core.exceptions":
            return "google"
    return None


def count_of(headers: Any) -> int:
    """Return how often an SDK says that it has repeated the request; 0 if it says nothing."""
    text = headers.get(RETRY_COUNT) if isinstance(headers, Mapping) else None
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__


def _retry_count(error: BaseException) -> int:
    request = attribute(error, "request") or attribute(attribute(error, "response"), "request")
    return 0 if request is None else count_of(attribute(request, "headers"))


def _botocore_retries(error: BaseException) -> int:
    response = attribute(error, "response")
    metadata = response.get("ResponseMetadata") if isinstance(response, Mapping) else None
    retries = metadata.get("RetryAttempts") if isinstance(metadata, Mapping) else None
    return retries if isinstance(retries, int) else 0


def _passes_through_urllib3(trace: TracebackType | None) -> int:
    """Count the requests that urllib3 made: it calls itself once more for each retry."""
    # By frame: an error that is raised anew passes through the same one twice.
    passes: set[int] = set()
    for _ in range(_LONGEST_TRACE):
        if trace is None:
            break
        frame = trace.tb_frame
        if frame.f_code.co_name == "urlopen" and frame.f_globals.get("__name__") == "urllib3.connectionpool":
            passes.add(id(frame))
        trace = trace.tb_next
    return len(passes)
