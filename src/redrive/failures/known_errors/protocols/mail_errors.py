"""Errors of smtplib and aiosmtplib, by the code of the mail server's answer."""

from collections.abc import Iterable, Mapping
from typing import Any

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Lookup, Table, attribute, permanent, transient
from redrive.failures.known_errors.system.stdlib_errors import CERTIFICATE_REFUSED

_CLOSED = transient("the mail server closed the connection")
_NOT_SMTP = transient("the answer was not valid SMTP, as when a connection breaks or a server restarts")
_NOT_SUPPORTED = permanent("the mail server does not support this")

_MALFORMED = -1


def _of_code(code: Any) -> Verdict | None:
    """SMTP 4xx means "not now" and 5xx means "never", the opposite of HTTP."""
    if not isinstance(code, int):
        return None
    if 400 <= code <= 499:
        # RFC 5321, 4.2.1: the command was not accepted, and the requested action did not occur.
        return transient(f"the mail server answered {code}: try again later", not_sent=True)
    if 500 <= code <= 599:
        return permanent(f"the mail server answered {code}: it rejects the mail permanently")
    return _NOT_SMTP if code == _MALFORMED else None


def _answer(error: BaseException, _lookup: Lookup) -> Verdict | None:
    code = attribute(error, "smtp_code")
    return _of_code(attribute(error, "code") if code is None else code)


def _no_connection(error: BaseException, _lookup: Lookup) -> Verdict:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return CERTIFICATE_REFUSED
    return transient("no connection to the mail server could be made; a retry may get through", not_sent=True)


def _recipients(error: BaseException, _lookup: Lookup) -> Verdict | None:
    """Nobody got the mail. One recipient who may be accepted later is worth a retry."""
    verdicts = [_of_code(code) for code in _codes(attribute(error, "recipients"))]
    known = [verdict for verdict in verdicts if verdict is not None]
    return next((one for one in known if one.category == "transient"), known[0] if known else None)


def _codes(recipients: Any) -> Iterable[Any]:
    """smtplib keeps `{address: (code, text)}`, aiosmtplib one error for each recipient."""
    if isinstance(recipients, Mapping):
        return [answer[0] for answer in recipients.values()]
    return [attribute(one, "code") for one in recipients or ()]


MAIL_ERRORS: Table = {
    "smtplib.SMTPServerDisconnected": _CLOSED,
    "smtplib.SMTPResponseException": _answer,
    "smtplib.SMTPRecipientsRefused": _recipients,
    "smtplib.SMTPNotSupportedError": _NOT_SUPPORTED,
    "aiosmtplib.errors.SMTPConnectError": _no_connection,
    "aiosmtplib.errors.SMTPResponseException": _answer,
    "aiosmtplib.errors.SMTPRecipientsRefused": _recipients,
    "aiosmtplib.errors.SMTPNotSupported": _NOT_SUPPORTED,
}
