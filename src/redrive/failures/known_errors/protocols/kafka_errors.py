"""Errors of kafka-python and aiokafka, which say themselves whether they may be retried."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Entry, Lookup, Table, attribute, permanent, transient, unknown
from redrive.failures.known_errors.system.stdlib_errors import TIMEOUT

_MISUSE = permanent("the client is used wrongly: the same call fails again")
_LOST = transient("the connection to Kafka failed or was lost; a retry may get through")
_NO_BROKER = transient("no Kafka broker could be reached; one may be back soon", not_sent=True)
_REFUSED_LOGIN = permanent("Kafka refuses the login")

_BOOTSTRAP = "Unable to bootstrap"


def _by_flag(error: BaseException, _lookup: Lookup) -> Verdict | None:
    if attribute(error, "retriable") is True:
        return transient(f"Kafka answered {_name(error)}, which its client says may be retried")
    return None


def _connection(error: BaseException, _lookup: Lookup) -> Verdict:
    return _NO_BROKER if _BOOTSTRAP in str(error) else _LOST


def _timeout(error: BaseException, _lookup: Lookup) -> Verdict:
    return _NO_BROKER if _BOOTSTRAP in str(error) else TIMEOUT


def _answer(error: BaseException, lookup: Lookup) -> Verdict:
    return _by_flag(error, lookup) or permanent(f"Kafka answered {_name(error)}: the same request is refused again")


def _name(error: BaseException) -> str:
    return type(error).__name__


_BY_CLASS: dict[str, Entry] = {
    "KafkaError": _by_flag,
    "BrokerResponseError": _answer,
    "UnknownError": unknown("Kafka failed for a reason that it does not name"),
    "RebalanceInProgressError": transient("the consumer group is being rebalanced"),
    "KafkaConnectionError": _connection,
    "NoBrokersAvailable": _NO_BROKER,
    "KafkaUnavailableError": _NO_BROKER,
    "KafkaTimeoutError": _timeout,
    "KafkaProtocolError": transient("the answer was not valid Kafka protocol, as when a connection breaks"),
    "AuthenticationFailedError": _REFUSED_LOGIN,
    "AuthenticationMethodNotSupported": _REFUSED_LOGIN,
    "CommitFailedError": permanent("the partitions belong to another consumer now: the same commit is refused again"),
    "QuotaViolationError": transient("the quota resets over time"),
    "ProducerFenced": permanent("a newer producer with the same transactional id has taken over"),
    "RecordTooLargeError": permanent("validation: the record is too large"),
    "NoOffsetForPartitionError": permanent(
        "missing data: the partition has no offset, and there is no rule to pick one"
    ),
    "IllegalArgumentError": _MISUSE,
    "IllegalStateError": _MISUSE,
    "IllegalOperation": _MISUSE,
    "KafkaConfigurationError": _MISUSE,
    "ProducerClosed": _MISUSE,
    "ConsumerStoppedError": _MISUSE,
    "IncompatibleBrokerVersion": permanent("the broker is too old for this request"),
}

KAFKA_ERRORS: Table = {
    f"{library}.errors.{name}": entry for library in ("kafka", "aiokafka") for name, entry in _BY_CLASS.items()
}
