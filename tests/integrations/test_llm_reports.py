"""What the report of a model call says about tokens, cost and the next step."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

import redrive
from redrive.errors import LimitReachedError, ModelsFailedError, StreamBrokenError
from redrive.integrations import llm
from redrive.resilience import LimitSettings
from redrive.testing import FlakyServer, virtual_clock

from .model_server import (
    CHAT_END,
    CHAT_START,
    HELLO,
    anthropic_client,
    chat,
    chat_chunk,
    chat_texts,
    cut,
    message,
    openai_client,
    refusal,
    streamed,
)

PRICE = llm.Price(input=1.0, output=2.0)


def report_of(error: BaseException) -> llm.ModelReport:
    report = llm.report_of(error)
    assert report is not None
    return report


def test_tokens_that_a_stream_does_not_report_are_estimated_from_what_it_wrote() -> None:
    whole = streamed(CHAT_START, chat_texts("Once"), CHAT_END)
    with FlakyServer(then=whole) as server, openai_client(server) as client:
        stream = llm.Guard(llm.Model(client, "m", price=PRICE)).stream(messages=HELLO, max_tokens=1000)
        assert "".join(llm.text_of(chunk) for chunk in stream) == "Once"
    report = stream.report
    assert report is not None
    assert (report.output_tokens, report.estimated, report.as_data()["estimated"]) == (1, True, True)
    assert "; about 5 tokens in, 1 out, cost about 0.000007 (estimated)" in str(report)


def test_a_stream_that_broke_cost_what_it_wrote() -> None:
    broken = cut(CHAT_START, chat_texts("Once upon"))
    with (
        FlakyServer(then=broken) as server,
        openai_client(server) as client,
        pytest.raises(StreamBrokenError) as caught,
    ):
        list(llm.Guard(llm.Model(client, "m", price=PRICE)).stream(messages=HELLO, max_tokens=1000))
    assert report_of(caught.value).output_tokens == 3


def test_the_arguments_of_a_tool_call_are_written_too() -> None:
    call = {"index": 0, "id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
    with (
        FlakyServer(then=streamed(CHAT_START, chat_chunk({"tool_calls": [call]}), CHAT_END)) as server,
        openai_client(server) as client,
    ):
        stream = llm.Guard(llm.Model(client, "m")).stream(messages=HELLO, max_tokens=1000)
        list(stream)
    assert stream.report is not None
    assert stream.report.output_tokens == 4


@pytest.mark.parametrize(
    ("chunk", "tokens"),
    [
        ({"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "x" * 40}}, 10),
        ({"type": "response.function_call_arguments.delta", "delta": "x" * 40}, 10),
        ({"content": "x" * 40}, 10),
        ("x" * 40, 10),
    ],
)
def test_what_was_written_is_found_in_every_shape(chunk: Any, tokens: int) -> None:
    def write(**_arguments: Any) -> Iterator[Any]:
        yield chunk

    stream = llm.Guard(llm.Model(write, "m")).stream(max_tokens=1000)
    list(stream)
    assert stream.report is not None
    assert stream.report.output_tokens == tokens


def test_reported_tokens_are_not_called_estimates_and_a_small_cost_is_in_digits() -> None:
    with FlakyServer(then=chat("Hi")) as server, openai_client(server) as client:
        cheap = llm.Price(input=0.02, output=0.04)
        report = llm.Guard(llm.Model(client, "m", price=cheap)).call(messages=HELLO).report
    assert "; 1000 tokens in, 100 out, cost 0.000024" in str(report)
    assert "estimated" not in str(report)


def test_a_model_that_named_no_time_may_answer_before_one_that_did() -> None:
    with (
        FlakyServer(then=500) as first,
        FlakyServer(then=refusal(429, retry_after="90")) as second,
        openai_client(first) as gpt,
        anthropic_client(second) as claude,
    ):
        guard = llm.Guard(llm.Model(gpt, "gpt"), llm.Model(claude, "claude"))
        with pytest.raises(ModelsFailedError) as caught:
            guard.call(messages=HELLO, max_tokens=5)
    report = report_of(caught.value)
    assert (report.retry_in, report.advice) == (
        90,
        "ask again in 90 s at the latest; gpt named no time and may answer sooner",
    )


def test_a_key_that_is_refused_says_how_to_ask_the_next_model() -> None:
    with (
        FlakyServer(then=refusal(401)) as first,
        FlakyServer(then=message("Hi")) as second,
        openai_client(first) as gpt,
        anthropic_client(second) as claude,
    ):
        guard = llm.Guard(llm.Model(gpt, "gpt"), llm.Model(claude, "claude"))
        with pytest.raises(openai.AuthenticationError) as caught:
            guard.call(messages=HELLO, max_tokens=5)
        assert report_of(caught.value).advice.endswith("or allow the next model to be asked: fall_back_on=401")
        with pytest.raises(openai.AuthenticationError) as caught:
            llm.Guard(llm.Model(gpt, "gpt")).call(messages=HELLO)
        assert "fall_back_on" not in report_of(caught.value).advice


def test_a_call_larger_than_its_limit_is_not_told_to_come_back() -> None:
    guard = llm.Guard(llm.Model(lambda **_: "never", "m", limits=LimitSettings(tokens_per_minute=10)))
    with virtual_clock(), pytest.raises(LimitReachedError) as caught:
        guard.call(messages=HELLO, max_tokens=1000)
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.next_step == "raise the limits of m, or ask for less"
    assert report_of(caught.value).advice == "the same request will fail again; change it, or fix the cause"
