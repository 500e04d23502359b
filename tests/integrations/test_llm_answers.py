"""What comes with a 200 though no model answered: a failure of the way there, never an answer."""

import asyncio
import json
from typing import Any

import pytest

from redrive.errors import ResponseFailedError
from redrive.integrations import llm
from redrive.testing import FlakyServer, Reply

from .model_server import (
    CHAT_END,
    CHAT_START,
    HELLO,
    MESSAGE_END,
    MESSAGE_START,
    anthropic_client,
    async_anthropic_client,
    async_openai_client,
    chat,
    chat_texts,
    message,
    message_texts,
    openai_client,
    streamed,
)

PAGE = b"<html>maintenance</html>"
CLIENTS = {
    "openai": (openai_client, chat("Hi"), streamed(CHAT_START, chat_texts("Hi"), CHAT_END)),
    "async openai": (async_openai_client, chat("Hi"), streamed(CHAT_START, chat_texts("Hi"), CHAT_END)),
    "anthropic": (anthropic_client, message("Hi"), streamed(MESSAGE_START, message_texts("Hi"), MESSAGE_END)),
    "async anthropic": (
        async_anthropic_client,
        message("Hi"),
        streamed(MESSAGE_START, message_texts("Hi"), MESSAGE_END),
    ),
}
NO_ANSWERS = {
    "a page": Reply(body=PAGE, headers={"Content-Type": "text/html"}),
    "a page that says it is JSON": Reply(body=PAGE, headers={"Content-Type": "application/json"}),
    "an empty object": Reply(body={}),
}


def ask(make: Any, replies: tuple[Reply, ...], stream: bool) -> tuple[str, llm.ModelReport]:
    """Ask a chain of two models, of which the second is always well."""

    def chain(broken: Any, well: Any) -> llm.Guard:
        models = [llm.Model(client, name, arguments={"max_tokens": 5}) for client, name in ((broken, "a"), (well, "b"))]
        return llm.Guard(*models, attempts=2)

    def text(chunks: list[Any], report: llm.ModelReport | None) -> tuple[str, llm.ModelReport]:
        assert report is not None
        return "".join(llm.text_of(chunk) for chunk in chunks), report

    async def ask_async(first: FlakyServer, second: FlakyServer) -> tuple[str, llm.ModelReport]:
        async with make(first) as broken, make(second) as well:
            if stream:
                chunks = chain(broken, well).astream(messages=HELLO)
                return text([chunk async for chunk in chunks], chunks.report)
            answer = await chain(broken, well).acall(messages=HELLO)
            return answer.text, answer.report

    with FlakyServer(then=replies[0]) as first, FlakyServer(then=replies[1]) as second:
        if make.__name__.startswith("async"):
            return asyncio.run(ask_async(first, second))
        with make(first) as broken, make(second) as well:
            if stream:
                chunks = chain(broken, well).stream(messages=HELLO)
                return text(list(chunks), chunks.report)
            answer = chain(broken, well).call(messages=HELLO)
            return answer.text, answer.report


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("stream", [False, True], ids=["call", "stream"])
@pytest.mark.parametrize("what", NO_ANSWERS)
def test_what_no_vendor_sent_is_retried_and_leads_to_the_next_model(client: str, stream: bool, what: str) -> None:
    make, whole, chunks = CLIENTS[client]
    text, report = ask(make, (NO_ANSWERS[what], chunks if stream else whole), stream)
    assert text == "Hi"
    first = report.tried[0]
    assert (first.outcome, [failed.category for failed in first.failures]) == ("failed", ["transient"] * 2)
    assert "no_answer" in first.failures[0].error


def test_a_failure_without_choices_keeps_the_code_that_it_has() -> None:
    """As gateways to many vendors report them."""
    failed = {"error": {"code": 400, "message": "no such parameter"}}
    with FlakyServer(then=Reply(body=failed)) as server, openai_client(server) as client:
        with pytest.raises(ResponseFailedError, match="400: no such parameter"):
            llm.Guard(llm.Model(client, "m")).call(messages=HELLO)
        assert len(server.seen) == 1


def test_an_answer_of_no_words_is_one() -> None:
    body = json.loads(json.dumps(message("").body))
    with FlakyServer(then=Reply(body={**body, "content": []})) as server, anthropic_client(server) as client:
        answer = llm.Guard(llm.Model(client, "m")).call(messages=HELLO, max_tokens=5)
    assert (answer.text, answer.report.answered_by) == ("", "m")


def test_another_method_may_answer_with_text() -> None:
    text = Reply(body=b"spoken words", headers={"Content-Type": "text/plain"})
    with FlakyServer(then=text) as server, openai_client(server) as client:
        guard = llm.Guard(llm.Model(client, "m", method="audio.transcriptions.create"))
        answer = guard.call(file=("a.wav", b"RIFF"), response_format="text")
    assert answer.text == "spoken words"
