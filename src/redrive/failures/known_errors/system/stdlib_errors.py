"""Errors of the standard library: HTTP, TLS, futures, subprocesses."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import (
    Lookup,
    Table,
    attribute,
    permanent,
    transient,
    unknown,
    verdict_of_response,
)

CERTIFICATE_REFUSED = permanent("the certificate could not be verified; someone has to replace it")
BODY_CUT_OFF = transient("the response was cut off midway; a retry may get through")
NOT_HTTP = transient("the response was not valid HTTP, as when a connection breaks or a service restarts")
TIMEOUT = transient("it timed out; the next attempt may be faster")

_TLS_CUT_OFF = transient("the TLS connection was closed midway; a retry may get through")
_TLS_MISMATCH = (
    "WRONG_VERSION_NUMBER",
    "UNSUPPORTED_PROTOCOL",
    "NO_PROTOCOLS_AVAILABLE",
    "NO_SHARED_CIPHER",
    "HANDSHAKE_FAILURE",
    "PROTOCOL_VERSION",
    "UNKNOWN_CA",
    "BAD_CERTIFICATE",
    "CERTIFICATE_REQUIRED",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
    "UNRECOGNIZED_NAME",
    "HTTP_REQUEST",
)


def tls_verdict(error: BaseException, _lookup: Lookup) -> Verdict:
    """Always return a verdict: TLS error numbers are not errno values and must not be looked up as such."""
    reason = str(attribute(error, "reason") or "")
    text = f"{reason} {error}"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return CERTIFICATE_REFUSED
    if "timed out" in text:
        return transient("the TLS connection timed out; the next attempt may be faster")
    if "UNEXPECTED_EOF" in text or "EOF occurred" in text:
        return _TLS_CUT_OFF
    if any(reason.endswith(mismatch) for mismatch in _TLS_MISMATCH):
        return permanent(f"client and server cannot agree on TLS settings ({reason})")
    return unknown(f"a TLS error that may be transient or permanent ({reason or 'no reason given'})")


def _url_error(error: BaseException, lookup: Lookup) -> Verdict | None:
    reason = attribute(error, "reason")
    if isinstance(reason, BaseException):
        return lookup(reason)
    if "unknown url type" in str(reason) or "no host given" in str(reason):
        return permanent("validation: the URL cannot be used")
    return None


def _http_error(error: BaseException, _lookup: Lookup) -> Verdict | None:
    return verdict_of_response(attribute(error, "code"), attribute(error, "headers"))


STDLIB_ERRORS: Table = {
    "asyncio.exceptions.IncompleteReadError": BODY_CUT_OFF,
    "http.client.IncompleteRead": BODY_CUT_OFF,
    "http.client.RemoteDisconnected": transient("the server closed the connection without a response"),
    "http.client.BadStatusLine": NOT_HTTP,
    "http.client.InvalidURL": permanent("validation: the URL cannot be used"),
    "http.client.ImproperConnectionState": permanent("the connection object is used in the wrong order"),
    "urllib.error.HTTPError": _http_error,
    "urllib.error.ContentTooShortError": BODY_CUT_OFF,
    "urllib.error.URLError": _url_error,
    "ssl.SSLCertVerificationError": CERTIFICATE_REFUSED,
    "ssl.SSLEOFError": _TLS_CUT_OFF,
    "ssl.SSLZeroReturnError": _TLS_CUT_OFF,
    "ssl.SSLSyscallError": _TLS_CUT_OFF,
    "ssl.SSLError": tls_verdict,
    "subprocess.TimeoutExpired": TIMEOUT,
    "multiprocessing.context.TimeoutError": TIMEOUT,
    "concurrent.futures._base.CancelledError": permanent("it was cancelled on purpose"),
}
