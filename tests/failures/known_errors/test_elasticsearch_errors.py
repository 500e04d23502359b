"""Errors of the Elasticsearch client, from an HTTP server that answers as a real one does."""

import json
from typing import Any

import elastic_transport
import pytest
from elasticsearch import ConflictError, Elasticsearch, helpers
from tests.failures.asking import ServeBytes, error_of, verdict_of

from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.failures.failure import Category

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # urllib3 leaves connections to the collector


def answer(status: int, body: Any, *headers: str) -> bytes:
    content = json.dumps(body)
    lines = [f"HTTP/1.1 {status} x", "X-Elastic-Product: Elasticsearch", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(content)}", "Connection: close", "", content]).encode()


def client_of(url: str) -> Elasticsearch:
    return Elasticsearch(url, max_retries=0, request_timeout=5)


@pytest.mark.promise("L2")
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_statuses_that_are_temporary(status: int, serve_bytes: ServeBytes) -> None:
    with client_of(serve_bytes(answer(status, {"error": "x"}, "Retry-After: 7"))) as client:
        verdict = verdict_of(error_of(client.info))
    assert (verdict.category, verdict.status, verdict.retry_after) == ("transient", status, "7")


@pytest.mark.promise("P2")
@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_statuses_that_stay(status: int, serve_bytes: ServeBytes) -> None:
    with client_of(serve_bytes(answer(status, {"error": "x"}))) as client:
        verdict = verdict_of(error_of(client.info))
    assert (verdict.category, verdict.status) == ("permanent", status)


@pytest.mark.promise("P3")
def test_a_conflict_is_permanent_unless_it_is_declared_a_lock(serve_bytes: ServeBytes) -> None:
    with client_of(serve_bytes(answer(409, {"error": "version conflict"}))) as client:
        error = error_of(lambda: client.index(index="i", id="1", document={}, if_seq_no=1, if_primary_term=1))
    assert isinstance(error, ConflictError)
    assert DEFAULT_CLASSIFIER.failure_of(error, 0).category == "permanent"
    assert DEFAULT_CLASSIFIER.with_lock_conflicts().failure_of(error, 0).category == "transient"


@pytest.mark.promise("L2")
def test_a_response_that_ends_half_way(serve_bytes: ServeBytes) -> None:
    with client_of(serve_bytes(answer(200, {"version": "9"})[:-4])) as client:
        error = error_of(client.info)
    assert isinstance(error, elastic_transport.ConnectionError)
    assert verdict_of(error).category == "transient"


@pytest.mark.parametrize(
    ("statuses", "category"), [([429, 503], "transient"), ([429, 400], "permanent"), ([409], "permanent")]
)
def test_bulk_errors_go_by_their_documents(statuses: list[int], category: Category, serve_bytes: ServeBytes) -> None:
    items = [{"index": {"_id": str(status), "status": status, "error": {"type": "x"}}} for status in statuses]
    with client_of(serve_bytes(answer(200, {"errors": True, "took": 1, "items": items}))) as client:
        documents = [{"_index": "i", "_id": str(status), "x": 1} for status in statuses]
        error = error_of(lambda: helpers.bulk(client, documents))
    assert isinstance(error, helpers.BulkIndexError)
    assert verdict_of(error).category == category


@pytest.mark.promise("P2")
def test_what_is_no_elasticsearch(serve_bytes: ServeBytes) -> None:
    with client_of(serve_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")) as client:
        assert verdict_of(error_of(client.info)).category == "permanent"


@pytest.mark.promise("P2")
def test_a_certificate_that_is_refused() -> None:
    """Built by hand: it takes a server with a certificate, and one with shards."""
    refused = elastic_transport.TlsError("x", errors=(Exception("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"),))
    assert verdict_of(refused).category == "permanent"
    assert verdict_of(helpers.ScanError("scroll", "1 of 5 shards failed")).category == "transient"
