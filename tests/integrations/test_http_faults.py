"""What goes wrong on the wire and what servers answer, through each client, against a server that really fails."""

from email.utils import formatdate
from typing import Any

import pytest

import redrive
from redrive.telemetry.events import AttemptFailed
from redrive.testing import FlakyServer, NoWaits, Reply
from redrive.testing.flaky_server import Fault

from .clients import Client, Outgoing

ON_THE_WIRE: list[Fault] = ["reset", "close", "cut_body", "garbage"]


@pytest.mark.promise("A2", "P10")
@pytest.mark.parametrize("fault", ON_THE_WIRE)
def test_a_get_is_retried_after_a_fault_on_the_wire(client: Client, fault: Fault) -> None:
    with FlakyServer(Reply(fault=fault), Reply(fault=fault), then=Reply(body={"ok": True})) as server:
        answer = client.send("GET", server.url)
        assert answer.status == 200
        assert answer.body == b'{"ok": true}'
        assert answer.report is None
        assert len(server.seen) == 3


@pytest.mark.promise("A2", "P16")
@pytest.mark.parametrize("fault", ON_THE_WIRE)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_fault_that_stays_is_raised_with_its_report(client: Client, fault: Fault, method: str) -> None:
    """Exactly three requests: clients that repeat requests by themselves must not add their own."""
    with FlakyServer(then=Reply(fault=fault)) as server:
        with pytest.raises(client.any_error) as caught:
            client.send(method, server.url, body=b"data" if method == "PUT" else None)
        report = redrive.report_of(caught.value)
        assert report is not None
        assert report.gave_up.kind == "exhausted"
        assert report.made == 3
        assert len(server.seen) == 3
        assert report.operation == f"{method} {server.url.removeprefix('http://')}/"
        assert "gave up after 3 attempts" in "".join(caught.value.__notes__)


@pytest.mark.promise("A2", "P10")
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_refused_connection_is_retried_whatever_the_method(client: Client, method: str, closed_port: int) -> None:
    with pytest.raises(client.any_error) as caught:
        client.send(method, f"http://127.0.0.1:{closed_port}/")
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.gave_up.kind == "exhausted"
    assert [record.failure.not_sent for record in report.attempts] == [True] * 3


@pytest.mark.promise("A2", "S1")
def test_a_read_timeout_is_retried(client: Client) -> None:
    with FlakyServer(Reply(fault="hang"), then=200) as server:
        assert client.send("GET", server.url, read_timeout=0.4).status == 200
        assert len(server.seen) == 2


@pytest.mark.promise("A2")
def test_a_body_that_stops_half_way_is_retried(client: Client) -> None:
    with FlakyServer(Reply(fault="hang_body", body={"long": "enough"}), then=200) as server:
        assert client.send("GET", server.url, read_timeout=0.4).status == 200
        assert len(server.seen) == 2


@pytest.mark.promise("S1", "A6", "P3")
@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_transient_statuses_are_retried(client: Client, status: int) -> None:
    with FlakyServer(status, status, then=200) as server:
        assert client.send("GET", server.url).status == 200
        assert len(server.seen) == 3


@pytest.mark.promise("S1", "A6", "P3")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422])
def test_permanent_statuses_are_the_callers_to_read(client: Client, status: int) -> None:
    with FlakyServer(Reply(status=status, body={"why": "so"}), then=200) as server:
        answer = client.send("GET", server.url)
        assert (answer.status, answer.body, answer.report) == (status, b'{"why": "so"}', None)
        assert len(server.seen) == 1


@pytest.mark.promise("P7")
def test_retry_after_in_seconds_replaces_the_computed_wait(client: Client, clock: NoWaits) -> None:
    with FlakyServer(Reply(status=503, headers={"Retry-After": "7"}), then=200) as server:
        assert client.send("GET", server.url).status == 200
    assert clock.waits == [pytest.approx(7, abs=0.5)]


@pytest.mark.promise("P7")
def test_retry_after_as_a_date_replaces_the_computed_wait(client: Client, clock: NoWaits) -> None:
    when = formatdate(clock.wall() + 20, usegmt=True)
    with FlakyServer(Reply(status=429, headers={"Retry-After": when}), then=200) as server:
        assert client.send("GET", server.url).status == 200
    assert clock.waits == [pytest.approx(20, abs=2)]


@pytest.mark.promise("P7")
def test_a_retry_after_beyond_the_cap_ends_the_retries(client: Client) -> None:
    with FlakyServer(Reply(status=503, headers={"Retry-After": "3600"}), then=200) as server:
        answer = client.send("GET", server.url)
        assert answer.status == 503
        assert answer.report is not None
        assert answer.report.gave_up.kind == "retry_after"
        assert len(server.seen) == 1


@pytest.mark.promise("P10", "P11")
def test_the_last_response_is_returned_with_its_report(client: Client) -> None:
    with FlakyServer(503, 502, then=Reply(status=500, body={"trace": "id-17"})) as server:
        answer = client.send("GET", f"{server.url}/orders?page=2")
        assert answer.status == 500
        assert answer.body == b'{"trace": "id-17"}'
        assert answer.report is not None
        assert [record.failure.status for record in answer.report.attempts] == [503, 502, 500]
        assert answer.report.operation == f"GET {server.url.removeprefix('http://')}/orders"


