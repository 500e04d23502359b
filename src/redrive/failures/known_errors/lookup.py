"""Look up an error in the tables: by its class, then by its base classes, then by its attributes."""

from functools import lru_cache

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.aiohttp_errors import AIOHTTP_ERRORS
from redrive.failures.known_errors.async_io_errors import ASYNC_IO_ERRORS
from redrive.failures.known_errors.builtin_errors import BUILTIN_ERRORS
from redrive.failures.known_errors.entries import Entry, Reader, Table, attribute, verdict_of_response
from redrive.failures.known_errors.httpx_errors import HTTPX_ERRORS
from redrive.failures.known_errors.os_errors import OS_ERRORS
from redrive.failures.known_errors.own_errors import OWN_ERRORS
from redrive.failures.known_errors.postgres_errors import POSTGRES_ERRORS
from redrive.failures.known_errors.requests_errors import REQUESTS_ERRORS
from redrive.failures.known_errors.service_errors import SERVICE_ERRORS
from redrive.failures.known_errors.sqlite_errors import SQLITE_ERRORS
from redrive.failures.known_errors.sqlstates import sqlstate_of, sqlstate_verdict
from redrive.failures.known_errors.stdlib_errors import STDLIB_ERRORS
from redrive.failures.known_errors.validation_errors import VALIDATION_ERRORS
from redrive.failures.matching import qualified_name

KNOWN_ERRORS: Table = {
    **OWN_ERRORS,
    **BUILTIN_ERRORS,
    **OS_ERRORS,
    **STDLIB_ERRORS,
    **VALIDATION_ERRORS,
    **SQLITE_ERRORS,
    **POSTGRES_ERRORS,
    **HTTPX_ERRORS,
    **REQUESTS_ERRORS,
    **AIOHTTP_ERRORS,
    **SERVICE_ERRORS,
    **ASYNC_IO_ERRORS,
}
"""All known errors, by qualified class name."""

# Errors may wrap each other several times over, or even themselves.
_DEEPEST = 6


def known_verdict(error: BaseException) -> Verdict | None:
    """Return the verdict on an error; None when it is not known."""
    return _verdict(error, 0)


def _verdict(error: BaseException, depth: int) -> Verdict | None:
    if depth > _DEEPEST:
        return None
    kind: type = type(error)
    for entry in _entries(kind):
        verdict = entry if isinstance(entry, Verdict) else _read(entry, error, depth)
        if verdict is not None:
            return verdict
    return _verdict_from_attributes(error)


def _read(reader: Reader, error: BaseException, depth: int) -> Verdict | None:
    try:
        return reader(error, lambda inner: _verdict(inner, depth + 1))
    except Exception:  # noqa: BLE001 - an exception with broken attributes is merely not known
        return None


@lru_cache(maxsize=1024)
def _entries(kind: type) -> tuple[Entry, ...]:
    found: list[Entry] = []
    for base in kind.__mro__:
        entry = KNOWN_ERRORS.get(qualified_name(base))
        if entry is not None:
            found.append(entry)
            if isinstance(entry, Verdict):
                break  # it always applies, so later entries are never reached
    return tuple(found)


def _verdict_from_attributes(error: BaseException) -> Verdict | None:
    """Judge an exception of an unknown library by an HTTP status or SQLSTATE under one of the usual names."""
    response = attribute(error, "response")
    headers = attribute(error, "headers")
    if headers is None:
        headers = attribute(response, "headers")
    for holder, name in (
        (error, "status_code"),
        (error, "status"),
        (error, "http_status"),
        (response, "status_code"),
        (response, "status"),
    ):
        if (verdict := verdict_of_response(attribute(holder, name), headers)) is not None:
            return verdict
    state = sqlstate_of(error)
    return None if state is None else sqlstate_verdict(state)
