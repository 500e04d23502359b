"""Live views: whole snapshots of a list, whenever it changes, shared between streams and bounded."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.server import shop
from tests.server.serving import NO_FLOW, Serving, problem, serving

from redrive.errors import FlowCancelledError, StoreUnavailableError

STREAM = {"Accept": "text/event-stream"}
QUICK: dict[str, Any] = {"live_spacing": 0.01, "live_interval": 0.05}


@pytest.fixture
def server() -> Iterator[Serving]:
    with serving(worker=False, **QUICK) as server:
        yield server


class Stream:
    """The blocks of an event stream, one after the other."""

    def __init__(self, answer: httpx.Response) -> None:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
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

    def next(self, event: str = "snapshot") -> dict[str, str]:
        return next(block for block in self.blocks if block.get("event") == event)

    def snapshot(self) -> Any:
        return json.loads(self.next()["data"])


def start(server: Serving) -> str:
    return server.ask(lambda app: app.start(shop.pay(cents=1))).id


LISTS = ["/v1/flows", "/v1/dead-letters", "/v1/retries", "/v1/queues", "/v1/workers", "/v1/schedules", "/v1/batches"]
SUMMARIES = [
    "/v1/overview",
    "/v1/activity",
    "/v1/dead-letters/groups",
    "/v1/dependencies",
    "/v1/definitions",
]


@pytest.mark.parametrize("path", LISTS)
def test_each_list_is_streamed_as_it_is_answered(server: Serving, path: str) -> None:
    start(server)
    with server.client.stream("GET", path, headers=STREAM) as answer:
        assert Stream(answer).snapshot() == server.client.get(path).json()


@pytest.mark.parametrize("path", SUMMARIES)
def test_what_shows_all_flows_together_is_streamed_too(server: Serving, path: str) -> None:
    start(server)
    with server.client.stream("GET", path, headers=STREAM) as answer:
        assert Stream(answer).snapshot().keys() == server.client.get(path).json().keys()


def test_an_explanation_is_streamed(server: Serving) -> None:
    flow = start(server)
    with server.client.stream("GET", f"/v1/flows/{flow}/explain", headers=STREAM) as answer:
        stream = Stream(answer)
        assert stream.snapshot()["status"] == "ready"
        server.ask(lambda app: app.handle(flow).cancel(why="a test"))
        server.ask(_work(flow))
        found = stream.snapshot()
        while found["status"] != "cancelled":
            found = stream.snapshot()


def _work(flow: str) -> Any:
    async def work(app: Any) -> None:
        working = asyncio.create_task(app.work())
        with contextlib.suppress(FlowCancelledError):
            await app.handle(flow).result(timeout=10)
        app.stop()
        await working

    return work


def test_a_change_is_sent_and_no_change_is_not(server: Serving) -> None:
    with server.client.stream("GET", "/v1/flows?limit=5", headers=STREAM) as answer:
        stream = Stream(answer)
        assert stream.snapshot()["flows"] == []
        first = start(server)
        assert [one["id"] for one in stream.snapshot()["flows"]] == [first]
        second = start(server)
        # Had anything been sent in between, it would come before this.
        assert [one["id"] for one in stream.snapshot()["flows"]] == [second, first]


def test_the_time_alone_is_no_change() -> None:
    with serving(worker=False, heartbeat=0.5, **QUICK) as server:
        flow = start(server)
        path = f"/v1/flows/{flow}/explain"
        with server.client.stream("GET", path, headers=STREAM) as answer:
            stream = Stream(answer)
            first = stream.snapshot()
            # Looked at ten times in between, and each time another moment is shown.
            assert next(stream.blocks) == {"comment": "heartbeat"}
            assert server.client.get(path).json()["explained_at"] != first["explained_at"]
            server.ask(lambda app: app.handle(flow).pause(why="a test"))
            assert stream.snapshot()["waits_for"] != first["waits_for"]


def test_a_stream_that_broke_off_goes_on_with_the_next_change(server: Serving) -> None:
    first = start(server)
    with server.client.stream("GET", "/v1/flows", headers=STREAM) as answer:
        seen = Stream(answer).next()
    asked = {**STREAM, "Last-Event-ID": seen["id"]}
    with server.client.stream("GET", "/v1/flows", headers=asked) as answer:
        stream = Stream(answer)
        second = start(server)
        assert [one["id"] for one in stream.snapshot()["flows"]] == [second, first]
    # What changed while nothing was connected comes at once.
    with server.client.stream("GET", "/v1/flows", headers=asked) as answer:
        assert [one["id"] for one in Stream(answer).snapshot()["flows"]] == [second, first]


def test_the_filters_of_the_query_apply_and_wrong_ones_are_refused(server: Serving) -> None:
    start(server)
    with server.client.stream("GET", "/v1/flows?status=failed", headers=STREAM) as answer:
        assert Stream(answer).snapshot()["flows"] == []
    problem(server.client.get("/v1/flows?colour=red", headers=STREAM), 400)
    problem(server.client.get(f"/v1/flows/{NO_FLOW}/explain", headers=STREAM), 404)
    assert server.ask(_views_of(server)) == 0


def _views_of(server: Serving) -> Any:
    async def views(app: Any) -> int:
        return len(server.api.context.live_views)

    return views


def test_streams_with_the_same_rights_share_one_look_at_the_store() -> None:
    with serving(worker=False, live_spacing=0.01, live_interval=60.0) as server:
        looks = 0
        real = server.app.store.list_queues

        async def counted(*given: Any) -> Any:
            nonlocal looks
            looks += 1
            return await real(*given)

        server.app.store.list_queues = counted  # type: ignore[method-assign, assignment]  # counts the looks
        with contextlib.ExitStack() as stack:

            def stream(path: str) -> Stream:
                return Stream(stack.enter_context(server.client.stream("GET", path, headers=STREAM)))

            # Kept: a stream that nobody holds is closed.
            streams = [stream("/v1/queues") for _ in range(8)]
            assert all(one.snapshot() for one in streams)
            assert looks == 1
            assert server.ask(_views_of(server)) == 1
            # Another query is another view.
            streams.append(stream("/v1/flows?limit=1"))
            assert server.ask(_views_of(server)) == 2
        server.until(lambda: server.ask(_views_of(server)), lambda views: views == 0)


def test_the_store_is_looked_at_as_soon_as_it_reports_a_change() -> None:
    with (
        serving(worker=False, live_spacing=0.01, live_interval=60.0) as server,
        server.client.stream("GET", "/v1/flows", headers=STREAM) as answer,
    ):
        stream = Stream(answer)
        stream.snapshot()
        flow = start(server)
        assert [one["id"] for one in stream.snapshot()["flows"]] == [flow]


def test_each_caller_sees_what_their_key_allows(server: Serving) -> None:
    one = {**STREAM, "Authorization": f"Bearer {server.key('read')}"}
    two = {**STREAM, "Authorization": f"Bearer {server.key('read', queues=('mail',))}"}
    start(server)
    with (
        server.client.stream("GET", "/v1/flows", headers=one) as all_of_them,
        server.client.stream("GET", "/v1/flows", headers=two) as mail_only,
    ):
        assert len(Stream(all_of_them).snapshot()["flows"]) == 1
        assert Stream(mail_only).snapshot()["flows"] == []
    refused = server.client.get("/v1/workers", headers=two)
    problem(refused, 403)


def test_a_revoked_key_ends_its_live_views(server: Serving) -> None:
    key = server.key("read")
    asked = {**STREAM, "Authorization": f"Bearer {key}"}
    with server.client.stream("GET", "/v1/queues", headers=asked) as answer:
        lines = answer.iter_lines()
        assert next(lines)
        assert server.ask(lambda app: app.store.drop_key(key.split("_")[1]))
        # Else it would go on for ever.
        assert [*lines]


def test_while_the_store_is_away_the_streams_say_so_and_then_go_on(server: Serving) -> None:
    real = server.app.store.list_queues

    async def away(*given: Any) -> Any:
        raise StoreUnavailableError("gone fishing")

    with server.client.stream("GET", "/v1/queues", headers=STREAM) as answer:
        stream = Stream(answer)
        before = stream.snapshot()
        server.app.store.list_queues = away  # type: ignore[method-assign, assignment]  # fails
        said = json.loads(stream.next("problem")["data"])
        assert said["status"] == 503
        server.app.store.list_queues = real  # type: ignore[method-assign]  # works again
        assert stream.snapshot() == before


def test_what_can_no_longer_be_read_ends_the_stream(server: Serving) -> None:
    async def broken(*given: Any) -> Any:
        raise RuntimeError("out of order")

    with server.client.stream("GET", "/v1/queues", headers=STREAM) as answer:
        stream = Stream(answer)
        stream.snapshot()
        server.app.store.list_queues = broken  # type: ignore[method-assign, assignment]  # fails
        assert [*stream.blocks] == []


def test_live_views_count_as_streams() -> None:
    with serving(worker=False, streams_per_caller=1, **QUICK) as server:
        with server.client.stream("GET", "/v1/queues", headers=STREAM) as answer:
            # Kept: a stream that nobody holds is closed.
            stream = Stream(answer)
            stream.snapshot()
            refused = server.client.get("/v1/flows", headers=STREAM)
            assert "1 event streams open" in problem(refused, 503)["detail"]

        def status() -> int:
            with server.client.stream("GET", "/v1/flows", headers=STREAM) as answer:
                return answer.status_code

        server.until(status, lambda code: code == 200)


def test_silence_is_broken_by_heartbeats() -> None:
    with (
        serving(worker=False, heartbeat=0.02, **QUICK) as server,
        server.client.stream("GET", "/v1/queues", headers=STREAM) as answer,
    ):
        stream = Stream(answer)
        stream.snapshot()
        assert next(stream.blocks) == {"comment": "heartbeat"}


def test_live_views_end_when_the_server_stops() -> None:
    with (
        serving(worker=False, **QUICK) as server,
        server.client.stream("GET", "/v1/queues", headers=STREAM) as answer,
    ):
        stream = Stream(answer)
        stream.snapshot()
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert [*stream.blocks] == []
        stopping.join()


def test_a_thousand_flows_arrive_whole() -> None:
    with serving(worker=False, **QUICK) as server:

        async def many(app: Any) -> None:
            await asyncio.gather(*(app.start(shop.pay(cents=1), key="k" * 400 + str(n)) for n in range(1000)))

        server.ask(many)
        with server.client.stream("GET", "/v1/flows?limit=1000", headers=STREAM) as answer:
            assert len(Stream(answer).snapshot()["flows"]) == 1000
