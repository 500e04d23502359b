"""Errors of kafka-python and aiokafka. A broker's answers are built by hand: it takes a cluster to give them."""

import warnings

import aiokafka.errors  # type: ignore[import-untyped]  # it has no annotations
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its files in an old way
    import kafka.errors  # type: ignore[import-untyped]  # it has no annotations

from tests.failures.asking import verdict_of

from redrive.failures.known_errors.lookup import known_verdict

KINDS = [
    kind
    for module in (kafka.errors, aiokafka.errors)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__ == module.__name__
]


@pytest.mark.promise("L2")
def test_what_the_client_says_may_be_retried_is_transient() -> None:
    retriable = [kind for kind in KINDS if getattr(kind, "retriable", False)]
    assert len(retriable) > 50
    for kind in retriable:
        assert verdict_of(kind()).category == "transient", kind


@pytest.mark.promise("L2")
@pytest.mark.parametrize(
    "error",
    [
        aiokafka.errors.KafkaTimeoutError(),
        aiokafka.errors.KafkaUnavailableError(),
        aiokafka.errors.RebalanceInProgressError(),
        kafka.errors.KafkaTimeoutError("Timeout after waiting for 30 secs."),
        kafka.errors.KafkaProtocolError("cannot decode"),
        kafka.errors.RebalanceInProgressError(),
        kafka.errors.QuotaViolationError(),
    ],
    ids=lambda error: f"{type(error).__module__}.{type(error).__name__}",
)
def test_what_is_temporary_though_the_client_does_not_say_so(error: Exception) -> None:
    assert verdict_of(error).category == "transient"


@pytest.mark.promise("P2")
def test_what_a_broker_refuses_for_good_is_permanent() -> None:
    for module in (kafka.errors, aiokafka.errors):
        for name in ("MessageSizeTooLargeError", "TopicAuthorizationFailedError", "InvalidTopicError"):
            assert verdict_of(getattr(module, name)()).category == "permanent", (module, name)
        assert verdict_of(module.IllegalStateError("closed")).category == "permanent"
        assert verdict_of(module.CommitFailedError()).category == "permanent"


@pytest.mark.promise("P4")
def test_what_says_neither() -> None:
    assert verdict_of(kafka.errors.UnknownError()).category == "unknown"
    assert verdict_of(aiokafka.errors.UnknownError()).category == "unknown"
    assert known_verdict(kafka.errors.KafkaError("x")) is None
