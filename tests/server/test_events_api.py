"""The log of a flow over HTTP: in pages, and as it happens, from any line on."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
from tests.server import shop
from tests.server.serving import NO_FLOW, Serving, problem, serving

import redrive
from redrive.server.access.api_keys import ApiKeys, Caller
from redrive.server.settings import ServerSettings
from redrive.server.streams.flow_events import EventStreams
from redrive.server.streams.places import StreamPlaces
from redrive.stores.records import EventRow

STREAM = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving(heartbeat=0.05) as server:
        yield server


class Stream:
    """What comes over an event stream, one block after the other."""

    def __init__(self, answer: httpx.Response) -> None:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        # Kept: when nobody holds the iterator any more, the client closes the stream.
        self.blocks = self._read(answer.iter_lines())

    def _read(self, lines: Iterator[str]) -> Iterator[dict[str, str]]:
        block: dict[str, str] = {}
        for line in lines:
            if line:
                name, _, value = line.partition(":")
                block[name or "comment"] = value.strip()
            elif block:
                yield block
                block = {}

    def events(self, number: int | None = None) -> list[dict[str, str]]:
        found: list[dict[str, str]] = []
        for block in self.blocks:
            if "data" in block:
                found.append(block)
            if len(found) == number:
                break
        return found


def stream(server: Serving, flow_id: str, **headers: str) -> Any:
    return server.client.stream("GET", f"/v1/flows/{flow_id}/events", headers={**STREAM, **headers})


def test_the_log_is_read_in_pages(server: Serving) -> None:
    flow_id = server.start("workflow:SrvOrder", {"user": "u1", "failures": 2})
    server.finished(flow_id)
    whole = server.client.get(f"/v1/flows/{flow_id}/events").json()
    assert whole["next"] is None
    seqs = list(dict.fromkeys(one["seq"] for one in whole["events"]))
    assert seqs == [*range(1, len(seqs) + 1)]
    assert whole["events"][-1]["event"]["type"] == "flow_completed"
    paged: list[Any] = []
    after: int | None = 0
    while after is not None:
        page = server.client.get(f"/v1/flows/{flow_id}/events", params={"after": after, "limit": 2}).json()
        paged += page["events"]
        after = page["next"]
    assert paged == whole["events"]


def test_a_stream_tells_all_that_happened_and_ends_with_the_flow(server: Serving) -> None:
    flow_id = server.start("workflow:SrvOrder", {"user": "u1", "failures": 1})
    with stream(server, flow_id) as answer:
        *events, end = Stream(answer).events()
    whole = [one["id"] for one in events if "." not in one["id"]]
    assert whole == [str(seq) for seq in range(1, len(whole) + 1)]
    assert json.loads(events[-1]["data"])["event"]["type"] == "flow_completed"
    assert (end["event"], json.loads(end["data"])) == ("end", {"status": "completed"})
    pages = server.client.get(f"/v1/flows/{flow_id}/events").json()["events"]
    assert [json.loads(one["data"]) for one in events] == pages


def test_a_stream_goes_on_from_the_last_event_that_was_seen(server: Serving) -> None:
    flow_id = server.start("workflow:SrvNap", {"seconds": 3600})
    with stream(server, flow_id) as answer:
        (first,) = Stream(answer).events(1)
    said = {"why": "enough", "by": "anna"}
    server.client.post(f"/v1/flows/{flow_id}/cancel", json=said)
    with stream(server, flow_id, **{"Last-Event-ID": first["id"]}) as answer:
        *rest, end = Stream(answer).events()
    assert [one["id"] for one in rest] == [str(seq) for seq in range(2, len(rest) + 2)]
    assert json.loads(end["data"]) == {"status": "cancelled"}
    # Nothing more can come: a browser that connects again is told to stay away.
    last = server.client.get(f"/v1/flows/{flow_id}/events", headers={**STREAM, "Last-Event-ID": rest[-1]["id"]})
    assert (last.status_code, last.content) == (204, b"")


@pytest.mark.promise("A9")
def test_each_thing_that_happens_to_work_is_an_event_with_its_name(server: Serving) -> None:
    flow_id = server.start("action:srv_pay", {"cents": 1, "failures": 1})
    server.finished(flow_id)
    shown = server.client.get(f"/v1/flows/{flow_id}/events").json()["events"]
    told = [(one["event"]["type"], one["event"].get("attempt")) for one in shown]
    assert told == [
        ("item_started", None),
        ("attempt_started", 1),
        ("attempt_failed", 1),
        ("work_not_completed", 1),
        ("retry_scheduled", 2),
        ("attempt_started", 2),
        ("item_completed", 2),
        ("flow_completed", None),
    ]
    failed, not_completed, scheduled = (one["event"] for one in shown[2:5])
    assert not_completed["category"] == "transient"
    assert not_completed["error"] == failed["failure"]["type"] == "ConnectionError"
    assert scheduled["until"] == failed["decision"]["when"]
    assert scheduled["wait"] == pytest.approx(scheduled["until"] - shown[4]["at"], abs=1e-5)
    assert "retry" in scheduled["reason"]
    assert shown[5]["at"] >= scheduled["until"] - 1e-5
    # The explanation has the same events, but none that may hold arguments or results.
    explained = server.client.get(f"/v1/flows/{flow_id}/explain").json()["events"]
    names = ("attempt_started", "work_not_completed", "retry_scheduled")
    assert explained == [one for one in shown if one["event"]["type"] in names]


@pytest.mark.promise("A9")
def test_work_that_is_given_up_is_an_event(server: Serving) -> None:
    flow_id = server.start("action:srv_refuse", {"why": "no stock"})
    server.finished(flow_id)
    shown = server.client.get(f"/v1/flows/{flow_id}/events").json()["events"]
    [failed] = [one["event"] for one in shown if one["event"]["type"] == "work_failed"]
    assert (failed["attempt"], failed["kind"], failed["message"]) == (1, "permanent", "no stock")
    assert not [one for one in shown if one["event"]["type"] in ("work_not_completed", "retry_scheduled")]


@pytest.mark.promise("A9", "A13")
def test_a_stream_resumed_after_any_event_has_no_gap_and_repeats_nothing(server: Serving) -> None:
    flow_id = server.start("action:srv_pay", {"cents": 1, "failures": 2})
    server.finished(flow_id)
    with stream(server, flow_id) as answer:
        *events, _ = Stream(answer).events()
    assert len({one["id"] for one in events}) == len(events)
    for seen, event in enumerate(events[:-1], start=1):
        with stream(server, flow_id, **{"Last-Event-ID": event["id"]}) as answer:
            *rest, _ = Stream(answer).events()
        assert rest == events[seen:]


def test_a_stream_says_now_and_then_that_it_is_still_there(server: Serving) -> None:
    flow_id = server.start("workflow:SrvNap", {"seconds": 3600})
    with stream(server, flow_id) as answer:
        comments = (block["comment"] for block in Stream(answer).blocks if "comment" in block)
        assert [next(comments), next(comments), next(comments)][1:] == ["heartbeat", "heartbeat"]


def test_the_log_of_an_app_prints_and_encodes_as_the_server_shows_it(server: Serving) -> None:
    flow_id = server.start("workflow:SrvOrder", {"user": "u1", "failures": 1})
    server.finished(flow_id)
    shown = server.client.get(f"/v1/flows/{flow_id}/events").json()["events"]
    lines = server.ask(lambda app: app.log(flow_id))
    assert [json.loads(msgspec.json.encode(line)) for line in lines] == shown
    assert [json.loads(str(line)) for line in lines] == shown


@pytest.mark.promise("A16")
def test_the_token_that_completes_an_attempt_shows_in_no_event(server: Serving) -> None:
    flow_id = server.start("workflow:SrvOrder", {"user": "u1", "failures": 1})
    server.finished(flow_id)
    lines = server.ask(lambda app: app.read_lines(flow_id))
    tokens = {line.event.delivery for line in lines if hasattr(line.event, "delivery")}
    assert len(tokens) == 2
    with stream(server, flow_id) as answer:
        answer.read()
        streamed = answer.text
    for path in ("", "/events", "/explain"):
        text = server.client.get(f"/v1/flows/{flow_id}{path}").text + streamed
        assert not [token for token in tokens if token in text]


@pytest.mark.parametrize("last", ["x", "-1", "1.", ".5", "1.x", "9" * 19])
def test_a_wrong_last_event_is_refused(server: Serving, last: str) -> None:
    flow_id = server.start("action:srv_pay", {"cents": 1})
    answer = server.client.get(f"/v1/flows/{flow_id}/events", headers={**STREAM, "Last-Event-ID": last})
    assert problem(answer, 400)["parameter"] == "Last-Event-ID"


@pytest.mark.parametrize(("query", "parameter"), [("after=-1", "after"), ("after=x", "after"), ("limit=0", "limit")])
def test_a_wrong_page_is_refused(server: Serving, query: str, parameter: str) -> None:
    assert problem(server.client.get(f"/v1/flows/{NO_FLOW}/events?{query}"), 400)["parameter"] == parameter


def test_no_more_streams_than_allowed_are_open_and_closed_ones_make_room() -> None:
    with serving(streams=1, heartbeat=0.01) as server:
        flow_id = server.start("workflow:SrvNap", {"seconds": 3600})
        with stream(server, flow_id) as first:
            source = Stream(first)
            source.events(1)
            with stream(server, flow_id) as refused:
                assert refused.status_code == 503
                refused.read()
            problem(refused, 503)
            assert refused.headers["retry-after"] == "5"

        def status() -> int:
            with stream(server, flow_id) as again:
                return int(again.status_code)

        server.until(status, lambda code: code == 200)


def test_streams_end_when_the_server_stops() -> None:
    with serving() as server:
        flow_id = server.start("workflow:SrvNap", {"seconds": 3600})
        with stream(server, flow_id) as answer:
            source = Stream(answer)
            source.events(1)
            server.stop()
            assert source.events() == []


def test_a_stream_gives_the_last_events_of_a_flow_that_ends_while_it_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with redrive.open("memory://", worker=False) as app:
            handle = await app.start(shop.pay(cents=1, failures=0))
            read, working = app.store.read_events_after, list[asyncio.Task[None]]()

            async def read_and_let_it_end(flow_id: str, after: int, limit: int) -> list[EventRow]:
                rows = await read(flow_id, after, limit)
                if not working:
                    working.append(asyncio.create_task(app.work()))
                    await handle.result(timeout=10)
                return rows

            monkeypatch.setattr(app.store, "read_events_after", read_and_let_it_end)
            streams = EventStreams(
                ServerSettings(), StreamPlaces(ServerSettings()), ApiKeys(app.store, 1.0).still_valid
            )
            pieces = [piece async for piece in await streams.begin(app, handle.id, (0, 0), Caller("read"))]
            app.stop()
            await working[0]
            assert sum(piece.startswith(b"id: ") for piece in pieces) == len(await app.log(handle.id))
            assert pieces[-1].startswith(b"event: end")

    asyncio.run(asyncio.wait_for(scenario(), 30))
