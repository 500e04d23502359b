"""Errors that no test server brings about, built by hand: the class alone says enough."""

import importlib
import warnings
from collections.abc import Mapping
from typing import Any

import pytest
from tests.failures.asking import verdict_of

TRANSIENT = [
    "dns.exception.Timeout",
    "dns.query.BadResponse",
    "dns.query.UnexpectedSource",
    "dns.resolver.NoRootSOA",
    "elastic_transport.ConnectionError",
    "elastic_transport.ConnectionTimeout",
    "elastic_transport.SniffingError",
    "asyncpg.exceptions.ProtocolError",
    "psycopg.OperationalError",
    "psycopg_pool.TooManyRequests",
    "psycopg_pool.PoolTimeout",
    "psycopg2.OperationalError",
    "kafka.errors.KafkaConnectionError",
    "aiokafka.errors.KafkaConnectionError",
    "aiokafka.errors.KafkaProtocolError",
    "aiokafka.errors.NoBrokersAvailable",
    "aiokafka.errors.QuotaViolationError",
    "paramiko.ssh_exception.MessageOrderError",
    "pymongo.errors.AutoReconnect",
    "pymongo.errors.ConnectionFailure",
    "pymongo.errors.CursorNotFound",
    "pymongo.errors.ExecutionTimeout",
    "pymongo.errors.NetworkTimeout",
    "pymongo.errors.NotPrimaryError",
    "pymongo.errors.ProtocolError",
    "pymongo.errors.ServerSelectionTimeoutError",
    "pymongo.errors.WTimeoutError",
    "pymongo.errors.WaitQueueTimeoutError",
    "pymongo.errors.WriteConcernError",
    "redis.exceptions.ClusterDownError",
    "redis.exceptions.ConnectionError",
    "redis.exceptions.LockError",
    "redis.exceptions.LockNotOwnedError",
    "redis.exceptions.MasterDownError",
    "redis.exceptions.MaxConnectionsError",
    "redis.exceptions.TimeoutError",
    "redis.sentinel.MasterNotFoundError",
    "smtplib.SMTPServerDisconnected",
    "aiosmtplib.errors.SMTPServerDisconnected",
    "aiosmtplib.errors.SMTPReadTimeoutError",
    "sqlalchemy.exc.DisconnectionError",
    "sqlalchemy.exc.InvalidatePoolError",
    "sqlalchemy.exc.TimeoutError",
    "sqlalchemy.orm.exc.StaleDataError",
]

PERMANENT = [
    "dns.message.Truncated",
    "dns.name.LabelTooLong",
    "dns.resolver.NoMetaqueries",
    "dns.resolver.NoResolverConfiguration",
    "dns.resolver.NotAbsolute",
    "dns.resolver.YXDOMAIN",
    "elastic_transport.SerializationError",
    "psycopg.DataError",
    "psycopg.IntegrityError",
    "psycopg.InterfaceError",
    "psycopg.NotSupportedError",
    "psycopg.ProgrammingError",
    "psycopg2.DataError",
    "psycopg2.IntegrityError",
    "psycopg2.InterfaceError",
    "psycopg2.NotSupportedError",
    "psycopg2.ProgrammingError",
    "psycopg2.pool.PoolError",
    "psycopg_pool.PoolClosed",
    "aiokafka.errors.AuthenticationFailedError",
    "aiokafka.errors.AuthenticationMethodNotSupported",
    "aiokafka.errors.ConsumerStoppedError",
    "aiokafka.errors.IllegalOperation",
    "aiokafka.errors.IncompatibleBrokerVersion",
    "aiokafka.errors.NoOffsetForPartitionError",
    "aiokafka.errors.ProducerClosed",
    "aiokafka.errors.ProducerFenced",
    "aiokafka.errors.RecordTooLargeError",
    "kafka.errors.IllegalArgumentError",
    "kafka.errors.IncompatibleBrokerVersion",
    "kafka.errors.KafkaConfigurationError",
    "kafka.errors.NoOffsetForPartitionError",
    "kafka.errors.SaslAuthenticationFailedError",
    "paramiko.ssh_exception.AuthenticationException",
    "paramiko.ssh_exception.BadAuthenticationType",
    "paramiko.ssh_exception.ConfigParseError",
    "paramiko.ssh_exception.CouldNotCanonicalize",
    "paramiko.ssh_exception.IncompatiblePeer",
    "paramiko.ssh_exception.PasswordRequiredException",
    "pymongo.errors.CollectionInvalid",
    "pymongo.errors.ConfigurationError",
    "pymongo.errors.DuplicateKeyError",
    "pymongo.errors.InvalidOperation",
    "bson.errors.InvalidDocument",
    "redis.exceptions.AuthorizationError",
    "redis.exceptions.AuthenticationError",
    "redis.exceptions.ClusterCrossSlotError",
    "redis.exceptions.CrossSlotTransactionError",
    "redis.exceptions.DataError",
    "redis.exceptions.NoPermissionError",
    "redis.exceptions.PubSubError",
    "redis.exceptions.ResponseError",
    "smtplib.SMTPNotSupportedError",
    "sqlalchemy.exc.ArgumentError",
    "sqlalchemy.exc.CompileError",
    "sqlalchemy.exc.MultipleResultsFound",
    "sqlalchemy.exc.NoResultFound",
    "sqlalchemy.exc.PendingRollbackError",
    "sqlalchemy.orm.exc.FlushError",
    "sqlalchemy.orm.exc.DetachedInstanceError",
]

ARGUMENTS: Mapping[str, tuple[Any, ...]] = {
    "dns.message.Truncated": (),
    "dns.resolver.NoRootSOA": (),
    "paramiko.ssh_exception.BadAuthenticationType": ("no passwords here", ["publickey"]),
    "aiokafka.errors.ProducerFenced": (),
}


def built(qualified: str) -> Exception:
    module, _, name = qualified.rpartition(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its files in an old way
        kind = getattr(importlib.import_module(module), name)
    error = kind(*ARGUMENTS.get(qualified, ("failed",)))
    assert isinstance(error, Exception)
    return error


@pytest.mark.promise("L2")
@pytest.mark.parametrize("qualified", TRANSIENT)
def test_what_passes(qualified: str) -> None:
    assert verdict_of(built(qualified)).category == "transient"


@pytest.mark.promise("P2")
@pytest.mark.parametrize("qualified", PERMANENT)
def test_what_stays(qualified: str) -> None:
    assert verdict_of(built(qualified)).category == "permanent"


@pytest.mark.promise("L2")
def test_psycopg2_says_what_happened_only_as_text() -> None:
    psycopg2 = importlib.import_module("psycopg2")
    pool = importlib.import_module("psycopg2.pool")
    assert verdict_of(pool.PoolError("connection pool exhausted")).not_sent
    for text in ("SSL SYSCALL error: EOF detected", "server closed the connection unexpectedly"):
        assert verdict_of(psycopg2.DatabaseError(text)).category == "transient"
    assert verdict_of(psycopg2.InterfaceError("connection already closed")).category == "transient"
    refused = psycopg2.OperationalError("SSL error: certificate verify failed")
    assert verdict_of(refused).category == "permanent"


@pytest.mark.promise("L2")
def test_an_encryption_error_goes_by_its_cause() -> None:
    errors = importlib.import_module("pymongo.errors")
    assert verdict_of(errors.EncryptionError(ConnectionResetError("reset"))).category == "transient"
