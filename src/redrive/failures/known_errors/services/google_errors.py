"""Errors of Google's clients: google-api-core, google-auth and google-genai."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import (
    Lookup,
    Table,
    attribute,
    permanent,
    status_number,
    transient,
    unknown,
    verdict_of_response,
    wrapper,
)

_LOST = transient("the connection failed or was lost; a retry may get through")
# ALREADY_EXISTS is a 409 too.
_ABORTED = transient("409 ABORTED: a concurrent change came first; the transaction may be run again")
_RETRY_INFO = "RetryInfo"


def _api_core_error(error: BaseException, lookup: Lookup) -> Verdict | None:
    response = attribute(error, "response")
    verdict = verdict_of_response(attribute(error, "code"), attribute(response, "headers"))
    if isinstance(response, Exception):
        # It came over gRPC, whose error knows whether the request was sent and what the server asked for.
        of_grpc = lookup(response)
        if of_grpc is not None and of_grpc.category != "unknown":
            verdict = msgspec.structs.replace(of_grpc, status=verdict.status if verdict else None)
    return _with_retry_info(verdict, attribute(error, "details"))


def _aborted(error: BaseException, lookup: Lookup) -> Verdict | None:
    verdict = _api_core_error(error, lookup)
    if verdict is None or verdict.category == "transient":
        return verdict
    return msgspec.structs.replace(_ABORTED, status=verdict.status, retry_after=verdict.retry_after)


def _genai_error(error: BaseException, _lookup: Lookup) -> Verdict | None:
    code, response = attribute(error, "code"), attribute(error, "response")
    verdict = verdict_of_response(code, attribute(response, "headers"))
    if verdict is not None and attribute(error, "status") == "ABORTED" and verdict.category == "permanent":
        verdict = msgspec.structs.replace(_ABORTED, status=verdict.status, retry_after=verdict.retry_after)
    body = attribute(error, "details")
    about = body.get("error", body) if isinstance(body, Mapping) else None
    return _with_retry_info(verdict, about.get("details") if isinstance(about, Mapping) else None)


def _with_retry_info(verdict: Verdict | None, details: Any) -> Verdict | None:
    """Return the verdict with the delay that the error's RetryInfo asks for, unless a header asks for one."""
    if verdict is None or verdict.retry_after is not None or not isinstance(details, Iterable):
        return verdict
    for detail in details:
        if (delay := _retry_delay(detail)) is not None:
            return msgspec.structs.replace(verdict, retry_after=delay)
    return verdict


def _retry_delay(detail: Any) -> str | None:
    """Return the seconds of a google.rpc.RetryInfo: as JSON ("34.5s"), or as a message with seconds and nanos."""
    if isinstance(detail, Mapping):
        said = detail.get("retryDelay")
        if str(detail.get("@type", "")).endswith(_RETRY_INFO) and isinstance(said, str) and said.endswith("s"):
            return said.removesuffix("s")
        return None
    delay = attribute(detail, "retry_delay") if type(detail).__name__ == _RETRY_INFO else None
    seconds, nanos = attribute(delay, "seconds"), attribute(delay, "nanos")
    if isinstance(seconds, int) and isinstance(nanos, int):
        return f"{seconds + nanos / 1_000_000_000:.3f}"
    return None


def _retries_ended(error: BaseException, lookup: Lookup) -> Verdict:
    """The client's own retries ran out of time; the last error says why."""
    last = attribute(error, "cause")
    verdict = lookup(last) if isinstance(last, Exception) else None
    return verdict or transient("the client's own retries ran out of time")


def _auth_error(error: BaseException, _lookup: Lookup) -> Verdict:
    if attribute(error, "retryable") is True:
        return transient("the credentials could not be refreshed at the moment")
    return permanent("the credentials are missing, wrong or expired")


def _resumable_transfer(error: BaseException, lookup: Lookup) -> Verdict | None:
    if status_number(attribute(error, "code")) is None:
        return unknown("the transfer ended, which may be transient or permanent")
    return _api_core_error(error, lookup)


GOOGLE_ERRORS: Table = {
    "google.api_core.exceptions.Aborted": _aborted,
    "google.api_core.exceptions.TransferStalledError": transient("the transfer made no progress; a retry may"),
    "google.api_core.exceptions.ResumableTransferError": _resumable_transfer,
    "google.api_core.exceptions.GoogleAPICallError": _api_core_error,
    "google.api_core.exceptions.RetryError": _retries_ended,
    "google.auth.exceptions.TransportError": wrapper(_LOST),
    "google.auth.exceptions.TimeoutError": transient("it timed out; the next attempt may be faster"),
    "google.auth.exceptions.RefreshError": _auth_error,
    "google.auth.exceptions.DefaultCredentialsError": _auth_error,
    "google.genai.errors.APIError": _genai_error,
}
