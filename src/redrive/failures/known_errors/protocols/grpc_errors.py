"""Errors of gRPC, by status code and by what the server says about retries.

None is marked as not sent, not even a refused connection: a server that could not reach the next one may pass on its
status word for word, and the client cannot tell that from a failure of its own.
"""

import re
from typing import Any

import msgspec

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Lookup, Table, attribute, permanent, transient, unknown

_TRANSIENT = {
    "UNAVAILABLE": "the service is temporarily unavailable",
    "DEADLINE_EXCEEDED": "it timed out; the next attempt may be faster",
    "RESOURCE_EXHAUSTED": "the quota or rate limit resets over time",
    "ABORTED": "a concurrent change came first; the transaction may be run again",
}
_AMBIGUOUS = frozenset({"UNKNOWN", "INTERNAL", "OK"})

# A broken connection is reported under one of the ambiguous codes if it breaks in the middle of a response.
_BROKEN_STREAM = r"RST_STREAM|stream removed|connection reset|socket closed|broken pipe|goaway"

_PUSHBACK = "grpc-retry-pushback-ms"
_MILLISECONDS = r"[0-9]{1,10}"


def grpc_verdict(error: BaseException, _lookup: Lookup) -> Verdict | None:
    code = _called(error, "code")
    name = attribute(code, "name")
    if not isinstance(name, str):
        return None
    pushback = _pushback(error)
    if pushback is None:
        return _by_code(error, name)
    if not re.fullmatch(_MILLISECONDS, pushback):
        return permanent(f"gRPC {name}: the server says not to retry ({_PUSHBACK})")
    return msgspec.structs.replace(
        transient(f"gRPC {name}: the server says when to retry ({_PUSHBACK})"),
        retry_after=f"{int(pushback) / 1000:.3f}",
    )


def _by_code(error: BaseException, name: str) -> Verdict:
    if name in _TRANSIENT:
        return transient(f"gRPC {name}: {_TRANSIENT[name]}")
    if name in _AMBIGUOUS:
        if re.search(_BROKEN_STREAM, _text(error, "details"), re.IGNORECASE):
            return transient(f"gRPC {name}: the connection was lost midway; a retry may get through")
        return unknown(f"gRPC {name} may be transient or permanent")
    return permanent(f"gRPC {name}: the same call fails again")


def _pushback(error: BaseException) -> str | None:
    """Return the trailer by which a server asks for a wait, or for no retry."""
    for pair in _called(error, "trailing_metadata") or ():
        name, value = pair
        if name == _PUSHBACK:
            return value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return None


def _text(error: BaseException, name: str) -> str:
    said = _called(error, name)
    return said if isinstance(said, str) else ""


def _called(error: BaseException, name: str) -> Any:
    value = attribute(error, name)
    try:
        return value() if callable(value) else value
    except Exception:  # noqa: BLE001 - what cannot be asked says nothing
        return None


GRPC_ERRORS: Table = {"grpc.RpcError": grpc_verdict}