def test_on_request_the_last_response_is_raised_instead(client: Client) -> None:
    with FlakyServer(then=Reply(status=503)) as server:
        with pytest.raises(client.status_error) as caught:
            client.send("GET", server.url, settings={"raise_on_failure": True})
        report = redrive.report_of(caught.value)
        assert report is not None
        assert report.made == 3


def test_a_permanent_status_is_not_raised_by_the_adapter(client: Client) -> None:
    with FlakyServer(then=404) as server:
        assert client.send("GET", server.url, settings={"raise_on_failure": True}).status == 404


@pytest.mark.promise("A6")
@pytest.mark.parametrize(
    "settings",
    [
        {"statuses": {404: "transient"}},
        {"classifier": redrive.failures.Classifier(statuses={404: "transient"})},
        {"retry_on": (redrive.TRANSIENT, 404)},
    ],
    ids=["statuses", "classifier", "policy"],
)
def test_a_status_can_be_declared_transient(client: Client, settings: dict[str, Any]) -> None:
    with FlakyServer(404, then=200) as server:
        assert client.send("GET", server.url, settings=settings).status == 200
        assert len(server.seen) == 2


@pytest.mark.promise("A6")
def test_a_status_can_be_declared_permanent(client: Client) -> None:
    with FlakyServer(503, then=200) as server:
        assert client.send("GET", server.url, settings={"statuses": {503: "permanent"}}).status == 503
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    "settings", [{"statuses": {202: "transient"}}, {"retry_on": (redrive.TRANSIENT, 202)}], ids=repr
)
def test_an_answer_that_says_not_yet_can_be_asked_for_again(client: Client, settings: dict[str, Any]) -> None:
    with FlakyServer(202, 202, then=200) as server:
        assert client.send("GET", server.url, settings=settings).status == 200


def test_retrying_anything_does_not_retry_success(client: Client) -> None:
    with FlakyServer(then=200) as server:
        assert client.send("GET", server.url, settings={"retry_on": redrive.ANYTHING}).status == 200
        assert len(server.seen) == 1


@pytest.mark.promise("P11")
def test_each_failed_attempt_is_an_event(client: Client) -> None:
    events: list[Any] = []
    with FlakyServer(503, Reply(fault="close"), then=200) as server:
        client.send("GET", server.url, settings={"on_event": events.append})
    failed = [event for event in events if isinstance(event, AttemptFailed)]
    assert [event.failure.status for event in failed] == [503, None]
    assert all(event.operation.startswith("GET 127.0.0.1:") for event in failed)


@pytest.mark.parametrize("pool", [1, 2])
def test_every_connection_is_given_back(client: Client, pool: int) -> None:
    """Fifty calls with failures on the way, through a pool that one leak would block for good."""
    replies: list[Reply | int] = []
    for fault in ("reset", "cut_body", "close", "garbage", None):
        replies += [503, Reply(fault=fault) if fault else Reply(status=500, body=b"x" * 100_000), 200]
    with FlakyServer(*replies * 10, then=Reply(fault="hang")) as server:
        answers = client.send_all([Outgoing(url=server.url)] * 50, pool=pool)
        assert [answer.status for answer in answers] == [200] * 50
        assert len(server.seen) == 150


@pytest.mark.promise("P16")
def test_inside_a_guarded_call_a_request_is_sent_once_an_attempt(client: Client) -> None:
    """A failed response is raised there: returned, the owner of the retries would take it for a success."""

    @redrive.retry
    def outer() -> int:
        return client.send("GET", server.url).status

    with FlakyServer(503, 503, then=200) as server:
        assert outer() == 200
        assert len(server.seen) == 3
    with FlakyServer(then=503) as server:
        with pytest.raises(Exception, match="503"):
            outer()
        assert len(server.seen) == 3
    with FlakyServer(then=404) as server:
        assert outer() == 404


@pytest.mark.promise("P16")
def test_inside_a_guarded_call_a_response_is_returned_to_those_who_say_so(client: Client) -> None:
    @redrive.retry(retry_on=redrive.ANYTHING)
    def outer() -> None:
        assert client.send("GET", server.url, settings={"raise_on_failure": False}).status == 200

    with FlakyServer(then=503) as server:
        with pytest.raises(AssertionError):
            outer()
        assert len(server.seen) == 3


@pytest.mark.promise("P16")
def test_a_fault_inside_a_guarded_call_is_its_owners_to_retry(client: Client) -> None:
    @redrive.retry
    def outer() -> int:
        return client.send("GET", server.url).status

    with FlakyServer(Reply(fault="reset"), Reply(fault="close"), then=200) as server:
        assert outer() == 200
        assert len(server.seen) == 3


def test_each_host_has_a_circuit_of_its_own(client: Client) -> None:
    settings = {"dependency": "per-host", "attempts": 1}
    with FlakyServer(then=503) as broken, FlakyServer(then=200) as healthy:
        for _ in range(5):
            assert client.send("GET", broken.url, settings=settings).status == 503
        with pytest.raises(redrive.CircuitOpenError) as refused:
            client.send("GET", broken.url, settings=settings)
        assert isinstance(refused.value, client.any_error)
        assert redrive.report_of(refused.value) is not None
        assert len(broken.seen) == 5
        assert client.send("GET", healthy.url, settings=settings).status == 200
