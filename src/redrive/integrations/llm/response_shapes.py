"""Reads responses and stream chunks of the OpenAI and Anthropic APIs by their shape, as objects or as dicts.

Three APIs: chat completions (`choices`), OpenAI's responses (`response.…` events, `output`), Anthropic's messages.
"""

from collections.abc import Mapping
from typing import Any

from redrive.errors import ResponseFailedError
from redrive.failures.redaction import redact

# What a chat chunk's delta may carry besides the role.
_CHAT_OUTPUT = ("content", "tool_calls", "function_call", "refusal", "reasoning", "reasoning_content", "audio")
_DELTA_OUTPUT = ("text", "partial_json", "thinking", "citation")
# Events before any output: what they announce can be announced again.
_PREAMBLE = frozenset({"ping", "message_start", "content_block_start", "response.created", "response.queued"}) | {
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.reasoning_summary_part.added",
}
# What a whole answer has at least, by the client's method.
_ANSWERS = {
    **dict.fromkeys(("chat.completions.create", "chat.completions.parse"), "choices"),
    **dict.fromkeys(("messages.create", "beta.messages.create", "messages.parse"), "content"),
    **dict.fromkeys(("responses.create", "responses.parse"), "output"),
}
_NO_ANSWER = "no_answer"
_LONGEST_EXCERPT = 60
_ENDS = frozenset(
    {"message_stop", "response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)


def field(thing: Any, name: str) -> Any:
    """Return a field of an object or a dict; None when there is none."""
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def text_of(part: Any) -> str:
    """Return the text of a response or of one stream chunk; empty when it has none."""
    if isinstance(part, str):
        return part
    if choices := field(part, "choices"):
        return _text(field(field(choices[0], "delta") or field(choices[0], "message"), "content"))
    kind = field(part, "type")
    if kind == "content_block_delta":
        return _text(field(field(part, "delta"), "text"))
    if kind == "response.output_text.delta":
        return _text(field(part, "delta"))
    if isinstance(output := field(part, "output"), list | tuple):
        items = (content for item in output for content in field(item, "content") or ())
        return "".join(_text(field(content, "text")) for content in items)
    return _text(field(part, "content"))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        return "".join(_text(field(block, "text")) for block in content)
    return ""


def written_characters(part: Any) -> int:
    """Return how much a model wrote in a response or chunk: its text, its thoughts, and the arguments of tool calls."""
    kind = field(part, "type")
    if choices := field(part, "choices"):
        return sum(_chat_characters(field(one, "delta") or field(one, "message")) for one in choices)
    if kind == "content_block_delta":
        return sum(_length(field(field(part, "delta"), name)) for name in _DELTA_OUTPUT)
    if isinstance(kind, str) and kind.startswith("response."):
        return _length(field(part, "delta")) if kind.endswith(".delta") else 0
    return len(text_of(part))


def _chat_characters(said: Any) -> int:
    calls = [field(call, "function") for call in field(said, "tool_calls") or ()]
    texts = [field(said, name) for name in ("refusal", "reasoning", "reasoning_content")]
    arguments = [field(function, "arguments") for function in calls]
    return len(_text(field(said, "content"))) + sum(_length(one) for one in (*texts, *arguments))


def _length(text: Any) -> int:
    return len(text) if isinstance(text, str) else 0


def is_preamble(chunk: Any) -> bool:
    """Whether the chunk only announces output; a chunk of unknown shape is output."""
    if (choices := field(chunk, "choices")) is not None and (field(chunk, "object") or choices):
        return not any(
            field(field(choice, "delta"), name) or field(choice, "finish_reason")
            for choice in choices
            for name in _CHAT_OUTPUT
        )
    kind = field(chunk, "type")
    if kind == "content_block_delta":
        return not any(field(field(chunk, "delta"), name) for name in _DELTA_OUTPUT)
    return isinstance(kind, str) and kind in _PREAMBLE


def is_end(chunk: Any) -> bool:
    """Whether the chunk says that the answer is complete."""
    if choices := field(chunk, "choices"):
        return any(field(choice, "finish_reason") for choice in choices)
    return field(chunk, "type") in _ENDS


def ends_explicitly(chunk: Any) -> bool:
    """Whether a stream with this chunk says when it is complete, so that one that does not say it was cut."""
    kind = field(chunk, "type")
    return kind in ("message_start", "response.created") or field(chunk, "object") == "chat.completion.chunk"


def no_answer_in(response: Any, method: str | None) -> ResponseFailedError | None:
    """Return the failure of a response that no vendor sent as an answer, such as the page of a proxy; else None.

    The SDKs hand on whatever came with a 200. Only the methods whose answers are known are checked.
    """
    needed = _ANSWERS.get(method or "")
    if needed is None:
        return None
    if isinstance(response, str | bytes):
        said = redact(str(response), _LONGEST_EXCERPT)
        return ResponseFailedError(f"the response is no answer of the model but a text: {said!r}", _NO_ANSWER)
    found = field(response, needed)
    # An answer of no words is one; a chat completion without any choice is none.
    if isinstance(found, list | tuple) and (found or needed != "choices"):
        return None
    if (about := field(response, "error")) is not None and not isinstance(about, str):
        return _reported(about, _NO_ANSWER)
    return ResponseFailedError(f"the response has no {needed!r}, so it is no answer of the model", _NO_ANSWER)


def unreadable(error: ValueError) -> ResponseFailedError:
    """Return the failure of a response that says it is JSON and is not."""
    return ResponseFailedError(f"the response is not the JSON of an answer: {error}", _NO_ANSWER)


def empty_stream(method: str | None) -> ResponseFailedError | None:
    """Return the failure of a stream that ended without any chunk; None where that may be an answer."""
    if method not in _ANSWERS:
        return None
    return ResponseFailedError("the response is no stream of the model: nothing of one was in it", _NO_ANSWER)


def failure_in(part: Any) -> ResponseFailedError | None:
    """Return the failure that a response or chunk reports though its status is 200; None when it reports none."""
    kind = field(part, "type")
    if kind == "error":
        about = field(part, "error") or part
    elif kind == "response.failed":
        about = field(field(part, "response"), "error") or {}
    elif field(part, "object") == "response" and field(part, "status") == "failed":
        about = field(part, "error") or {}
    else:
        return None
    return _reported(about, None, whole=about is part)


def _reported(about: Any, otherwise: str | None, *, whole: bool = False) -> ResponseFailedError:
    code = field(about, "code") or (None if whole else field(about, "type")) or otherwise
    return ResponseFailedError(str(field(about, "message") or "the response failed"), str(code) if code else None)
