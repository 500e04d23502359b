"""Look up an error in the tables: by its class, then by its base classes, then by its attributes."""

from functools import lru_cache

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.databases.elasticsearch_errors import ELASTICSEARCH_ERRORS
from redrive.failures.known_errors.databases.mongo_errors import MONGO_ERRORS
from redrive.failures.known_errors.databases.postgres_errors import POSTGRES_ERRORS
from redrive.failures.known_errors.databases.redis_errors import REDIS_ERRORS
from redrive.failures.known_errors.databases.sqlalchemy_errors import SQLALCHEMY_ERRORS
from redrive.failures.known_errors.databases.sqlite_errors import SQLITE_ERRORS
from redrive.failures.known_errors.databases.sqlstates import sqlstate_of, sqlstate_verdict
from redrive.failures.known_errors.entries import (
    Entry,
    Reader,
    Table,
    attribute,
    verdict_of_advice,
    verdict_of_response,
)
from redrive.failures.known_errors.http_clients.aiohttp_errors import AIOHTTP_ERRORS
from redrive.failures.known_errors.http_clients.httpx_errors import HTTPX_ERRORS
from redrive.failures.known_errors.http_clients.requests_errors import REQUESTS_ERRORS
from redrive.failures.known_errors.http_clients.websockets_errors import WEBSOCKETS_ERRORS
from redrive.failures.known_errors.protocols.dns_errors import DNS_ERRORS
from redrive.failures.known_errors.protocols.grpc_errors import GRPC_ERRORS
from redrive.failures.known_errors.protocols.kafka_errors import KAFKA_ERRORS
from redrive.failures.known_errors.protocols.mail_errors import MAIL_ERRORS
from redrive.failures.known_errors.protocols.ssh_errors import SSH_ERRORS
from redrive.failures.known_errors.services.anthropic_errors import ANTHROPIC_ERRORS
from redrive.failures.known_errors.services.aws_errors import AWS_ERRORS
from redrive.failures.known_errors.services.azure_errors import AZURE_ERRORS
from redrive.failures.known_errors.services.google_errors import GOOGLE_ERRORS
from redrive.failures.known_errors.services.mistral_and_cohere_errors import MISTRAL_AND_COHERE_ERRORS
from redrive.failures.known_errors.services.openai_errors import OPENAI_ERRORS
from redrive.failures.known_errors.services.pydantic_ai_errors import PYDANTIC_AI_ERRORS
from redrive.failures.known_errors.services.stripe_errors import STRIPE_ERRORS
from redrive.failures.known_errors.system.async_io_errors import ASYNC_IO_ERRORS
from redrive.failures.known_errors.system.builtin_errors import BUILTIN_ERRORS
from redrive.failures.known_errors.system.end_of_stream_errors import END_OF_STREAM_ERRORS
from redrive.failures.known_errors.system.os_errors import OS_ERRORS
from redrive.failures.known_errors.system.own_errors import OWN_ERRORS
from redrive.failures.known_errors.system.stdlib_errors import STDLIB_ERRORS
from redrive.failures.known_errors.system.validation_errors import VALIDATION_ERRORS
from redrive.failures.matching import qualified_name

KNOWN_ERRORS: Table = {
    **OWN_ERRORS,
    **BUILTIN_ERRORS,
    **OS_ERRORS,
    **STDLIB_ERRORS,
    **VALIDATION_ERRORS,
    **SQLITE_ERRORS,
    **POSTGRES_ERRORS,
    **SQLALCHEMY_ERRORS,
    **MONGO_ERRORS,
    **REDIS_ERRORS,
    **KAFKA_ERRORS,
    **ELASTICSEARCH_ERRORS,
    **SSH_ERRORS,
    **MAIL_ERRORS,
    **DNS_ERRORS,
    **END_OF_STREAM_ERRORS,
    **HTTPX_ERRORS,
    **REQUESTS_ERRORS,
    **AIOHTTP_ERRORS,
    **ASYNC_IO_ERRORS,
    **WEBSOCKETS_ERRORS,
    **AWS_ERRORS,
    **AZURE_ERRORS,
    **GOOGLE_ERRORS,
    **GRPC_ERRORS,
    **OPENAI_ERRORS,
    **ANTHROPIC_ERRORS,
    **MISTRAL_AND_COHERE_ERRORS,
    **PYDANTIC_AI_ERRORS,
    **STRIPE_ERRORS,
}
"""All known errors, by qualified class name."""

# Errors may wrap each other several times over, or even themselves.
_DEEPEST = 6


def known_verdict(error: BaseException) -> Verdict | None:
    """Return the verdict on an error; None when it is not known."""
    return _verdict(error, 0)


def _verdict(error: BaseException, depth: int) -> Verdict | None:
    if depth > _DEEPEST:
        return None
    kind: type = type(error)
    for entry in _entries(kind):
        verdict = entry if isinstance(entry, Verdict) else _read(entry, error, depth)
        if verdict is not None:
            return verdict
    return _verdict_from_attributes(error)


def _read(reader: Reader, error: BaseException, depth: int) -> Verdict | None:
    try:
        return reader(error, lambda inner: _verdict(inner, depth + 1))
    except Exception:  # noqa: BLE001 - an exception with broken attributes is merely not known
        return None


@lru_cache(maxsize=1024)
def _entries(kind: type) -> tuple[Entry, ...]:
    found: list[Entry] = []
    for base in kind.__mro__:
        entry = KNOWN_ERRORS.get(qualified_name(base))
        if entry is not None:
            found.append(entry)
            if isinstance(entry, Verdict):
                break  # it always applies, so later entries are never reached
    return tuple(found)


def _verdict_from_attributes(error: BaseException) -> Verdict | None:
    """Judge an exception of an unknown library by an HTTP status or SQLSTATE under one of the usual names.

    Without either, the headers of its response may say whether to retry.
    """
    response = attribute(error, "response")
    headers = attribute(error, "headers")
    if headers is None:
        headers = attribute(response, "headers")
    for holder, name in (
        (error, "status_code"),
        (error, "status"),
        (error, "http_status"),
        (response, "status_code"),
        (response, "status"),
    ):
        if (verdict := verdict_of_response(attribute(holder, name), headers)) is not None:
            return verdict
    if (state := sqlstate_of(error)) is not None:
        return sqlstate_verdict(state)
    return verdict_of_advice(headers)
