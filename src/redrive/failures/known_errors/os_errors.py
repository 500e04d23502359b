"""Operating system errors, by their number."""

import errno
import re

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Ask, Table, permanent, transient

_LOST = "the connection was lost, and a network failure passes"
_UNREACHABLE = "the network did not lead there, which passes"
_BUSY = "the resource was busy or locked for the moment"
_USED_UP = "a resource of the system is used up for the moment"
_WRONG_INPUT = "the same call fails in the same way"

_TRANSIENT = {
    "ECONNREFUSED": "nobody was listening, which passes when the service is back",
    "ECONNRESET": _LOST,
    "ECONNABORTED": _LOST,
    "EPIPE": _LOST,
    "ESHUTDOWN": _LOST,
    "ENOTCONN": _LOST,
    "ENETRESET": _LOST,
    "ETIMEDOUT": "a timeout: the next answer may come in time",
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
    "ENOTDIR": "a directory was expected, this is none",
    "EACCES": "the permission is missing, and stays so",
    "EPERM": "the permission is missing, and stays so",
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
    """Not every system has every number, hence the names."""
    verdicts: dict[int, Verdict] = {}
    for name, why in _PERMANENT.items():
        if (number := getattr(errno, name, None)) is not None:
            verdicts[number] = permanent(f"{name}: {why}")
    for name, why in _TRANSIENT.items():
        if (number := getattr(errno, name, None)) is not None:
            verdicts[number] = transient(f"{name}: {why}", not_sent=name == "ECONNREFUSED")
    return verdicts


_VERDICTS = _by_number()

# asyncio tries every address of a host and, when they fail in different ways, only tells their texts.
_SEVERAL = "Multiple exceptions:"
_NUMBER = r"\[Errno (\d+)\]"


def os_error_verdict(error: BaseException, ask: Ask) -> Verdict | None:
    number = getattr(error, "errno", None)
    if number is not None:
        return _VERDICTS.get(number)
    if type(error) is not OSError:
        return None
    if (cause := error.__cause__) is not None:
        return _verdict_of_connects(list(cause.exceptions), ask) if isinstance(cause, ExceptionGroup) else ask(cause)
    text = str(error)
    if text.startswith(_SEVERAL):
        verdicts = [_VERDICTS.get(int(found)) for found in re.findall(_NUMBER, text[:2000])]
        return _all_failed(verdicts)
    return None


def _verdict_of_connects(errors: list[Exception], ask: Ask) -> Verdict | None:
    """trio and anyio keep what each address answered in a group."""
    return _all_failed([ask(error) for error in errors])


def _all_failed(verdicts: list[Verdict | None]) -> Verdict | None:
    known = [verdict for verdict in verdicts if verdict is not None]
    if not known or len(known) < len(verdicts) or any(verdict.category != "transient" for verdict in known):
        return None
    reason = "; ".join(dict.fromkeys(verdict.reason for verdict in known))
    return transient(
        f"no address of the host could be connected to ({reason})",
        not_sent=all(verdict.not_sent for verdict in known),
    )


def name_resolution_verdict(error: BaseException, ask: Ask) -> Verdict:
    said = getattr(error, "strerror", None) or str(error) or "no detail"
    return transient(f"the host name did not resolve ({said}): DNS failures pass", not_sent=True)


OS_ERRORS: Table = {
    "builtins.OSError": os_error_verdict,
    "socket.gaierror": name_resolution_verdict,
    "socket.herror": name_resolution_verdict,
}
