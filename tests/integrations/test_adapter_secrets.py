"""Secrets planted in a request never reach logs, reports, notes or reprs."""

import logging
from typing import Any, Literal

import pytest

import redrive
from redrive.integrations.aiohttp import retry_middleware
from redrive.integrations.httpx import RetryTransport
from redrive.integrations.requests import RetryAdapter
from redrive.testing import FlakyServer, Reply
from redrive.testing.flaky_server import Fault

from .clients import Client

SECRET = "s3cr3t-VALUE-17"
HEADERS = {
    "Authorization": f"Bearer {SECRET}",
    "Cookie": f"session={SECRET}",
    "X-Api-Key": SECRET,
    "Idempotency-Key": SECRET,
}


def everything_said(caplog: pytest.LogCaptureFixture, report: redrive.policies.Report, events: list[Any]) -> str:
    fields = [repr(vars(record)) for record in caplog.records]
    return "\n".join([caplog.text, *fields, str(report), repr(report), *map(repr, events)])


@pytest.mark.promise("P11")
@pytest.mark.parametrize("trouble", ["reset", "close", "cut_body", "garbage", "hang", 503, "refused"])
def test_no_secret_is_said(
    client: Client, trouble: Fault | int | Literal["refused"], caplog: pytest.LogCaptureFixture, closed_port: int
) -> None:
    caplog.set_level(logging.DEBUG, logger="redrive")
    events: list[Any] = []
    settings = {"on_event": events.append, "dependency": "per-host"}
    notes: list[str] = []
    if trouble == "refused":
        reply = Reply()
    else:
        reply = Reply(status=trouble, body={"token": SECRET}) if isinstance(trouble, int) else Reply(fault=trouble)
    with FlakyServer(then=reply) as server:
        host = server.url.removeprefix("http://") if trouble != "refused" else f"127.0.0.1:{closed_port}"
        url = f"http://user:{SECRET}@{host}/orders/7?access_token={SECRET}&page=2#id_token={SECRET}"
        request: dict[str, Any] = {"headers": dict(HEADERS), "body": SECRET.encode(), "read_timeout": 0.1}
        # aiohttp refuses a header beside the credentials of a URL.
        del request["headers"]["Authorization"]
        try:
            report = client.send("POST", url, settings=settings, **request).report
        except client.any_error as error:
            report = redrive.report_of(error)
            notes = error.__notes__
    assert report is not None
    assert report.made == 3
    assert report.operation == f"POST {host}/orders/7"
    assert len(caplog.records) == 3
    assert SECRET not in everything_said(caplog, report, events)
    assert SECRET not in "\n".join(notes)


@pytest.mark.promise("P11")
def test_no_secret_of_a_header_is_said(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="redrive")
    with FlakyServer(then=Reply(status=500, headers={"Set-Cookie": f"session={SECRET}"})) as server:
        report = client.send("GET", server.url, headers=dict(HEADERS)).report
    assert report is not None
    assert SECRET not in everything_said(caplog, report, [])


@pytest.mark.promise("P11")
def test_the_repr_of_an_adapter_says_its_policy_and_no_secret(client: Client) -> None:
    adapter = client.adapter(attempts=5, dependency="payments", idempotency_keys=True)
    assert "attempts=5" in repr(adapter)
    assert "payments" in repr(adapter)


@pytest.mark.promise("P11")
def test_secrets_in_configured_names_are_hidden() -> None:
    for adapter in (RetryTransport, RetryAdapter, retry_middleware):
        made = adapter(dependency="https://app:hunter2@api.example", operation="get https://app:hunter2@api.example")
        assert "hunter2" not in repr(made)
