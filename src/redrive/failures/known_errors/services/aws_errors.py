"""Errors of the client for AWS, botocore, which boto3 and aiobotocore use too."""

from collections.abc import Mapping

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import (
    Lookup,
    Table,
    attribute,
    permanent,
    transient,
    unknown,
    verdict_of_response,
    with_response,
)
from redrive.failures.known_errors.system.stdlib_errors import TIMEOUT

_NO_CONNECTION = transient("no connection could be made; a retry may get through", not_sent=True)
_LOST = transient("the connection was lost midway; a retry may get through")

_THROTTLING_CODES = frozenset(
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
_TRANSIENT_CODES = frozenset(
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
        status, headers = metadata.get("HTTPStatusCode"), metadata.get("HTTPHeaders")
    if code in _THROTTLING_CODES:
        return with_response(
            transient(f"AWS answered {code}: the rate limit resets over time", not_sent=True), status, headers
        )
    if code in _TRANSIENT_CODES:
        return with_response(transient(f"AWS answered {code}, which is temporary"), status, headers)
    return verdict_of_response(status, headers)


def _transport_error(error: BaseException, lookup: Lookup) -> Verdict | None:
    """botocore keeps the error of its HTTP client as a keyword argument."""
    kwargs = attribute(error, "kwargs")
    inner = kwargs.get("error") if isinstance(kwargs, Mapping) else None
    return lookup(inner) if isinstance(inner, Exception) else None


def _tls_error(error: BaseException, lookup: Lookup) -> Verdict:
    return _transport_error(error, lookup) or unknown("a TLS error that may be transient or permanent")


def _connection_error(error: BaseException, lookup: Lookup) -> Verdict:
    return _transport_error(error, lookup) or _LOST


AWS_ERRORS: Table = {
    "botocore.exceptions.ClientError": _aws_client_error,
    "botocore.exceptions.EndpointConnectionError": _NO_CONNECTION,
    "botocore.exceptions.ConnectTimeoutError": _NO_CONNECTION,
    "botocore.exceptions.ProxyConnectionError": _NO_CONNECTION,
    "botocore.exceptions.SSLError": _tls_error,
    "botocore.exceptions.ConnectionError": _connection_error,
    "botocore.exceptions.ReadTimeoutError": TIMEOUT,
    "botocore.exceptions.ConnectionClosedError": _LOST,
    "botocore.exceptions.HTTPClientError": _connection_error,
    "botocore.exceptions.ResponseStreamingError": _LOST,
    "botocore.exceptions.IncompleteReadError": _LOST,
    "botocore.exceptions.NoCredentialsError": permanent("the credentials are missing"),
    "botocore.exceptions.PartialCredentialsError": permanent("the credentials are incomplete"),
    "botocore.exceptions.ParamValidationError": permanent("validation: the parameters do not fit the operation"),
}
