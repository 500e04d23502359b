"""Errors of pymongo, which motor raises too."""

from collections.abc import Mapping
from typing import Any

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Lookup, Table, attribute, permanent, transient
from redrive.failures.known_errors.system.stdlib_errors import CERTIFICATE_REFUSED

_LOST = transient("the connection to MongoDB failed or was lost")
_MISUSE = permanent("the client is used wrongly: the same call fails again")
_REPLICAS_LATE = transient("the write was not confirmed by enough replicas; they may catch up")
_MISMATCH = permanent("validation: the data does not fit the collection or the command")

_LABELS = {
    "RetryableWriteError": "MongoDB says that the write may be retried (RetryableWriteError)",
    "TransientTransactionError": "the transaction was aborted and may be run again (TransientTransactionError)",
    "UnknownTransactionCommitResult": "the commit was not confirmed (UnknownTransactionCommitResult)",
    "SystemOverloadedError": "MongoDB is overloaded (SystemOverloadedError)",
    "RetryableError": "MongoDB says that the command may be retried (RetryableError)",
}

_TRANSIENT_CODES = {
    6: "HostUnreachable",
    7: "HostNotFound",
    24: "LockTimeout",
    43: "CursorNotFound",
    46: "LockBusy",
    50: "MaxTimeMSExpired",
    64: "WriteConcernFailed",
    89: "NetworkTimeout",
    91: "ShutdownInProgress",
    112: "WriteConflict",
    133: "FailedToSatisfyReadPreference",
    134: "ReadConcernMajorityNotAvailableYet",
    189: "PrimarySteppedDown",
    202: "NetworkInterfaceExceededTimeLimit",
    262: "ExceededTimeLimit",
    365: "TemporarilyUnavailable",
    9001: "SocketException",
    10107: "NotWritablePrimary",
    11600: "InterruptedAtShutdown",
    11602: "InterruptedDueToReplStateChange",
    13435: "NotPrimaryNoSecondaryOk",
    13436: "NotPrimaryOrSecondary",
    16500: "TooManyRequests",
}
_PERMANENT_CODES: dict[int, Verdict] = {
    **dict.fromkeys((2, 9, 14, 40, 72, 121), _MISMATCH),
    **dict.fromkeys((13, 18), permanent("MongoDB refuses the user")),
    **dict.fromkeys((26, 27), permanent("missing data: the collection or the index is not there")),
    **dict.fromkeys((48, 85, 86), permanent("the collection or the index exists already, with other options")),
    **dict.fromkeys((59, 115), permanent("MongoDB does not know this command")),
    **dict.fromkeys((79, 100), permanent("the write concern cannot be met by this deployment")),
    **dict.fromkeys((11000, 11001, 12582), permanent("validation: the key is there already")),
}


def _by_label_or_code(error: BaseException, _lookup: Lookup) -> Verdict | None:
    has_label = attribute(error, "has_error_label")
    if callable(has_label):
        for label, why in _LABELS.items():
            if has_label(label):
                return transient(why)
    return _of_code(attribute(error, "code"))


def _of_code(code: Any) -> Verdict | None:
    if not isinstance(code, int):
        return None
    if (name := _TRANSIENT_CODES.get(code)) is not None:
        return transient(f"MongoDB answered {name} ({code}), which is temporary")
    return _PERMANENT_CODES.get(code)


def _connection(error: BaseException, _lookup: Lookup) -> Verdict:
    return CERTIFICATE_REFUSED if "CERTIFICATE_VERIFY_FAILED" in str(error) else _LOST


def _no_server(error: BaseException, _lookup: Lookup) -> Verdict:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return CERTIFICATE_REFUSED
    return transient("no suitable MongoDB server was found in time; one may be back soon", not_sent=True)


def _configuration(error: BaseException, lookup: Lookup) -> Verdict:
    """The client also reports a DNS failure for a mongodb+srv address as a wrong configuration."""
    cause = error.__cause__
    return (None if cause is None else lookup(cause)) or permanent("validation: the settings cannot be used")


def _write_concern(error: BaseException, lookup: Lookup) -> Verdict:
    return _by_label_or_code(error, lookup) or _REPLICAS_LATE


def _bulk_write(error: BaseException, _lookup: Lookup) -> Verdict | None:
    """Transient only if all of its errors are: a retry repeats the writes that cannot succeed too."""
    details = attribute(error, "details")
    if not isinstance(details, Mapping):
        return None
    verdicts = [_of_code(one.get("code")) for one in details.get("writeErrors") or ()]
    for verdict in verdicts:
        if verdict is None or verdict.category != "transient":
            return verdict
    if verdicts:
        return verdicts[0]
    return _REPLICAS_LATE if details.get("writeConcernErrors") else None


def _encryption(error: BaseException, lookup: Lookup) -> Verdict | None:
    cause = attribute(error, "cause")
    return lookup(cause) if isinstance(cause, BaseException) else None


MONGO_ERRORS: Table = {
    "pymongo.errors.PyMongoError": _by_label_or_code,
    "pymongo.errors.ConnectionFailure": _connection,
    "pymongo.errors.ServerSelectionTimeoutError": _no_server,
    "pymongo.errors.WaitQueueTimeoutError": transient("no pooled connection was free in time", not_sent=True),
    "pymongo.errors.NetworkTimeout": transient("MongoDB did not answer in time; the next attempt may be faster"),
    "pymongo.errors.NotPrimaryError": transient("MongoDB is failing over; this node is no longer the primary"),
    "pymongo.errors.ExecutionTimeout": transient("the operation exceeded its time limit; the next may be faster"),
    "pymongo.errors.CursorNotFound": transient("the cursor is gone, as after a restart; the query may be run again"),
    "pymongo.errors.WTimeoutError": _REPLICAS_LATE,
    "pymongo.errors.WriteConcernError": _write_concern,
    "pymongo.errors.DuplicateKeyError": _PERMANENT_CODES[11000],
    "pymongo.errors.BulkWriteError": _bulk_write,
    "pymongo.errors.ProtocolError": transient("the answer was not valid MongoDB protocol, as when a connection breaks"),
    "pymongo.errors.ConfigurationError": _configuration,
    "pymongo.errors.InvalidName": _MISUSE,
    "pymongo.errors.InvalidOperation": _MISUSE,
    "pymongo.errors.CollectionInvalid": _MISUSE,
    "pymongo.errors.EncryptionError": _encryption,
    "bson.errors.BSONError": permanent("validation: the document cannot be encoded or decoded"),
}
