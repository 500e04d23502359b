"""Errors of azure-core, which all clients for Azure use."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import (
    Lookup,
    Table,
    attribute,
    permanent,
    transient,
    verdict_of_response,
    wrapped_verdict,
    wrapper,
)
from redrive.failures.known_errors.system.stdlib_errors import BODY_CUT_OFF, TIMEOUT

_REQUEST_FAILED = transient("the request could not be sent; a retry may get through")
_LOST = transient("the connection was lost midway; a retry may get through")


def _response_error(error: BaseException, lookup: Lookup) -> Verdict | None:
    response = attribute(error, "response")
    by_status = verdict_of_response(attribute(error, "status_code"), attribute(response, "headers"))
    return by_status or wrapped_verdict(error, lookup)


def _refused_credentials(error: BaseException, lookup: Lookup) -> Verdict:
    """azure-identity also raises it when the token service cannot be reached."""
    return _response_error(error, lookup) or permanent("the credentials are missing, wrong or expired")


AZURE_ERRORS: Table = {
    "azure.core.exceptions.ServiceRequestTimeoutError": wrapper(TIMEOUT),
    "azure.core.exceptions.ServiceRequestError": wrapper(_REQUEST_FAILED),
    "azure.core.exceptions.ServiceResponseTimeoutError": wrapper(TIMEOUT),
    "azure.core.exceptions.ServiceResponseError": wrapper(_LOST),
    "azure.core.exceptions.IncompleteReadError": BODY_CUT_OFF,
    "azure.core.exceptions.DecodeError": permanent("validation: the data cannot be decoded"),
    "azure.core.exceptions.TooManyRedirectsError": permanent("too many redirects: the request is redirected again"),
    "azure.core.exceptions.ClientAuthenticationError": _refused_credentials,
    "azure.core.exceptions.HttpResponseError": _response_error,
    "azure.core.exceptions.StreamConsumedError": permanent("the body was read already"),
    "azure.core.exceptions.StreamClosedError": permanent("the body was closed already"),
}
