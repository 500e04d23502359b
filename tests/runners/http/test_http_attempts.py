"""What becomes of one attempt, for everything that a handler or the network may do."""

import asyncio
import gzip
import socket
import tracemalloc
from asyncio import selector_events
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest
from tests.http_handlers import BOMB, handlers
from tests.runners.http.step_calls import DELIVERY, attempt_to_make, call, call_with, failure, http_runner, outcome

from redrive import Policy
from redrive.determinism.dice import seeded_dice
from redrive.policies import decide
from redrive.policies.decision import RetryAt
from redrive.policies.history import History
from redrive.runners.attempt import NotCalled
from redrive.runners.http.answers import Accepted
from redrive.runners.http.errors import HttpStepError
from redrive.runners.http.settings import HttpSettings
from redrive.testing import FlakyServer, Reply


@pytest.fixture(scope="module")
def server() -> Iterator[FlakyServer]:
    with handlers() as server:
        yield server


@pytest.mark.promise("A5")
def test_what_a_handler_answers_is_what_the_step_gives(server: FlakyServer) -> None:
    assert outcome(f"{server.url}/ok", {"order_id": "o1"}) == {"echo": {"order_id": "o1"}}


@pytest.mark.promise("A5")
@pytest.mark.parametrize(
    ("answer", "gives"),
    [
        (Reply(body={"success": True, "outputs": {"a": 1}}), {"a": 1}),
        (Reply(body={"success": True, "outputs": None}), None),
        (Reply(body={"success": True, "reservation": "r1", "error": None}), {"reservation": "r1"}),
        (Reply(body={"success": True}), None),
        (Reply(body={"success": "yes"}), {"success": "yes"}),
        (Reply(status=201, body=[1, 2]), [1, 2]),
        (Reply(body="text"), "text"),
        (Reply(status=204, body=b""), None),
        (Reply(status=202, body={"success": True, "outputs": 3}), 3),
        (Reply(body={"accepted": True}), {"accepted": True}),
    ],
    ids=str,
)
def test_outputs_come_plain_or_in_an_envelope(answer: Reply, gives: object) -> None:
    with FlakyServer(then=answer) as server:
        assert outcome(server.url) == gives


@pytest.mark.promise("A2")
@pytest.mark.parametrize("how", ["reset", "close", "garbage", "cut", "cut-chunked"])
def test_an_answer_that_never_came_whole_may_come_next_time(server: FlakyServer, how: str) -> None:
    failed = failure(f"{server.url}/{how}")
    assert failed.category == "transient", failed
    assert not failed.not_sent


@pytest.mark.promise("A2")
def test_an_answer_cut_off_inside_a_packed_body_may_come_whole_next_time() -> None:
    packed = gzip.compress(b'{"outputs": "all of it"}')
    whole = Reply(body=packed, headers={"Content-Encoding": "gzip"})
    half = Reply(body=packed[:-6], headers={"Content-Encoding": "gzip"})
    with FlakyServer(half, whole) as server:
        assert failure(server.url).category == "transient"
        assert outcome(server.url) == {"outputs": "all of it"}


@pytest.mark.promise("A2")
def test_packed_bodies_are_read_as_their_format_has_it() -> None:
    """No body at all is none that was cut off; packed pieces that follow each other are one."""
    pieces = gzip.compress(b'{"outputs":') + gzip.compress(b' "all of it"}')
    replies = [Reply(body=body, headers={"Content-Encoding": "gzip"}) for body in (b"", pieces)]
    with FlakyServer(*replies) as server:
        assert outcome(server.url) is None
        assert outcome(server.url) == {"outputs": "all of it"}


@pytest.mark.promise("A2", "P10")
def test_a_refused_connection_passes_and_certainly_did_nothing() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        failed = failure(f"http://127.0.0.1:{taken.getsockname()[1]}/reserve")
    assert failed.category == "transient"
    assert failed.not_sent


@pytest.mark.promise("A2", "P10")
def test_a_name_that_does_not_resolve_passes_and_certainly_did_nothing() -> None:
    failed = failure("http://no-such-host.invalid/reserve")
    assert (failed.category, failed.not_sent) == ("transient", True)
    assert "resolve" in failed.reason


