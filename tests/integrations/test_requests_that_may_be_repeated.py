"""Which requests are repeated after an ambiguous failure, and the keys that make it safe."""

from typing import Any

import pytest

import redrive
from redrive.determinism.ids import use_ids
from redrive.testing import FlakyServer, Reply
from redrive.testing.flaky_server import Fault

from .clients import Client, Outgoing

AMBIGUOUS: list[Any] = ["reset", "close", "cut_body", 500, 503]


def as_reply(what: Fault | int) -> Reply:
    return Reply(status=what) if isinstance(what, int) else Reply(fault=what)


def keys_seen(server: FlakyServer) -> list[str | None]:
    return [seen.headers.get("idempotency-key") for seen in server.seen]


def report_on(client: Client, method: str, url: str, **request: Any) -> redrive.policies.Report:
    """The report of a call that gives up, however it ends."""
    try:
        report = client.send(method, url, **request).report
    except client.any_error as error:
        report = redrive.report_of(error)
    assert report is not None
    return report


@pytest.mark.promise("P10")
@pytest.mark.parametrize("trouble", AMBIGUOUS)
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_without_a_key_an_ambiguous_failure_is_not_retried_and_a_key_proposed(
    client: Client, method: str, trouble: Fault | int
) -> None:
    with FlakyServer(as_reply(trouble), then=200) as server:
        report = report_on(client, method, server.url, body=b"{}")
        assert report.gave_up.kind == "not_idempotent"
        assert "Idempotency-Key" in report.next_step
        assert "idempotency_keys=True" in report.next_step
        assert len(server.seen) == 1
        assert keys_seen(server) == [None]


@pytest.mark.promise("P10")
def test_the_note_on_the_error_proposes_the_key(client: Client) -> None:
    with FlakyServer(then=Reply(fault="reset")) as server, pytest.raises(client.any_error) as caught:
        client.send("POST", server.url, body=b"{}")
    assert any("Idempotency-Key" in note for note in caught.value.__notes__)


@pytest.mark.promise("P10")
@pytest.mark.parametrize("status", [425, 429])
def test_a_post_that_was_turned_away_unprocessed_is_retried(client: Client, status: int) -> None:
    with FlakyServer(status, then=200) as server:
        assert client.send("POST", server.url, body=b"{}").status == 200
        assert len(server.seen) == 2


@pytest.mark.promise("P10")
@pytest.mark.parametrize("trouble", AMBIGUOUS)
def test_with_the_callers_key_a_post_is_retried_and_keeps_it(client: Client, trouble: Fault | int) -> None:
    with FlakyServer(as_reply(trouble), as_reply(trouble), then=200) as server:
        assert client.send("POST", server.url, body=b"{}", headers={"idempotency-key": "order-17"}).status == 200
        assert keys_seen(server) == ["order-17"] * 3
        assert [seen.body for seen in server.seen] == [b"{}"] * 3


@pytest.mark.promise("P10")
@pytest.mark.parametrize("trouble", AMBIGUOUS)
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_an_added_key_is_the_same_on_every_attempt(client: Client, method: str, trouble: Fault | int) -> None:
    with FlakyServer(as_reply(trouble), as_reply(trouble), then=200) as server:
        settings = {"idempotency_keys": True}
        assert client.send(method, server.url, body=b"{}", settings=settings).status == 200
        (key,) = set(keys_seen(server))
        assert key
        assert len(server.seen) == 3


@pytest.mark.promise("P10")
def test_each_request_has_a_key_of_its_own_and_the_callers_key_stays(client: Client) -> None:
    with FlakyServer(then=200) as server:
        batch = [Outgoing(method="POST", url=server.url, body=b"same")] * 2
        batch.append(Outgoing(method="POST", url=server.url, headers={"Idempotency-Key": "mine"}))
        batch.append(Outgoing(method="GET", url=server.url))
        client.send_all(batch, idempotency_keys=True)
        first, second, mine, none = keys_seen(server)
        assert first
        assert second
        assert first != second
        assert (mine, none) == ("mine", None)


@pytest.mark.promise("P10")
def test_what_is_declared_unsafe_is_not_repeated(client: Client) -> None:
    with FlakyServer(then=500) as server:
        report = report_on(client, "PUT", server.url, settings={"idempotent": False})
        assert report.gave_up.kind == "not_idempotent"
        assert len(server.seen) == 1


@pytest.mark.promise("P10")
def test_what_is_declared_safe_is_repeated(client: Client) -> None:
    with FlakyServer(500, then=200) as server:
        assert client.send("POST", server.url, settings={"idempotent": True}).status == 200


@pytest.mark.promise("P10")
def test_a_method_nobody_knows_is_taken_to_be_unsafe(client: Client) -> None:
    with FlakyServer(then=Reply(status=501)) as server:
        # The server does not know it either, and says 501.
        assert report_on(client, "REFILL", server.url).gave_up.kind == "not_idempotent"


@pytest.mark.promise("P10")
@pytest.mark.parametrize("trouble", [*AMBIGUOUS, "hang"])
def test_a_body_from_a_generator_is_sent_once(client: Client, trouble: Fault | int) -> None:
    with FlakyServer(as_reply(trouble), then=200) as server:
        report = report_on(client, "PUT", server.url, body=b"one two", streamed=True, read_timeout=0.2)
        assert report.gave_up.kind == "not_replayable"
        assert "body that can be read again" in report.next_step
        assert [seen.body for seen in server.seen] == [b"one two"]


@pytest.mark.promise("P10", "P16")
def test_an_added_key_is_the_same_on_every_attempt_of_an_outer_call(client: Client) -> None:
    @redrive.retry(retry_on=redrive.ANYTHING)
    def order() -> None:
        settings = {"idempotency_keys": True}
        client.send("POST", f"{server.url}/hold", body=b"{}", settings=settings)
        client.send("POST", f"{server.url}/charge?n=1", body=b'{"cents": 100}', settings=settings)
        assert client.send("POST", f"{server.url}/charge?n=2", body=b'{"cents": 100}', settings=settings).status == 200

    with FlakyServer(200, 200, 503, 200, 200, 503, then=200) as server:
        order()
        keys = keys_seen(server)
    hold, first, second = keys[0], keys[1], keys[2]
    assert len({hold, first, second}) == 3
    assert keys[:3] == keys[3:6] == keys[6:9]
    assert len(keys) == 9


@pytest.mark.promise("P10", "P16")
def test_keys_come_from_the_ids_of_the_context(client: Client) -> None:
    numbers = iter(range(1, 10))
    with FlakyServer(503, then=200) as server, use_ids(lambda: f"id-{next(numbers)}"):
        client.send("POST", server.url, settings={"idempotency_keys": True})
        assert keys_seen(server) == ["id-1", "id-1"]


def test_settings_that_contradict_each_other_are_refused(client: Client) -> None:
    with pytest.raises(ValueError, match="idempotent=False"):
        client.adapter(idempotency_keys=True, idempotent=False)
    with pytest.raises(ValueError, match=r"write Classifier\("):
        client.adapter(statuses={404: "transient"}, classifier=redrive.failures.Classifier())
    with pytest.raises(ValueError, match="buffer_limit"):
        client.adapter(buffer_limit=-1)
    with pytest.raises(TypeError, match="atempts"):
        client.adapter(atempts=3)
