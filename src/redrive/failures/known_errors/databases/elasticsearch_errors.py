"""Errors of the Elasticsearch client and of its transport."""

from collections.abc import Mapping
from typing import Any

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Lookup, Table, attribute, permanent, transient, verdict_of_response
from redrive.failures.known_errors.system.stdlib_errors import CERTIFICATE_REFUSED, TIMEOUT

_LOST = transient("the connection to Elasticsearch failed or was lost")

_SHARDS_MISSING = transient("some shards did not answer; the scan may be run again")


def _answer(error: BaseException, _lookup: Lookup) -> Verdict | None:
    meta = attribute(error, "meta")
    return verdict_of_response(attribute(meta, "status"), attribute(meta, "headers"))


def _connection(error: BaseException, lookup: Lookup) -> Verdict:
    """The cause is what the HTTP client raised, and `errors` has the same for each earlier attempt."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return CERTIFICATE_REFUSED
    earlier = attribute(error, "errors")
    raised = [error.__cause__ or error.__context__, *(earlier if isinstance(earlier, tuple) else ())]
    verdicts = [lookup(one) for one in raised if isinstance(one, BaseException)]
    if verdicts and all(one is not None and one.not_sent for one in verdicts):
        return transient("no connection to Elasticsearch could be made; a retry may get through", not_sent=True)
    return _LOST


def _bulk(error: BaseException, _lookup: Lookup) -> Verdict | None:
    """Transient only if all rejected documents are: a retry repeats those that cannot succeed too."""
    verdicts = [_rejected(one) for one in attribute(error, "errors") or ()]
    for verdict in verdicts:
        if verdict is None or verdict.category != "transient":
            return verdict
    return verdicts[0] if verdicts else None


def _rejected(item: Any) -> Verdict | None:
    """Each item is `{operation: {"status": ...}}`."""
    for result in item.values() if isinstance(item, Mapping) else ():
        if isinstance(result, Mapping):
            return verdict_of_response(result.get("status"), None)
    return None


ELASTICSEARCH_ERRORS: Table = {
    "elastic_transport.ApiError": _answer,
    "elastic_transport.ConnectionError": _connection,
    "elastic_transport.ConnectionTimeout": TIMEOUT,
    "elastic_transport.SniffingError": transient("no Elasticsearch node could be found; one may be back soon"),
    "elastic_transport.SerializationError": permanent("validation: the data cannot be encoded or decoded"),
    "elasticsearch.UnsupportedProductError": permanent("the server is not Elasticsearch"),
    "elasticsearch.helpers.BulkIndexError": _bulk,
    "elasticsearch.helpers.ScanError": _SHARDS_MISSING,
    # Releases before 9 leave the classes in the module that defines them.
    "elasticsearch.helpers.errors.BulkIndexError": _bulk,
    "elasticsearch.helpers.errors.ScanError": _SHARDS_MISSING,
}