@pytest.mark.promise("A2")
@pytest.mark.parametrize("how", ["hang", "drip"])
def test_a_handler_that_takes_too_long_is_a_timeout(server: FlakyServer, how: str) -> None:
    failed = failure(f"{server.url}/{how}", attempt=attempt_to_make(timeout=0.2))
    assert (failed.category, failed.kind) == ("transient", "timeout")


@pytest.mark.parametrize("left", [0.0, -3.0])
def test_an_attempt_whose_time_is_up_is_a_timeout(server: FlakyServer, left: float) -> None:
    assert failure(f"{server.url}/hang", attempt=attempt_to_make(timeout=left)).kind == "timeout"


@pytest.mark.promise("A2")
def test_a_step_without_a_timeout_does_not_wait_for_ever(server: FlakyServer) -> None:
    settings = HttpSettings(allow=("127.0.0.1",), answer_timeout=0.2)
    failed = failure(f"{server.url}/hang", settings=settings, attempt=attempt_to_make(timeout=None))
    assert (failed.category, failed.kind) == ("transient", "timeout")


@pytest.mark.promise("A3")
@pytest.mark.parametrize("status", [500, 501, 502, 503, 504, 520, 599])
def test_every_5xx_may_pass(server: FlakyServer, status: int) -> None:
    failed = failure(f"{server.url}/{status}")
    assert (failed.category, failed.status) == ("transient", status)


@pytest.mark.promise("A4")
@pytest.mark.parametrize("status", [200, 202, 400, 429, 500, 503])
def test_success_false_is_permanent_whatever_the_status(server: FlakyServer, status: int) -> None:
    """A step that declares the status transient does not change what the handler says."""
    failed = failure(f"{server.url}/failed?status={status}", statuses={str(status): "transient"})
    assert (failed.category, failed.status, failed.message) == ("permanent", status, "the card was declined")
    assert failed.marked_permanent


@pytest.mark.promise("A6", "P3")
@pytest.mark.parametrize(
    ("status", "category"),
    [(code, "permanent") for code in (400, 401, 403, 404, 409, 410, 422, 499)]
    + [(code, "transient") for code in (408, 425, 429)],
)
def test_a_4xx_stays_but_for_those_that_ask_to_come_again(server: FlakyServer, status: int, category: str) -> None:
    assert failure(f"{server.url}/{status}").category == category


@pytest.mark.promise("A6", "P3")
def test_a_step_says_what_a_status_means_there(server: FlakyServer) -> None:
    declared = {"404": "transient", "500": "permanent", "200": "transient"}
    assert failure(f"{server.url}/404", statuses=declared).category == "transient"
    assert failure(f"{server.url}/500", statuses=declared).category == "permanent"
    assert failure(f"{server.url}/ok", statuses=declared).category == "transient"
    assert failure(f"{server.url}/409", conflict_is_lock=True).category == "transient"


@pytest.mark.promise("P7")
@pytest.mark.parametrize("status", [503, 429])
def test_retry_after_is_obeyed_and_given_up_on_when_it_is_too_long(server: FlakyServer, status: int) -> None:
    failed = failure(f"{server.url}/{status}?after=7")
    assert failed.retry_after == 7.0
    decision = decide(Policy(), History(0.0), failed, 0.0, seeded_dice(1))
    assert isinstance(decision, RetryAt)
    assert decision.when >= 7.0
    late = failure(f"{server.url}/{status}?after=3600")
    assert not isinstance(decide(Policy(), History(0.0), late, 0.0, seeded_dice(1)), RetryAt)


@pytest.mark.promise("P7")
def test_retry_after_may_be_a_date() -> None:
    with FlakyServer(then=Reply(status=503, headers={"Retry-After": formatdate(4102444800, usegmt=True)})) as server:
        waits = failure(server.url).retry_after
    assert waits is not None
    assert waits > 10**8


