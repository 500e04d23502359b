"""Errors of the Mistral and Cohere clients; both leave the errors of their HTTP client as they are."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Lookup, Reader, Table, attribute, permanent, transient
from redrive.failures.known_errors.entries import verdict_of_response as by_response

_MISMATCH = permanent("validation: the response does not fit its schema")
_NO_RESPONSE = transient("the server closed the connection without a response")
_STREAM_BROKE = transient("the server ended the stream with an error; a retry may succeed")


def _answered(otherwise: Verdict | None) -> Reader:
    """An error page of a gateway does not fit the schema either, so the status comes first."""

    def read(error: BaseException, _lookup: Lookup) -> Verdict | None:
        return by_response(attribute(error, "status_code"), attribute(error, "headers")) or otherwise

    return read


_MISTRAL: Table = {
    "no_response_error.NoResponseError": _NO_RESPONSE,
    "responsevalidationerror.ResponseValidationError": _answered(_MISMATCH),
    "mistralerror.MistralError": _answered(None),
    "sdkerror.SDKError": _answered(None),
}

MISTRAL_AND_COHERE_ERRORS: Table = {
    # The module has moved between releases.
    **{
        f"{module}.{name}": entry
        for module in ("mistralai.client.errors", "mistralai.client.models", "mistralai.models")
        for name, entry in _MISTRAL.items()
    },
    "mistralai.extra.exceptions.StreamDisconnectedError": _STREAM_BROKE,
    "cohere.core.api_error.ApiError": _answered(None),
    "cohere.core.parse_error.ParsingError": _answered(_MISMATCH),
}
