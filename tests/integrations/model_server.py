"""What the OpenAI and Anthropic APIs send, as replies of a local server, and clients that talk to it."""

import json
from typing import Any

import anthropic
import openai

from redrive.testing import FlakyServer, Reply

HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
SSE = {"Content-Type": "text/event-stream"}
KEY = "sk-none"


def chat(text: str) -> Reply:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    return Reply(
        body={"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    )


def message(text: str) -> Reply:
    body = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    usage = {"input_tokens": 2000, "output_tokens": 200, "cache_read_input_tokens": 500}
    return Reply(body={**body, "content": [{"type": "text", "text": text}], "usage": usage})


def chat_chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n"


CHAT_START = chat_chunk({"role": "assistant", "content": ""})
CHAT_END = chat_chunk({}, "stop") + "data: [DONE]\n\n"


def chat_texts(*texts: str) -> str:
    return "".join(chat_chunk({"content": text}) for text in texts)


def chat_error(code: str) -> str:
    return f"data: {json.dumps({'error': {'message': 'x', 'type': code, 'code': code}})}\n\n"


def event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


MESSAGE_START = event(
    "message_start",
    message={
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 2000, "output_tokens": 1},
    },
) + event("content_block_start", index=0, content_block={"type": "text", "text": ""})
MESSAGE_END = (
    event("content_block_stop", index=0)
    + event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 200})
    + event("message_stop")
)


def message_texts(*texts: str) -> str:
    return "".join(event("content_block_delta", index=0, delta={"type": "text_delta", "text": text}) for text in texts)


def message_error(kind: str) -> str:
    return event("error", error={"type": kind, "message": "x"})


def streamed(*events: str) -> Reply:
    return Reply(body="".join(events).encode(), headers=SSE, chunked=True)


def cut(*events: str) -> Reply:
    """The events arrive, but the chunked body never ends."""
    sent = "".join(events).encode()
    return Reply(body=sent + b":" * len(sent), headers=SSE, chunked=True, fault="cut_body")


def refusal(status: int, kind: str = "said_so", **headers: str) -> Reply:
    """An error response with the headers of a vendor; underscores stand for hyphens."""
    body = {"type": "error", "error": {"type": kind, "code": kind, "message": "no"}}
    return Reply(status=status, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


# Nothing is encrypted here, and to load the certificates takes longer than all else.
def openai_client(server: FlakyServer, **settings: Any) -> openai.OpenAI:
    http = openai.DefaultHttpxClient(verify=False, trust_env=False)
    return openai.OpenAI(api_key=KEY, base_url=server.url, http_client=http, **settings)


def async_openai_client(server: FlakyServer, **settings: Any) -> openai.AsyncOpenAI:
    http = openai.DefaultAsyncHttpxClient(verify=False, trust_env=False)
    return openai.AsyncOpenAI(api_key=KEY, base_url=server.url, http_client=http, **settings)


def anthropic_client(server: FlakyServer, **settings: Any) -> anthropic.Anthropic:
    http = anthropic.DefaultHttpxClient(verify=False, trust_env=False)
    return anthropic.Anthropic(api_key=KEY, base_url=server.url, http_client=http, **settings)


def async_anthropic_client(server: FlakyServer, **settings: Any) -> anthropic.AsyncAnthropic:
    http = anthropic.DefaultAsyncHttpxClient(verify=False, trust_env=False)
    return anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url, http_client=http, **settings)
