"""Errors of redis-py, and of valkey, which has the same classes."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Entry, Lookup, Table, permanent, transient
from redrive.failures.known_errors.system.stdlib_errors import CERTIFICATE_REFUSED, TIMEOUT

_LOST = transient("the connection to Redis failed or was lost")
_NOT_CONNECTED = transient("no connection to Redis could be made; a retry may get through", not_sent=True)
_NOT_CONNECTED_IN_TIME = transient(
    "Redis could not be connected to in time; the next attempt may be faster", not_sent=True
)
_MISUSE = permanent("the client is used wrongly: the same call fails again")
_HELD = transient("lock contention: another client holds the lock")
_REFUSED = permanent("Redis refuses the command: the same command is refused again")

# Texts of the lock's own misuse; any other LockError means that someone else has the lock.
_LOCK_MISUSE = ("unlocked", "with no timeout", "must be")

# Answers for which the client has no class of their own, by their first word.
_ANSWERS: dict[str, Verdict] = {
    "BUSY": transient("Redis is busy with a script"),
    "NOREPLICAS": transient("too few Redis replicas are connected; they may be back soon"),
    "MISCONF": transient("Redis cannot save its data at the moment and refuses writes"),
    "NOMASTERLINK": transient("the Redis replica has lost its primary; it may be back soon"),
    "IOERR": transient("Redis lost the connection to another node"),
    "INPROG": transient("a Redis failover is in progress"),
    "UNBLOCKED": transient("the Redis node became a replica while the command waited"),
}


def _connection(error: BaseException, _lookup: Lookup) -> Verdict:
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return CERTIFICATE_REFUSED
    return _NOT_CONNECTED if " connecting to " in text else _LOST


def _timeout(error: BaseException, _lookup: Lookup) -> Verdict:
    return _NOT_CONNECTED_IN_TIME if "connecting to" in str(error) else TIMEOUT


def _lock(error: BaseException, _lookup: Lookup) -> Verdict:
    if any(misuse in str(error) for misuse in _LOCK_MISUSE):
        return permanent("the lock is used wrongly: the same call fails again")
    return _HELD


def _response(error: BaseException, _lookup: Lookup) -> Verdict:
    return _ANSWERS.get(str(error).partition(" ")[0], _REFUSED)


def _cluster(error: BaseException, lookup: Lookup) -> Verdict | None:
    cause = error.__cause__ or error.__context__
    verdict = None if cause is None else lookup(cause)
    if "cannot be connected" in str(error) and (verdict is None or verdict.category == "transient"):
        return _NOT_CONNECTED
    return verdict or _MISUSE


_BY_CLASS: dict[str, Entry] = {
    "AuthenticationError": permanent("Redis refuses the credentials"),
    "AuthorizationError": permanent("the user may not do this in Redis"),
    "NoPermissionError": permanent("the user may not do this in Redis"),
    "BusyLoadingError": transient("Redis is still loading its data", not_sent=True),
    "MaxConnectionsError": transient("no pooled connection was free", not_sent=True),
    "ConnectionError": _connection,
    "TimeoutError": _timeout,
    "InvalidResponse": transient("the answer was not valid Redis protocol, as when a connection breaks"),
    "ReadOnlyError": transient("Redis is failing over; this node is read-only until then"),
    "TryAgainError": transient("the Redis cluster is moving these keys"),
    "MovedError": permanent("these keys are on another Redis node: use a cluster client"),
    "AskError": transient("the Redis cluster is moving these keys"),
    "ClusterDownError": transient("the Redis cluster is down; it may be back soon"),
    "MasterDownError": transient("the Redis primary is down; it may be back soon"),
    "ClusterError": transient("the Redis cluster is changing; it may settle soon"),
    "SlotNotCoveredError": transient("no Redis node serves these keys at the moment"),
    "RedisClusterException": _cluster,
    "WatchError": transient("a watched key changed: the transaction was not run and may be run again"),
    "LockNotOwnedError": transient("the lock expired before it was released: another client may hold it now"),
    "LockError": _lock,
    "OutOfMemoryError": transient("Redis is out of memory and refuses writes until keys expire or are evicted"),
    "ResponseError": _response,
    "DataError": permanent("validation: the data does not fit the command"),
    "PubSubError": _MISUSE,
}

REDIS_ERRORS: Table = {
    f"{library}.exceptions.{name}": entry for library in ("redis", "valkey") for name, entry in _BY_CLASS.items()
}
