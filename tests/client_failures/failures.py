"""The failures that are played to each library, in the sections of docs/client-failures.md."""

import json
from email.utils import formatdate

import msgspec
from tests.misbehaving.failures import REFUSAL, Played, event_stream
from tests.misbehaving.grpc_servers import GRPC_ANSWERS

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.testing import Reply
from redrive.testing.flaky_server import Seen

# The client of Elasticsearch believes no other server.
PRODUCT = {"X-Elastic-Product": "Elasticsearch"}
IN_A_STREAM = "error in a stream"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One way to fail."""

    title: str
    played: str | Played
    """What the server does: a failure by name, or a reply."""
    how: str = ""
    """The name under which a library may have a call of its own for it."""
    told: float | None = None
    """Seconds that the server asks to wait, where they can be read and are not too many."""


def on_the_network(how: str, title: str = "") -> Failure:
    return Failure(title=title or how, played=how, how=how)


def too_many(title: str, told: float | None = None, **headers: str) -> Failure:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Failure(title=title, played=Reply(status=429, body=REFUSAL, headers={**PRODUCT, **named}), told=told)


def until_a_date(title: str, seconds: float) -> Failure:
    def reply(seen: Seen) -> Reply:
        when = formatdate(SYSTEM_CLOCK.wall() + seconds, usegmt=True)
        return Reply(status=429, body=REFUSAL, headers={**PRODUCT, "Retry-After": when})

    return Failure(title=title, played=reply, told=seconds if seconds > 0 else None)


def in_a_stream(title: str, event: str) -> Failure:
    return Failure(title=title, played=event_stream(event), how=IN_A_STREAM)


NETWORK = (
    on_the_network("refused"),
    on_the_network("reset"),
    on_the_network("closed"),
    on_the_network("cut off"),
    on_the_network("timeout", "slow"),
)
STATUSES = tuple(
    Failure(title=status, played=Reply(status=int(status), body=REFUSAL, headers=PRODUCT))
    for status in ("408", "409", "500", "503", "529")
)
RETRY_AFTERS = (
    too_many("none"),
    too_many("`7`", told=7.0, retry_after="7"),
    until_a_date("a date 20 s ahead", 20.0),
    until_a_date("a date in the past", -3600.0),
    too_many("`retry-after-ms: 1500`", told=1.5, retry_after_ms="1500", retry_after="2"),
    too_many("`soon`", retry_after="soon"),
    too_many("`-5`", retry_after="-5"),
    too_many("`604800` (a week)", retry_after="604800"),
)

_QUOTA = {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You exceeded your current quota"}
_OPENAI_BROKE = {"error": {"type": "server_error", "code": None, "message": "The server had an error"}}
_OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
_THROTTLED = {"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException", "message": "slow down"}
_RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
_EXHAUSTED = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Slow down", "details": [_RETRY_INFO]}
_UNAVAILABLE = {"code": 503, "status": "UNAVAILABLE", "message": "Overloaded"}
_GRPC = tuple(
    Failure(title=f"`{answer}`", played=answer, told=7.0 if answer.endswith("7000") else None)
    for answer in GRPC_ANSWERS
)
VENDORS = {
    "openai": (
        Failure(title="429 `insufficient_quota`", played=Reply(status=429, body={"error": _QUOTA})),
        in_a_stream("`server_error` in a stream that began with 200", f"data: {json.dumps(_OPENAI_BROKE)}\n\n"),
        in_a_stream(
            "`insufficient_quota` in a stream that began with 200", f"data: {json.dumps({'error': _QUOTA})}\n\n"
        ),
    ),
    "anthropic": (
        in_a_stream(
            "`overloaded_error` in a stream that began with 200", f"event: error\ndata: {json.dumps(_OVERLOADED)}\n\n"
        ),
    ),
    "botocore": (Failure(title="400 `ThrottlingException`", played=Reply(status=400, body=_THROTTLED)),),
    "google-genai": (
        Failure(title="429 with `RetryInfo` of 7 s", played=Reply(status=429, body={"error": _EXHAUSTED}), told=7.0),
        in_a_stream(
            "`UNAVAILABLE` in a stream that began with 200", f"data: {json.dumps({'error': _UNAVAILABLE})}\n\n"
        ),
    ),
    "grpc": _GRPC,
    "google-api-core": _GRPC,
}
"""What single vendors say in their own words."""
