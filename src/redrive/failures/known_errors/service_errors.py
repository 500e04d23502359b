"""Errors of the clients for AWS (botocore), gRPC, Google Cloud and Redis."""

from collections.abc import Mapping

import msgspec

from redrive.failures.failure import Verdict
from redrive.failures.headers import retry_after_header
from redrive.failures.http_status import status_verdict
from redrive.failures.known_errors.entries import (
    Lookup,
    Table,
    attribute,
    permanent,
    status_number,
    transient,
    unknown,
    verdict_of_response,
)
from redrive.failures.known_errors.stdlib_errors import TIMEOUT

_NO_CONNECTION = transient("no connection could be made; a retry may get through", not_sent=True)
_LOST = transient("the connection was lost midway; a retry may get through")

AWS_THROTTLING_CODES = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_AWS_TRANSIENT_CODES = frozenset(
    {"InternalError", "InternalFailure", "RequestTimeout", "RequestTimeoutException", "ServiceUnavailable"}
    | {"TransactionConflictException", "TransactionInProgressException"}
)


def _aws_client_error(error: BaseException, _lookup: Lookup) -> Verdict | None:
    """AWS also throttles with status 400, so the code is checked before the status."""
    response = attribute(error, "response")
    if not isinstance(response, Mapping):
        return None
    about, metadata = response.get("Error"), response.get("ResponseMetadata")
    code = about.get("Code") if isinstance(about, Mapping) else None
    status, headers = None, None
    if isinstance(metadata, Mapping):
        status, headers = status_number(metadata.get("HTTPStatusCode")), metadata.get("HTTPHeaders")
    known: Verdict | None = None
    if code in AWS_THROTTLING_CODES:
        known = transient(f"AWS answered {code}: the rate limit resets over time", not_sent=True)
    elif code in _AWS_TRANSIENT_CODES:
        known = transient(f"AWS answered {code}, which is temporary")
    if known is not None:
        return msgspec.structs.replace(known, status=status, retry_after=retry_after_header(headers))
    return None if status is None or status < 400 else status_verdict(status, retry_after=retry_after_header(headers))


_GRPC_TRANSIENT = {
    "UNAVAILABLE": "the service is temporarily unavailable",
    "DEADLINE_EXCEEDED": "it timed out; the next attempt may be faster",
    "RESOURCE_EXHAUSTED": "the quota or rate limit resets over time",
    "ABORTED": "a concurrent change came first; the transaction may be run again",
}
_GRPC_AMBIGUOUS = frozenset({"UNKNOWN", "INTERNAL", "OK"})


def _grpc_error(error: BaseException, _lookup: Lookup) -> Verdict | None:
    code = attribute(error, "code")
    name = attribute(code() if callable(code) else code, "name")
    if not isinstance(name, str):
        return None
    if name in _GRPC_TRANSIENT:
        return transient(f"gRPC {name}: {_GRPC_TRANSIENT[name]}")
    if name in _GRPC_AMBIGUOUS:
        return unknown(f"gRPC {name} may be transient or permanent")
    return permanent(f"gRPC {name}: the same call fails again")


def _google_api_error(error: BaseException, _lookup: Lookup) -> Verdict | None:
    response = attribute(error, "response")
    return verdict_of_response(attribute(error, "code"), attribute(response, "headers"))


def _redis_lock(error: BaseException, _lookup: Lookup) -> Verdict:
    if "acquire" in str(error):
        return transient("lock contention: another client holds the lock")
    return permanent("the lock is used wrongly: the same call fails again")


SERVICE_ERRORS: Table = {
    "botocore.exceptions.ClientError": _aws_client_error,
    "botocore.exceptions.EndpointConnectionError": _NO_CONNECTION,
    "botocore.exceptions.ConnectTimeoutError": _NO_CONNECTION,
    "botocore.exceptions.ProxyConnectionError": _NO_CONNECTION,
    "botocore.exceptions.ReadTimeoutError": TIMEOUT,
    "botocore.exceptions.ConnectionClosedError": _LOST,
    "botocore.exceptions.ResponseStreamingError": _LOST,
    "botocore.exceptions.IncompleteReadError": _LOST,
    "botocore.exceptions.NoCredentialsError": permanent("the credentials are missing"),
    "botocore.exceptions.PartialCredentialsError": permanent("the credentials are incomplete"),
    "botocore.exceptions.ParamValidationError": permanent("validation: the parameters do not fit the operation"),
    "grpc.RpcError": _grpc_error,
    "google.api_core.exceptions.GoogleAPICallError": _google_api_error,
    "redis.exceptions.AuthenticationError": permanent("Redis refuses the credentials"),
    "redis.exceptions.AuthorizationError": permanent("the user may not do this in Redis"),
    "redis.exceptions.BusyLoadingError": transient("Redis is still loading its data", not_sent=True),
    "redis.exceptions.MaxConnectionsError": transient("no pooled connection was free", not_sent=True),
    "redis.exceptions.ConnectionError": transient("the connection to Redis failed or was lost"),
    "redis.exceptions.TimeoutError": TIMEOUT,
    "redis.exceptions.ReadOnlyError": transient("Redis is failing over; this node is read-only until then"),
    "redis.exceptions.TryAgainError": transient("the Redis cluster is moving these keys"),
    "redis.exceptions.ClusterDownError": transient("the Redis cluster is down; it may be back soon"),
    "redis.exceptions.MasterDownError": transient("the Redis primary is down; it may be back soon"),
    "redis.exceptions.WatchError": transient("a watched key changed: the transaction was not run and may be run again"),
    "redis.exceptions.LockError": _redis_lock,
    "redis.exceptions.OutOfMemoryError": unknown("Redis is out of memory, which may or may not be temporary"),
    "redis.exceptions.ResponseError": permanent("Redis refuses the command: the same command is refused again"),
    "redis.exceptions.DataError": permanent("validation: the data does not fit the command"),
}
