"""Errors of the standard library: HTTP, TLS, mail, futures, subprocesses."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import (
    Ask,
    Table,
    attribute,
    permanent,
    transient,
    unknown,
    verdict_of_response,
)

CERTIFICATE_REFUSED = permanent("the certificate could not be verified: it stays so until someone changes it")
BODY_CUT_OFF = transient("the answer was cut off half way: a network failure passes")
NOT_HTTP = transient("the answer was not valid HTTP, as when a connection breaks or a service restarts")
TIMEOUT = transient("a timeout: the next answer may come in time")

_TLS_CUT_OFF = transient("the TLS connection was closed half way: a network failure passes")
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


def tls_verdict(error: BaseException, _ask: Ask) -> Verdict:
    """Always an answer: the numbers of TLS errors are not those of the system, and mean other things there."""
    reason = str(attribute(error, "reason") or "")
    text = f"{reason} {error}"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return CERTIFICATE_REFUSED
    if "timed out" in text:
        return transient("a timeout in the TLS connection: the next answer may come in time")
    if "UNEXPECTED_EOF" in text or "EOF occurred" in text:
        return _TLS_CUT_OFF
    if any(reason.endswith(mismatch) for mismatch in _TLS_MISMATCH):
        return permanent(f"the two sides do not agree on TLS ({reason}), and waiting does not change it")
    return unknown(f"a TLS error that says neither way ({reason or 'no reason given'})")


def _url_error(error: BaseException, ask: Ask) -> Verdict | None:
    reason = attribute(error, "reason")
    if isinstance(reason, BaseException):
        return ask(reason)
    if "unknown url type" in str(reason) or "no host given" in str(reason):
        return permanent("validation: the URL cannot be used")
    return None


def _http_error(error: BaseException, _ask: Ask) -> Verdict | None:
    return verdict_of_response(attribute(error, "code"), attribute(error, "headers"))


def _smtp_answer(error: BaseException, _ask: Ask) -> Verdict | None:
    """Mail servers answer 4xx for "not now" and 5xx for "never": the other way round from HTTP."""
    code = attribute(error, "smtp_code")
    if isinstance(code, int) and 400 <= code <= 499:
        return transient(f"the mail server answered {code}: it asks to try again later")
    if isinstance(code, int) and 500 <= code <= 599:
        return permanent(f"the mail server answered {code}: it refuses the mail for good")
    return None


STDLIB_ERRORS: Table = {
    "asyncio.exceptions.IncompleteReadError": BODY_CUT_OFF,
    "http.client.IncompleteRead": BODY_CUT_OFF,
    "http.client.RemoteDisconnected": transient("the server closed the connection without an answer, which passes"),
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
    "smtplib.SMTPServerDisconnected": transient("the mail server closed the connection, which passes"),
    "smtplib.SMTPResponseException": _smtp_answer,
    "subprocess.TimeoutExpired": TIMEOUT,
    "multiprocessing.context.TimeoutError": TIMEOUT,
    "concurrent.futures._base.CancelledError": permanent("it was cancelled: someone wants it to stop"),
}
