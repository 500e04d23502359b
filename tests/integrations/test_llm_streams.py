"""Streams of the real SDKs against a server that misbehaves: retried before the first output only."""

import asyncio
import json
from typing import Any

import openai
import pytest

import redrive
from redrive.errors import StreamBrokenError
from redrive.integrations import llm
from redrive.testing import FlakyServer, Reply

from . import model_server as server_says
from .model_server import (
    CHAT_END,
    CHAT_START,
    HELLO,
    MESSAGE_END,
    MESSAGE_START,
    SSE,
    chat_error,
    chat_texts,
    cut,
    event,
    message_error,
    message_texts,
    refusal,
    streamed,
)

CLIENTS = {
    "openai": server_says.openai_client,
    "async openai": server_says.async_openai_client,
    "anthropic": server_says.anthropic_client,
    "async anthropic": server_says.async_anthropic_client,
}
clients = pytest.mark.parametrize("client", CLIENTS)


def whole(client: str, *texts: str) -> Reply:
    if "openai" in client:
        return streamed(CHAT_START, chat_texts(*texts), CHAT_END)
    return streamed(MESSAGE_START, message_texts(*texts), MESSAGE_END)


def begun(client: str, *texts: str) -> str:
    """The announcements of a stream, and the texts, without an end."""
    if "openai" in client:
        return CHAT_START + chat_texts(*texts)
    return MESSAGE_START + message_texts(*texts)


def error(client: str, kind: str) -> str:
    return chat_error(kind) if "openai" in client else message_error(kind)


class Read:
    """Reads a guarded stream of a real client, and keeps what it got."""

    def __init__(self, client: str, server: FlakyServer, **settings: Any) -> None:
        arguments = {"max_tokens": 50}
        self.client: Any = CLIENTS[client](server)
        self.guard = llm.Guard(llm.Model(self.client, "m", arguments=arguments), **settings)
        self.is_async = "async" in client
        self.chunks: list[Any] = []
        self.report: llm.ModelReport | None = None

    def run(self) -> "Read":
        asyncio.run(self._read_async()) if self.is_async else self._read()
        return self

    def _read(self) -> None:
        with self.client, self.guard.stream(messages=HELLO) as stream:
            try:
                self.chunks.extend(stream)
            finally:
                self.report = stream.report

    async def _read_async(self) -> None:
        async with self.client, self.guard.astream(messages=HELLO) as stream:
            try:
                async for chunk in stream:
                    self.chunks.append(chunk)
            finally:
                self.report = stream.report

    @property
    def text(self) -> str:
        return "".join(llm.text_of(chunk) for chunk in self.chunks)


@clients
@pytest.mark.promise("L5")
def test_failures_before_the_first_output_are_retried(client: str) -> None:
    """An overload as a status, one inside a 200 after the stream was announced, and a connection that is cut there."""
    with FlakyServer(
        refusal(529, "overloaded_error", retry_after_ms="5"),
        streamed(begun(client), error(client, "overloaded_error")),
        cut(begun(client)),
        whole(client, "Hel", "lo"),
    ) as server:
        read = Read(client, server, attempts=4).run()
    assert (read.text, len(server.seen)) == ("Hello", 4)
    assert read.report is not None
    assert [failed.category for failed in read.report.tried[0].failures] == ["transient"] * 3
    assert (read.report.answered_by, read.report.tried[0].attempts) == ("m", 4)


@clients
@pytest.mark.parametrize("how", ["error event", "cut body"])
@pytest.mark.promise("L5")
def test_after_the_first_output_it_is_a_clear_error_and_no_retry(client: str, how: str) -> None:
    sent = begun(client, "Hel")
    broken = cut(sent) if how == "cut body" else streamed(sent, error(client, "overloaded_error"))
    with FlakyServer(broken, then=whole(client, "never")) as server:
        read = Read(client, server)
        with pytest.raises(StreamBrokenError, match=r"broke after \d chunks and was not retried") as caught:
            read.run()
    assert (read.text, len(server.seen)) == ("Hel", 1)
    assert caught.value.chunks == len(read.chunks)
    assert caught.value.__cause__ is not None
    report = llm.report_of(caught.value)
    assert report is not None
    assert report is read.report
    assert (report.answered_by, report.tried[0].outcome) == (None, "broken off")
    assert "discard it and ask again" in str(report)


