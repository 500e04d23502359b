"""Guarded model calls with the real SDKs: retries, fallback to other models, limits, cost and the report."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import anthropic
import openai
import pytest

import redrive
from redrive.errors import LimitReachedError, ModelsFailedError, ResponseFailedError
from redrive.integrations import llm
from redrive.integrations.llm.usage import estimated_tokens
from redrive.resilience import LimitSettings
from redrive.testing import FlakyServer, NoWaits, Reply, virtual_clock

from .model_server import (
    CHAT_END,
    CHAT_START,
    HELLO,
    anthropic_client,
    async_anthropic_client,
    async_openai_client,
    chat,
    chat_texts,
    cut,
    message,
    openai_client,
    refusal,
    streamed,
)

OVERLOADED = refusal(529, "overloaded_error")
QUOTA = refusal(429, "insufficient_quota")
CHEAP, DEAR = llm.Price(input=1.0, output=4.0), llm.Price(input=3.0, output=15.0, cached_input=0.3)


@pytest.fixture
def two() -> Iterator[Callable[..., tuple[llm.Guard, FlakyServer, FlakyServer]]]:
    """A guard over a model of OpenAI and one of Anthropic, each with a server of its own."""
    with ExitStack() as opened:

        def make(first: Any, second: Any = 500, **settings: Any) -> tuple[llm.Guard, FlakyServer, FlakyServer]:
            servers = [opened.enter_context(FlakyServer(then=reply)) for reply in (first, second)]
            guard = llm.Guard(
                llm.Model(opened.enter_context(openai_client(servers[0])), "gpt", price=CHEAP),
                llm.Model(
                    opened.enter_context(anthropic_client(servers[1])),
                    "claude",
                    price=DEAR,
                    arguments={"max_tokens": 50},
                ),
                **settings,
            )
            return guard, servers[0], servers[1]

        yield make


@pytest.mark.promise("L4")
def test_the_retries_of_the_sdk_are_off_and_the_guard_retries_alone() -> None:
    for make, reply in ((openai_client, chat("Hi")), (anthropic_client, message("Hi"))):
        with FlakyServer(500, 503, then=reply) as server, make(server, max_retries=5) as client:
            guard = llm.Guard(llm.Model(client, "m", arguments={"max_tokens": 5}))
            answer = guard.call(messages=HELLO)
            assert (answer.text, len(server.seen)) == ("Hi", 3)
        assert (answer.report.answered_by, answer.report.tried[0].attempts) == ("m", 3)
        with FlakyServer(then=500) as server, make(server, max_retries=5) as client:
            with pytest.raises((openai.InternalServerError, anthropic.InternalServerError)):
                llm.Guard(llm.Model(client, "m", arguments={"max_tokens": 5})).call(messages=HELLO)
            assert len(server.seen) == 3
            assert json.loads(server.seen[0].body)["model"] == "m"


@pytest.mark.promise("L3")
def test_what_the_vendor_says_about_retries_is_obeyed(clock: NoWaits) -> None:
    with (
        FlakyServer(refusal(429, "rate_limit", retry_after_ms="1234"), then=chat("Hi")) as server,
        openai_client(server) as client,
    ):
        llm.Guard(llm.Model(client, "m")).call(messages=HELLO)
        assert len(clock.waits) == 1
        assert 1 < clock.waits[0] <= 1.234
    with FlakyServer(then=refusal(503, x_should_retry="false")) as server, openai_client(server) as client:
        with pytest.raises(openai.InternalServerError):
            llm.Guard(llm.Model(client, "m")).call(messages=HELLO)
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("first", "requests"),
    [(OVERLOADED, 3), (500, 3), (Reply(fault="reset"), 3), (QUOTA, 1), (refusal(503, x_should_retry="false"), 1)],
    ids=["overloaded", "down", "reset", "out of credit", "not to be retried there"],
)
def test_another_model_is_asked_where_it_may_do_better(two: Any, first: Any, requests: int) -> None:
    guard, gpt, claude = two(first, message("Hi"))
    answer = guard.call(messages=HELLO)
    assert (answer.text, len(gpt.seen), len(claude.seen)) == ("Hi", requests, 1)
    report = answer.report
    assert [one.outcome for one in report.tried] == ["failed", "answered"]
    assert (report.answered_by, report.retry_in, report.advice) == ("claude", None, "")
    assert (report.input_tokens, report.output_tokens) == (2500, 200)
    assert report.cost == pytest.approx((2000 * 3 + 500 * 0.3 + 200 * 15) / 1e6)


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_request_that_is_refused_goes_nowhere_else_unless_asked(two: Any, status: int) -> None:
    guard, gpt, claude = two(refusal(status), message("Hi"))
    with pytest.raises(openai.APIStatusError) as caught:
        guard.call(messages=HELLO)
    assert (len(gpt.seen), len(claude.seen)) == (1, 0)
    report = llm.report_of(caught.value)
    assert report is not None
    assert (report.retry_in, "change it" in report.advice) == (None, True)
    guard, gpt, claude = two(refusal(status), message("Hi"), fall_back_on=(status,))
    assert guard.call(messages=HELLO).text == "Hi"


def test_when_all_models_fail_the_report_says_what_to_do(two: Any) -> None:
    guard, _gpt, _claude = two(refusal(529, retry_after="120"), refusal(429, retry_after="90"))
    with pytest.raises(ModelsFailedError, match="no model answered") as caught:
        guard.call(messages=HELLO)
    error = caught.value
    assert [type(one).__name__ for one in error.errors] == ["InternalServerError", "RateLimitError"]
    report = llm.report_of(error)
    assert report is not None
    assert (report.retry_in, report.advice) == (90, "ask again in 90 s")
    data = report.as_data()
    assert json.loads(json.dumps(data)) == data
    assert [one["model"] for one in data["tried"]] == ["gpt", "claude"]
    assert data["tried"][0]["failures"][0]["status"] == 529
    text = str(report)
    assert text.startswith("no answer from gpt, claude in ")
    assert "next: ask again in 90 s" in text
    assert "sk-none" not in text + json.dumps(data)


def test_an_outer_guard_retries_the_whole_chain_and_owns_the_retries(two: Any) -> None:
    guard, gpt, claude = two(OVERLOADED, 503)

    @redrive.retry(attempts=2)
    def ask() -> str:
        return str(guard.call(messages=HELLO).text)

    with pytest.raises(ModelsFailedError):
        ask()
    assert (len(gpt.seen), len(claude.seen)) == (2, 2)


@pytest.mark.parametrize("make", [async_openai_client, async_anthropic_client])
def test_async_clients(make: Any) -> None:
    reply = chat("Hi") if make is async_openai_client else message("Hi")

    async def main(server: FlakyServer) -> llm.Answer:
        async with make(server) as client:
            return await llm.Guard(llm.Model(client, "m", arguments={"max_tokens": 5})).acall(messages=HELLO)

    with FlakyServer(503, then=reply) as server:
        assert asyncio.run(main(server)).text == "Hi"
        assert len(server.seen) == 2


def test_a_stream_goes_to_another_model_before_its_first_output_only() -> None:
    whole = streamed(CHAT_START, chat_texts("Hel", "lo"), CHAT_END)
    with FlakyServer(then=whole) as server, openai_client(server) as client:
        with FlakyServer(then=OVERLOADED) as down, openai_client(down) as first:
            stream = llm.Guard(llm.Model(first, "a"), llm.Model(client, "b")).stream(messages=HELLO)
            assert "".join(llm.text_of(chunk) for chunk in stream) == "Hello"
        assert stream.report is not None
        assert (stream.report.answered_by, stream.report.tried[0].attempts) == ("b", 3)
        assert stream.report.tried[1].estimated
        with FlakyServer(then=cut(CHAT_START, chat_texts("Hel"))) as broken, openai_client(broken) as first:
            guard = llm.Guard(llm.Model(first, "a"), llm.Model(client, "b"))
            with pytest.raises(redrive.errors.StreamBrokenError):
                list(guard.stream(messages=HELLO))
        assert len(server.seen) == 1


def test_a_response_that_says_it_failed_is_no_answer() -> None:
    failed = {"id": "r", "object": "response", "status": "failed", "error": {"code": "server_error", "message": "x"}}
    output = [{"type": "message", "id": "i", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}]
    done = {"id": "r", "object": "response", "status": "completed", "output": output}
    with FlakyServer(Reply(body=failed), then=Reply(body=done)) as server, openai_client(server) as client:
        answer = llm.Guard(llm.Model(client, "m", method="responses.create")).call(input="Hello")
    assert (answer.text, answer.report.tried[0].attempts) == ("Hi", 2)
    assert answer.report.tried[0].failures[0].error.startswith("redrive.errors.ResponseFailedError: server_error")


class TestLimits:
    """With functions instead of clients, so that a virtual clock can tell the time."""

    def test_tokens_are_counted_as_estimated_and_then_as_used(self) -> None:
        def ask(**_arguments: Any) -> dict[str, Any]:
            return {"content": "Hi", "usage": {"input_tokens": 40, "output_tokens": 10}}

        model = llm.Model(ask, "m", limits=LimitSettings(tokens_per_minute=150))
        guard = llm.Guard(model, deadline=100)
        with virtual_clock() as clock:
            began = []
            for _ in range(4):
                # Estimated at 100, used 50: two fit, and one more has to wait until the first has left.
                guard.call(messages=[{"role": "user", "content": "x" * 188}], max_tokens=50)
                began.append(clock.now)
        assert began == [0, 0, 61, 61]

    def test_a_day_that_is_paid_up_leads_to_the_next_model(self) -> None:
        def ask(**_arguments: Any) -> dict[str, Any]:
            return {"content": "dear", "usage": {"input_tokens": 1_000_000, "output_tokens": 0}}

        dear = llm.Model(ask, "dear", price=llm.Price(input=5, output=5), limits=LimitSettings(cost_per_day=10.0))
        guard = llm.Guard(dear, llm.Model(lambda messages: "cheap", "cheap"))
        with virtual_clock() as clock:
            assert [guard.call(messages=[]).text for _ in range(2)] == ["dear", "dear"]
            answer = guard.call(messages=["x" * 400])
            assert (answer.text, clock.now) == ("cheap", 0)
            first = answer.report.tried[0]
            assert (first.outcome, first.attempts) == ("not called", 0)
            assert first.retry_in is not None
            assert first.retry_in > 86_000
            assert "10 of cost per day" in first.why

    def test_a_request_larger_than_the_limit_is_refused_at_once(self) -> None:
        guard = llm.Guard(llm.Model(lambda **_: "never", "m", limits=LimitSettings(tokens_per_minute=10)))
        with virtual_clock(), pytest.raises(LimitReachedError, match="larger than that"):
            guard.call(messages=HELLO, max_tokens=1000)

    def test_a_failed_request_gives_its_tokens_back(self) -> None:
        replies: list[Any] = [openai_error(529), "Hi"]

        def ask(**_arguments: Any) -> Any:
            reply = replies.pop(0)
            if isinstance(reply, Exception):
                raise reply
            return reply

        guard = llm.Guard(llm.Model(ask, "m", limits=LimitSettings(tokens_per_minute=100)), jitter="none")
        with virtual_clock() as clock:
            assert guard.call(messages=[], max_tokens=90).text == "Hi"
            assert clock.now == 0.5

    def test_other_limits_for_the_same_model_are_not_replaced_in_silence(self) -> None:
        few, many = LimitSettings(requests_per_minute=1), LimitSettings(requests_per_minute=5)
        first = llm.Guard(llm.Model(_sync, "m", limits=few))
        with virtual_clock() as clock:
            first.call()
            # The same limits again: what was used of them still counts.
            llm.Guard(llm.Model(_sync, "m", limits=few)).call()
            assert clock.now > 60
        with pytest.warns(RuntimeWarning, match="1 request per minute.* is replaced by .*5 requests per minute"):
            llm.Model(_sync, "m", limits=many)


def openai_error(status: int) -> Exception:
    import httpx2

    response = httpx2.Response(status, request=httpx2.Request("POST", "http://model.invalid"))
    return openai.APIStatusError("no", response=response, body=None)


def test_functions_of_every_kind() -> None:
    def plain(question: str) -> str:
        return question.upper()

    async def coroutine(question: str) -> str:
        return question.upper()

    def chunks(question: str) -> Iterator[str]:
        yield from question

    async def async_chunks(question: str) -> AsyncIterator[str]:
        for letter in question:
            yield letter

    async def main() -> None:
        assert (await llm.Guard(llm.Model(coroutine, "m")).acall(question="hi")).text == "HI"
        assert [part async for part in llm.Guard(llm.Model(async_chunks, "m")).astream(question="hi")] == ["h", "i"]

    assert llm.Guard(llm.Model(plain, "m")).call(question="hi").text == "HI"
    assert list(llm.Guard(llm.Model(chunks, "m")).stream(question="hi")) == ["h", "i"]
    asyncio.run(main())


def test_an_estimate_does_not_count_what_is_in_a_picture() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000_000}}
    arguments = {"messages": [{"role": "user", "content": [picture, {"type": "text", "text": "x" * 400}]}]}
    tokens = estimated_tokens({**arguments, "max_completion_tokens": 70})
    assert (1100 < tokens.input < 1200, tokens.output) == (True, 70)


def _sync(**_: Any) -> str:
    return ""


async def _async(**_: Any) -> str:
    return ""


def _openai_guard() -> llm.Guard:
    return llm.Guard(llm.Model(openai.OpenAI(api_key="k"), "m"))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: llm.Guard(), "at least one model"),
        (lambda: llm.Guard(_sync), "is not a Model"),  # type: ignore[arg-type]
        (lambda: llm.Model("gpt-5", "x"), "give the client first"),
        (lambda: llm.Model(_sync, ""), "is not a name"),
        (lambda: llm.Model(3, "m"), 'method="responses.create"'),
        (lambda: llm.Model(openai.OpenAI(api_key="k"), "m", method="chat.compl"), "has no 'chat.compl'"),
        (lambda: llm.Model(_sync, "m", price=3), "price: int is not allowed"),  # type: ignore[arg-type]
        (lambda: llm.Price(input=-1, output=1), "price of input"),
        (lambda: llm.Guard(llm.Model(_sync, "a"), llm.Model(_async, "b")), "all be async or all be sync"),
        (lambda: llm.Guard(llm.Model(_async, "a")).call(), r"use guard\.acall"),
        (lambda: llm.Guard(llm.Model(_sync, "a")).astream(), r"use guard\.stream"),
        (lambda: _openai_guard().call(model="x"), "name the model"),
        (lambda: _openai_guard().call(stream=True), r"use guard\.stream\(\.\.\.\)"),
        (lambda: llm.Model("gpt-5"), r"Model\(client, 'gpt-5'\)"),  # type: ignore[call-arg]
        (lambda: llm.Price(1.25), r"Price\(input=1\.25, output=10\.0\)"),  # type: ignore[call-arg]
        (lambda: llm.Model(_sync, "m", estimate=5), "estimate: 5 is not allowed"),  # type: ignore[arg-type]
        (lambda: llm.Guard(llm.Model(_sync, "m", estimate=len)).call(), "estimate: returned int"),  # type: ignore[arg-type]
        (lambda: llm.Model(_sync, "m", limits=LimitSettings(cost_per_day=1)), r"add price=Price\(input"),
        (lambda: llm.Guard(llm.Model(_sync, "m"), attemps=3), "did you mean 'attempts'"),  # type: ignore[call-arg]
    ],
)
def test_wrong_use_is_refused_with_what_to_write(wrong: Callable[[], Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        wrong()


def test_a_failure_inside_a_200_keeps_its_words() -> None:
    error = ResponseFailedError("busy", "server_error")
    assert (str(error), error.code) == ("server_error: busy", "server_error")