def test_a_problem_is_told_in_its_own_words(server: FlakyServer) -> None:
    failed = failure(f"{server.url}/problem?status=422")
    assert failed.message == "422 Unprocessable Content: No stock: the north warehouse is empty"
    assert failed.category == "permanent"
    assert failure(f"{server.url}/problem?status=503").category == "transient"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Reply(status=500, body={"error": {"message": "disk full"}}), "500 Internal Server Error: disk full"),
        (Reply(status=500, body={"message": "disk full"}), "500 Internal Server Error: disk full"),
        (
            Reply(status=500, body=b"disk\nfull", headers={"Content-Type": "text/plain"}),
            "500 Internal Server Error: disk\\nfull",
        ),
        (
            Reply(status=500, body=b"<h1>oops</h1>", headers={"Content-Type": "text/html"}),
            "500 Internal Server Error",
        ),
        (Reply(status=500, body=b"x", headers={"Content-Encoding": "br"}), "500 Internal Server Error"),
        (Reply(body={"success": False}), "the handler answered success: false without an error"),
    ],
)
def test_what_an_answer_says_about_its_failure_is_told(answer: Reply, message: str) -> None:
    with FlakyServer(then=answer) as server:
        assert failure(server.url).message == message


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("not-json", 'not JSON; answer with JSON: the outputs, or {"success": true'),
        ("huge", "larger than the 1,000,000 bytes allowed"),
        ("bomb", "larger than the 1,000,000 bytes allowed"),
        ("redirect", "redirects are not followed"),
        ("accept", "declare mode: async"),
    ],
)
def test_an_answer_that_cannot_be_used_is_permanent_and_says_what_to_do(
    server: FlakyServer, path: str, says: str
) -> None:
    settings = HttpSettings(allow=("127.0.0.1",), largest_answer=1_000_000)
    failed = failure(f"{server.url}/{path}", settings=settings)
    assert failed.category == "permanent"
    assert says in failed.message
    assert failed.status is not None


@pytest.mark.parametrize(
    "body",
    [gzip.compress(b" " * BOMB), gzip.compress(b"{}") + bytes(BOMB), gzip.compress(b"") * 150_000],
    ids=["bomb", "more after its end", "nothing, many times"],
)
def test_a_body_that_is_larger_than_it_seems_takes_no_memory(body: bytes) -> None:
    bomb = Reply(body=body, headers={"Content-Encoding": "gzip"})
    with FlakyServer(then=bomb) as server:
        tracemalloc.start()
        try:
            failed = failure(server.url, settings=HttpSettings(allow=("127.0.0.1",), largest_answer=1_000_000))
            assert failed.category == "permanent"
            assert tracemalloc.get_traced_memory()[1] < BOMB / 2
        finally:
            tracemalloc.stop()


def test_an_error_page_that_is_too_large_is_judged_by_its_status() -> None:
    with FlakyServer(then=Reply(status=503, body=b"x" * 5000)) as server:
        failed = failure(server.url, settings=HttpSettings(allow=("127.0.0.1",), largest_answer=1000))
    assert (failed.category, failed.status) == ("transient", 503)


def test_inputs_that_are_too_large_are_not_sent(server: FlakyServer) -> None:
    settings = HttpSettings(allow=("127.0.0.1",), largest_request=100)
    before = len(server.seen)
    failed = failure(f"{server.url}/ok", {"text": "x" * 200}, settings=settings)
    assert (failed.category, len(server.seen)) == ("permanent", before)
    assert "more than the 100 allowed" in failed.message


def test_large_inputs_and_outputs_pass(server: FlakyServer) -> None:
    inputs = {"text": "x" * 3_000_000}
    assert outcome(f"{server.url}/ok", inputs) == {"echo": inputs}


@pytest.mark.promise("A16")
@pytest.mark.parametrize(
    "answer",
    [
        Reply(status=202, body=b""),
        Reply(status=202, body=b"queued"),
        Reply(status=202, body={"job": 3}),
        Reply(status=200, body=b""),
        Reply(status=200, body={"accepted": True}),
    ],
    ids=str,
)
def test_an_asynchronous_step_is_accepted(answer: Reply) -> None:
    with FlakyServer(then=answer) as server:
        assert outcome(server.url, mode="async") == Accepted()