@clients
@pytest.mark.parametrize("kind", ["invalid_request_error", "quota"])
@pytest.mark.promise("L5")
def test_a_permanent_error_inside_a_200_is_not_retried(client: str, kind: str) -> None:
    if kind == "quota":
        kind = "insufficient_quota" if "openai" in client else "billing_error"
    with FlakyServer(streamed(begun(client), error(client, kind)), then=whole(client, "never")) as server:
        read = Read(client, server)
        with pytest.raises(Exception, match="x") as caught:
            read.run()
    assert (read.chunks, len(server.seen)) == ([], 1)
    report = llm.report_of(caught.value)
    assert report is not None
    assert (report.tried[0].failures[0].category, report.tried[0].may_pass) == ("permanent", False)


@clients
@pytest.mark.promise("L5")
def test_a_stream_that_ends_without_saying_so_was_cut(client: str) -> None:
    """As behind a proxy that ends the body properly when the service behind it goes away."""
    with FlakyServer(streamed(begun(client)), streamed(begun(client, "Hel")), then=whole(client, "x")) as server:
        read = Read(client, server)
        with pytest.raises(StreamBrokenError):
            read.run()
    assert (read.text, len(server.seen)) == ("Hel", 2)


@pytest.mark.parametrize(
    ("code", "category"),
    [("server_error", "transient"), ("invalid_prompt", "permanent"), ("invalid_image", "permanent")],
)
@pytest.mark.parametrize("how", ["error", "response.failed"])
@pytest.mark.promise("L5")
def test_error_events_that_the_client_hands_on_as_items_count_too(how: str, code: str, category: str) -> None:
    """OpenAI's responses API reports failures as events, which its client does not raise."""
    started = event("response.created", sequence_number=0, response={"id": "r", "object": "response"})
    about = {"code": code, "message": "x"}
    failed = event("error", **about) if how == "error" else event("response.failed", response={"error": about})
    text = event("response.output_text.delta", delta="Hello", item_id="i", output_index=0, content_index=0)
    usage = {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 2}}
    done = event("response.completed", response={"id": "r", "object": "response", "usage": usage})
    with (
        FlakyServer(streamed(started, failed), then=streamed(started, text, done)) as server,
        server_says.openai_client(server) as client,
    ):
        guard = llm.Guard(llm.Model(client, "m", method="responses.create"))
        stream = guard.stream(input="Hello")
        if category == "permanent":
            with pytest.raises(redrive.errors.ResponseFailedError, match=code):
                list(stream)
            assert len(server.seen) == 1
            return
        assert "".join(llm.text_of(chunk) for chunk in stream) == "Hello"
    assert stream.report is not None
    assert (stream.report.input_tokens, stream.report.output_tokens) == (7, 3)
    assert stream.report.tried[0].failures[0].category == "transient"


@pytest.mark.promise("L5")
def test_a_generator_function_around_the_sdk_follows_the_same_rule() -> None:
    """Without the guard of `llm`: whatever is yielded is output."""
    broken = streamed(CHAT_START, chat_texts("Hel"), chat_error("server_error"))
    with (
        FlakyServer(503, broken, then=200) as server,
        server_says.openai_client(server, max_retries=0) as client,
    ):

        @redrive.retry
        def tokens() -> Any:
            with client.chat.completions.create(model="m", messages=HELLO, stream=True) as stream:
                for chunk in stream:
                    yield chunk.choices[0].delta.content

        got: list[str] = []
        with pytest.raises(StreamBrokenError) as caught:
            got.extend(tokens())
    assert isinstance(caught.value.__cause__, openai.APIError)
    assert ("".join(got), len(server.seen)) == ("Hel", 2)


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
@pytest.mark.promise("L5")
def test_a_body_that_is_read_with_httpx(library: str) -> None:
    import importlib

    httpx = importlib.import_module(library)
    lines = "".join(f"{json.dumps({'row': number})}\n" for number in range(4))
    with FlakyServer(503, cut(lines), then=Reply(body=lines.encode(), headers=SSE)) as server:

        @redrive.retry
        def rows() -> Any:
            with httpx.stream("GET", server.url, trust_env=False) as response:
                response.raise_for_status()
                yield from (json.loads(line) for line in response.iter_lines() if line.startswith("{"))

        got: list[Any] = []
        with pytest.raises(StreamBrokenError):
            got.extend(rows())
        assert (got[0], len(server.seen)) == ({"row": 0}, 2)
        assert len(list(rows())) == 4


@clients
def test_a_reader_that_leaves_early_closes_the_connection(client: str) -> None:
    with FlakyServer(then=whole(client, *"abcdefgh")) as server:
        read = Read(client, server)

        async def leave_async() -> None:
            async with read.client, read.guard.astream(messages=HELLO) as stream:
                await anext(stream)

        if read.is_async:
            asyncio.run(leave_async())
        else:
            with read.client, read.guard.stream(messages=HELLO) as stream:
                next(stream)
            assert stream.report is None
    assert len(server.seen) == 1
