"""Python functions served as HTTP steps, called by the real runner."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import aiohttp
import msgspec
import pytest
from tests.runners.http.step_calls import DELIVERY, attempt_to_make, call_with, http_runner

import redrive
from redrive import Policy
from redrive.client.reported_outcomes import read_outcome
from redrive.failures import Failure
from redrive.handlers import report_outcome
from redrive.runners.http.errors import HttpStepError
from redrive.runners.http.http_runner import HttpRunner
from redrive.runners.http.settings import HttpSettings
from redrive.testing import FlakyServer, Reply, no_waits


class Line(msgspec.Struct):
    product: str
    count: int = 1


class Declined(redrive.Permanent):
    pass


class Odd(Exception):
    pass


async def reserve(order_id: str, line: Line) -> dict[str, str]:
    return {"reservation": f"{order_id}/{line.product}*{line.count}"}


def in_thread(order_id: str) -> str:
    import threading

    assert threading.current_thread() is not threading.main_thread()
    return order_id.upper()


@redrive.action(name="served.pid", process=True)
def pid() -> int:
    return os.getpid()


async def fails(how: str) -> None:
    raise {
        "permanent": Declined("no money; password=hunter2"),
        "transient": ConnectionError("the database is away"),
        "unknown": Odd("never seen before"),
        "retry after": redrive.RetryAfter(1.2, "busy"),
        "snooze": redrive.Snooze("5s"),
    }[how]


async def unstorable() -> object:
    return object()


async def unstored(x: UUID | str) -> None: ...


def served(
    *steps: Callable[..., Any],
    scenario: Callable[[HttpRunner, str], Awaitable[Any]],
    settings: dict[str, Any] | None = None,
) -> Any:
    async def run() -> Any:
        async with (
            redrive.handlers.StepServer(*steps) as server,
            http_runner(HttpSettings(allow=("127.0.0.1",), **(settings or {}))) as runner,
        ):
            return await scenario(runner, server.url)

    return asyncio.run(run())


def outcome(step: Callable[..., Any], inputs: Any = None, **options: Any) -> Any:
    name = step.name if isinstance(step, redrive.Action) else step.__name__
    return served(step, scenario=lambda runner, url: call_with(runner, f"{url}/{name}", inputs, **options))


def failure(step: Callable[..., Any], inputs: Any = None, **options: Any) -> Failure:
    with pytest.raises(HttpStepError) as raised:
        outcome(step, inputs, **options)
    return raised.value.failure


def test_inputs_become_arguments_by_their_type_hints_and_the_result_the_outputs() -> None:
    inputs = {"order_id": "o1", "line": {"product": "book", "count": 2}}
    assert outcome(reserve, inputs) == {"reservation": "o1/book*2"}


def test_plain_functions_run_in_threads_and_actions_where_they_always_do() -> None:
    assert outcome(in_thread, {"order_id": "o1"}) == "O1"
    assert outcome(pid) != os.getpid()


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"line": {"product": "book"}}, "lacks order_id"),
        ({"order_id": "o1", "line": {"count": 1}}, "missing required field `product` - at `$.line`"),
        ({"order_id": 3, "line": {"product": "b"}}, "Expected `str`, got `int` - at `$.order_id`"),
        ({"order_idd": "o1", "line": {"product": "b"}}, "did you mean 'order_id'?"),
        ([1], "not a JSON object"),
    ],
)
def test_inputs_that_do_not_fit_fail_for_good_and_name_the_field(inputs: Any, says: str) -> None:
    failed = failure(reserve, inputs)
    assert (failed.category, failed.status) == ("permanent", 400)
    assert says in failed.message


def test_type_hints_that_cannot_be_stored_are_no_fault_that_passes() -> None:
    failed = failure(unstored, {"x": "a"})
    assert (failed.category, failed.status) == ("permanent", 422)
    assert (
        "TypeHintError: action unstored: argument x: the type hint uuid.UUID | str cannot be stored" in failed.message
    )


@pytest.mark.parametrize(
    ("how", "category", "status", "waits"),
    [
        ("permanent", "permanent", 422, None),
        ("transient", "transient", 503, None),
        ("unknown", "transient", 500, None),
        ("retry after", "transient", 503, 2.0),
        ("snooze", "transient", 503, 5.0),
    ],
)
def test_an_exception_means_on_the_other_side_what_it_means_here(
    how: str, category: str, status: int, waits: float | None
) -> None:
    """But one that nobody knows is a failure of the server, and those are tried again."""
    failed = failure(fails, {"how": how})
    assert (failed.category, failed.status, failed.retry_after) == (category, status, waits)


@pytest.mark.promise("P11")
def test_the_error_is_told_without_its_secrets() -> None:
    message = failure(fails, {"how": "permanent"}).message
    assert "Declined: no money" in message
    assert "hunter2" not in message
    assert "Odd: never seen before" in failure(fails, {"how": "unknown"}).message


def test_a_result_that_is_no_json_fails_for_good() -> None:
    assert failure(unstorable).category == "permanent"


@pytest.mark.promise("A12")
def test_a_function_sees_its_attempt() -> None:
    seen: list[Any] = []

    async def look() -> None:
        attempt = redrive.current_attempt()
        assert attempt.deadline is not None
        attempt.heartbeat({"ignored": True})
        seen.append((attempt.flow_id, attempt.number, attempt.receipt_token, attempt.delivery_token))
        seen.append(0 < (redrive.time_left() or 0) <= 20)

    outcome(look, attempt=attempt_to_make(3))
    assert seen == [("flow-1", 3, "flow-1.7", DELIVERY), True]


@pytest.mark.promise("P16")
@pytest.mark.parametrize(("attempts", "calls"), [(3, 1), (1, 4)])
def test_guarded_calls_inside_are_made_once_when_the_engine_owns_the_retries(attempts: int, calls: int) -> None:
    made = 0

    @redrive.retry(attempts=4, backoff=0, jitter="none", floor=0)
    async def flaky() -> None:
        nonlocal made
        made += 1
        raise ConnectionError("down")

    async def nested() -> None:
        await flaky()

    assert failure(nested, attempt=attempt_to_make(policy=Policy(attempts=attempts))).category == "transient"
    assert made == calls


def test_work_is_cut_when_the_attempt_is_over() -> None:
    cut = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()

    async def scenario(runner: HttpRunner, url: str) -> None:
        # Whoever sent the deadline is patient, so that the answer is seen.
        headers = {"Redrive-Deadline": "0.05"}
        async with aiohttp.ClientSession() as session, session.post(f"{url}/slow", json={}, headers=headers) as answer:
            assert answer.status == 503
            assert cut.is_set()

    served(slow, scenario=scenario)


def test_a_request_of_anyone_is_a_first_attempt_of_its_own() -> None:
    receipts: list[str] = []

    async def look() -> None:
        receipts.append(redrive.current_attempt().receipt_token)
        assert redrive.current_attempt().number == 1

    async def scenario(runner: HttpRunner, url: str) -> None:
        odd = {"Redrive-Receipt-Token": "no-number", "Redrive-Attempt": "x", "Redrive-Deadline": "-1"}
        async with aiohttp.ClientSession() as session:
            for headers in ({}, odd):
                async with session.post(f"{url}/look", json={}, headers=headers) as answer:
                    assert answer.status == 200
            async with session.get(url) as answer:
                assert await answer.json() == {"steps": ["look"]}
            async with session.post(f"{url}/other", json={}) as answer:
                assert (answer.status, answer.content_type) == (404, "application/problem+json")
            async with session.post(f"{url}/look", data=b"x" * 9_000_000, skip_auto_headers=["Expect"]) as answer:
                assert answer.status == 413

    with pytest.warns(ResourceWarning, match="large body"):
        served(look, scenario=scenario)
    assert len(set(receipts)) == 2


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "own"])
def test_a_page_in_a_browser_on_the_same_machine_cannot_have_work_done(origin: str) -> None:
    done: list[str] = []

    async def pay(to: str) -> None:
        done.append(to)

    async def main() -> None:
        async with redrive.handlers.StepServer(pay) as server, aiohttp.ClientSession() as session:
            # What a page may send to any address without being asked first.
            headers = {"Content-Type": "text/plain", "Origin": server.url if origin == "own" else origin}
            async with session.post(f"{server.url}/pay", data='{"to": "eve"}', headers=headers) as answer:
                assert answer.status == 403
                assert (await answer.json(content_type=None))["title"] == "browsers are refused"

    asyncio.run(main())
    assert not done


def test_a_client_that_goes_away_within_its_body_is_no_fault_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(runner: HttpRunner, url: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"POST /reserve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()

    served(reserve, scenario=scenario)
    assert caplog.records == []


def test_a_body_that_cannot_be_unpacked_is_the_fault_of_who_sent_it() -> None:
    async def scenario(runner: HttpRunner, url: str) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/reserve", data=b"{}", headers={"Content-Encoding": "gzip"}) as answer,
        ):
            assert (answer.status, answer.content_type) == (400, "application/problem+json")

    served(reserve, scenario=scenario)


@pytest.mark.promise("A16")
def test_work_is_accepted_now_and_completed_later() -> None:
    later: list[asyncio.Task[None]] = []

    async def pack(order_id: str) -> redrive.handlers.Accepted:
        url = redrive.handlers.callback_url()
        later.append(asyncio.ensure_future(report_outcome(url, {"parcel": order_id})))
        return redrive.handlers.Accepted()

    with FlakyServer(Reply(status=503), then=Reply(status=200)) as engine, no_waits():

        async def scenario(runner: HttpRunner, url: str) -> Any:
            answer = await call_with(runner, f"{url}/pack", {"order_id": "o1"}, mode="async")
            await later[0]
            return answer

        answer = served(pack, scenario=scenario, settings={"callback_base": engine.url})
    assert answer == redrive.handlers.Accepted()
    assert [seen.path for seen in engine.seen] == [f"/v1/completions/flow-1.7.{DELIVERY}"] * 2
    assert msgspec.json.decode(engine.seen[1].body) == {"success": True, "outputs": {"parcel": "o1"}}


@pytest.mark.promise("A16")
def test_an_outcome_that_comes_too_late_is_refused() -> None:
    with FlakyServer(then=Reply(status=409)) as engine:
        with pytest.raises(redrive.errors.OutcomeRefusedError, match="another attempt"):
            asyncio.run(report_outcome(f"{engine.url}/v1/completions/x", error="no paper left"))
        assert msgspec.json.decode(engine.seen[0].body) == {"success": False, "error": "no paper left"}


@pytest.mark.promise("A16")
@pytest.mark.parametrize(("retry", "category"), [(False, "permanent"), (True, "transient")])
def test_a_failure_that_is_reported_later_means_what_it_says(retry: bool, category: str) -> None:
    """The engine reads it with the rules for answers."""
    with FlakyServer() as engine:
        asyncio.run(report_outcome(engine.url, error="no paper left", retry=retry))
    told = engine.seen[0]
    _, failed = read_outcome(told.body, told.headers["content-type"], 0.0)
    assert failed is not None
    assert failed.category == category
    assert "no paper left" in failed.message


def test_a_step_that_is_not_asynchronous_has_no_callback() -> None:
    async def look() -> None:
        with pytest.raises(RuntimeError, match=r"mode: async, and give .* --callback-base URL"):
            redrive.handlers.callback_url()

    outcome(look)
    with pytest.raises(RuntimeError, match="in a step served with serve_steps"):
        redrive.handlers.callback_url()


def test_what_cannot_be_served_is_refused() -> None:
    with pytest.raises(ValueError, match="each name once"):
        redrive.handlers.StepServer()
    with pytest.raises(ValueError, match="each name once"):
        redrive.handlers.StepServer(reserve, reserve)
    with pytest.raises(TypeError, match="takes functions"):
        redrive.handlers.StepServer(Line)