@pytest.mark.promise("A16")
@pytest.mark.parametrize("status", [200, 202])
def test_an_asynchronous_step_may_answer_in_full_at_once(status: int) -> None:
    with FlakyServer(then=Reply(status=status, body={"success": True, "outputs": {"a": 1}})) as server:
        assert outcome(server.url, mode="async") == {"a": 1}


@pytest.mark.promise("A16", "A3")
def test_an_asynchronous_step_that_is_not_accepted_failed(server: FlakyServer) -> None:
    assert failure(f"{server.url}/503", mode="async").category == "transient"
    assert failure(f"{server.url}/failed", mode="async").category == "permanent"


@pytest.mark.promise("P11")
def test_no_secret_and_no_token_comes_back_in_an_error() -> None:
    def echo(seen: object) -> Reply:
        return Reply(status=500, body={"error": f"{DELIVERY} flow-1.7 password=hunter2 at http://u:pw@host/"})

    with FlakyServer(then=echo) as server:
        message = failure(server.url).message
    for secret in (DELIVERY, "flow-1.7", "hunter2", "u:pw"):
        assert secret not in message
    assert "s3cret" not in failure("http://user:s3cret@127.0.0.1:1/").message
    assert "s3cret" not in failure("ftp://user:s3cret@host/").message


def test_a_connection_is_used_again_and_one_that_broke_is_not() -> None:
    async def scenario() -> None:
        with handlers() as server:
            async with http_runner() as runner:
                for _ in range(3):
                    await call_with(runner, f"{server.url}/ok")
                assert server.open_connections == 1
                with pytest.raises(HttpStepError):
                    await call_with(runner, f"{server.url}/cut")
                await call_with(runner, f"{server.url}/ok")

    asyncio.run(scenario())


def test_cancelling_an_attempt_hangs_up() -> None:
    async def until(server: FlakyServer, connections: int) -> None:
        while server.open_connections != connections:  # noqa: ASYNC110 - the server runs in another thread
            await asyncio.sleep(0.005)

    async def scenario() -> None:
        with handlers() as server:
            task = asyncio.create_task(call(f"{server.url}/drip"))
            await until(server, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(server, 0)

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_cookies_of_an_attempt_do_not_come_back_in_the_next() -> None:
    async def scenario() -> None:
        with FlakyServer(then=Reply(headers={"Set-Cookie": "session=1"})) as server:
            # By name: nobody would send back what an address gave.
            named = server.url.replace("127.0.0.1", "localhost")
            async with http_runner(HttpSettings(allow=("localhost",))) as runner:
                await call_with(runner, named)
                await call_with(runner, named)
            assert [seen.headers.get("cookie") for seen in server.seen] == [None, None]

    asyncio.run(scenario())


@pytest.mark.promise("X1")
def test_the_lease_is_checked_in_the_turn_that_writes_the_request(
    server: FlakyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever runs in between may hold the loop until another worker has made the call."""
    order: list[str] = []

    def may_call() -> bool:
        order.append("asked")
        asyncio.get_running_loop().call_soon(order.append, "a turn later")
        return True

    transport: Any = vars(selector_events)["_SelectorSocketTransport"]
    for name in ("write", "writelines"):
        real = getattr(transport, name)

        def noted(self: Any, data: Any, real: Any = real) -> None:
            order.append("written")
            real(self, data)

        monkeypatch.setattr(transport, name, noted)

    async def main() -> None:
        async with http_runner(may_call=may_call) as runner:
            await call_with(runner, f"{server.url}/ok")

    asyncio.run(main())
    asked = order.index("asked")
    assert order[asked + 1] == "written", order


@pytest.mark.promise("X1")
def test_without_a_lease_nothing_is_sent() -> None:
    async def main(url: str) -> None:
        async with http_runner(may_call=lambda: False) as runner:
            with pytest.raises(NotCalled):
                await call_with(runner, url)

    with FlakyServer() as server:
        asyncio.run(main(server.url))
        assert server.seen == []
