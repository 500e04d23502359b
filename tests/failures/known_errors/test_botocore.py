"""Errors of botocore."""

import ssl
import threading
from functools import cache
from typing import Any

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, PATIENCE, STATUSES
from tests.misbehaving.library import Library, classified, imported, raised_by

from redrive.failures.failure import Failure
from redrive.testing import FlakyServer, Reply

from .table import check_network_failure, check_row, check_status

MAKING_A_CLIENT = threading.Lock()


@cache
def session() -> Any:
    one = imported("botocore.session").Session()
    one.set_credentials("none", "none")
    return one


def client(service: str, url: str, timeout: float) -> Any:
    settings = imported("botocore.config").Config(
        retries={"total_max_attempts": 1},
        connect_timeout=timeout,
        read_timeout=timeout,
        s3={"addressing_style": "path"},
    )
    # A session reads its large files once, and must not make two clients at a time.
    with MAKING_A_CLIENT:
        return session().create_client(
            service, region_name="us-east-1", endpoint_url=url, config=settings, verify=False
        )


def list_tables(url: str, timeout: float = PATIENCE) -> Any:
    return client("dynamodb", url, timeout).list_tables()


def download(url: str, timeout: float = PATIENCE) -> Any:
    """Read a body as it comes: botocore takes a plain answer that is cut off for an empty one."""
    return client("s3", url, timeout).get_object(Bucket="bucket", Key="key")["Body"].read()


BOTOCORE = Library(name="botocore", call=list_tables, raises=("botocore",), calls={"cut off": download})


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", NETWORK_FAILURES)
def test_network_failures_are_transient(how: str) -> None:
    check_network_failure(BOTOCORE, how)


@pytest.mark.promise("L3")
@pytest.mark.parametrize("how", STATUSES)
def test_responses_go_by_their_status(how: str) -> None:
    check_status(BOTOCORE, how)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(BOTOCORE)


@pytest.mark.promise("L3")
class TestVendorsOwnCodes:
    @staticmethod
    def answered(code: str, status: int, **headers: str) -> Failure:
        body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "no"}
        with FlakyServer(then=Reply(status=status, body=body, headers=headers)) as server:
            return classified(raised_by(list_tables, server.url))

    @pytest.mark.parametrize(
        "code",
        [
            "ThrottlingException",
            "Throttling",
            "TooManyRequestsException",
            "ProvisionedThroughputExceededException",
            "SlowDown",
            "RequestLimitExceeded",
            "TransactionInProgressException",
        ],
    )
    def test_throttling_comes_with_status_400(self, code: str) -> None:
        failure = self.answered(code, 400)
        assert (failure.category, failure.status) == ("transient", 400)
        assert code in failure.reason

    def test_other_codes_go_by_their_status(self) -> None:
        assert self.answered("ValidationException", 400).category == "permanent"
        assert self.answered("Something", 503, **{"x-should-retry": "false"}).category == "permanent"


@pytest.mark.promise("L2")
def test_built_by_hand() -> None:
    """Made by hand: they need TLS or a proxy."""
    exceptions = imported("botocore.exceptions")
    refused = ssl.SSLCertVerificationError("certificate verify failed")
    assert classified(exceptions.SSLError(endpoint_url="x", error=refused)).category == "permanent"
    assert classified(exceptions.HTTPClientError(error=ConnectionResetError())).category == "transient"
    assert classified(exceptions.ProxyConnectionError(proxy_url="x", error="y")).not_sent
