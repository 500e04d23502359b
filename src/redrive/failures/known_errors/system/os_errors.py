"""Operating system errors, by errno."""

import errno
import re

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Lookup, Table, permanent, transient

_LOST = "the connection was lost; a retry may get through"
_UNREACHABLE = "the host could not be reached; the network may recover"
_BUSY = "the resource was busy or locked"
_USED_UP = "the system is temporarily out of a resource"
_WRONG_INPUT = "the same call fails again"

_TRANSIENT = {
    "ECONNREFUSED": "the connection was refused; the service may be back soon",
    "ECONNRESET": _LOST,
    "ECONNABORTED": _LOST,
    "EPIPE": _LOST,
    "ESHUTDOWN": _LOST,
    "ENOTCONN": _LOST,
    "ENETRESET": _LOST,
    "ETIMEDOUT": "it timed out; the next attempt may be faster",
    "EHOSTUNREACH": _UNREACHABLE,
    "EHOSTDOWN": _UNREACHABLE,
    "ENETUNREACH": _UNREACHABLE,
    "ENETDOWN": _UNREACHABLE,
    "EAGAIN": _BUSY,
    "EWOULDBLOCK": _BUSY,
    "EBUSY": _BUSY,
    "ETXTBSY": _BUSY,
    "EDEADLK": _BUSY,
    "EINTR": "a signal interrupted the call",
    "EMFILE": _USED_UP,
    "ENFILE": _USED_UP,
    "ENOBUFS": _USED_UP,
    "ENOLCK": _USED_UP,
    "EADDRNOTAVAIL": _USED_UP,
}

_PERMANENT = {
    "ENOENT": "missing data: there is no such file",
    "EEXIST": "the file exists already",
    "ENOTEMPTY": "the directory is not empty",
    "EISDIR": "a file was expected, this is a directory",
    "ENOTDIR": "a directory was expected, this is not one",
    "EACCES": "permission is missing; a retry does not grant it",
    "EPERM": "permission is missing; a retry does not grant it",
    "EROFS": "the file system is read-only",
    "EINVAL": _WRONG_INPUT,
    "EBADF": _WRONG_INPUT,
    "ENAMETOOLONG": _WRONG_INPUT,
    "ELOOP": _WRONG_INPUT,
    "EXDEV": _WRONG_INPUT,
    "ENOEXEC": _WRONG_INPUT,
    "E2BIG": _WRONG_INPUT,
    "ENOTSUP": _WRONG_INPUT,
    "EOPNOTSUPP": _WRONG_INPUT,
    "EAFNOSUPPORT": _WRONG_INPUT,
    "EPROTONOSUPPORT": _WRONG_INPUT,
    "ENOTSOCK": _WRONG_INPUT,
}


def _by_number() -> dict[int, Verdict]:
    """Map errno values to verdicts. Names are used because not every system has every number."""
    verdicts: dict[int, Verdict] = {}
    for name, why in _PERMANENT.items():
        if (number := getattr(errno, name, None)) is not None:
            verdicts[number] = permanent(f"{name}: {why}")
    for name, why in _TRANSIENT.items():
        if (number := getattr(errno, name, None)) is not None:
            verdicts[number] = transient(f"{name}: {why}", not_sent=name == "ECONNREFUSED")
    return verdicts


_VERDICTS = _by_number()

# asyncio tries every address of a host; when they fail in different ways, only the texts are left.
_SEVERAL = "Multiple exceptions:"
_NUMBER = r"\[Errno (\d+)\]"


def os_error_verdict(error: BaseException, lookup: Lookup) -> Verdict | None:
    number = getattr(error, "errno", None)
    if number is not None:
        return _VERDICTS.get(number)
    if type(error) is not OSError:
        return None
    if (cause := error.__cause__) is not None:
        if isinstance(cause, ExceptionGroup):
            # trio and anyio keep one error for each address in a group.
            return _all_failed([lookup(one) for one in cause.exceptions])
        return lookup(cause)
    text = str(error)
    if text.startswith(_SEVERAL):
        verdicts = [_VERDICTS.get(int(found)) for found in re.findall(_NUMBER, text[:2000])]
        return _all_failed(verdicts)
    return None


def _all_failed(verdicts: list[Verdict | None]) -> Verdict | None:
    known = [verdict for verdict in verdicts if verdict is not None]
    if not known or len(known) < len(verdicts) or any(verdict.category != "transient" for verdict in known):
        return None
    reason = "; ".join(dict.fromkeys(verdict.reason for verdict in known))
    return transient(
        f"no address of the host could be connected to ({reason})",
        not_sent=all(verdict.not_sent for verdict in known),
    )


def name_resolution_verdict(error: BaseException, lookup: Lookup) -> Verdict:
    said = getattr(error, "strerror", None) or str(error) or "no detail"
    return transient(f"the host name did not resolve ({said}): DNS failures are often short", not_sent=True)


OS_ERRORS: Table = {
    "builtins.OSError": os_error_verdict,
    "socket.gaierror": name_resolution_verdict,
    "socket.herror": name_resolution_verdict,
}
