"""The ways in which a server can fail, by name, and servers that do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redrive.testing import FlakyServer, Reply
from redrive.testing.flaky_server import Seen

from .sockets import full_queue, refusing_port

TIMEOUT = 0.3
"""Seconds that a client waits, where it is made to wait."""
PATIENCE = 20.0
"""Seconds that a client waits elsewhere: a busy machine must not turn another failure into a timeout."""

NETWORK_FAILURES = ("refused", "no such host", "connect timeout", "reset", "closed", "cut off", "not HTTP", "timeout")
NOT_SENT = frozenset({"refused", "no such host", "connect timeout"})
"""Failures before the request was sent, so that a retry cannot do the work twice."""
STATUSES = ("400", "401", "404", "409", "429", "500", "503")
"""Responses that ask to wait 7 seconds."""
COLUMNS = (*NETWORK_FAILURES, *STATUSES)
WAITS = ("connect timeout", "timeout")
"""Failures that a client notices only because its time is up."""

Played = Reply | Callable[[Seen], Reply | int]
"""What the server replies to each request."""

LONG_BODY = b'{"text": "' + b"x" * 2000 + b'"}'
REFUSAL = {"error": {"message": "no", "type": "said_so"}}
_REPLIES = {
    "reset": Reply(fault="reset"),
    "closed": Reply(fault="close"),
    "cut off": Reply(fault="cut_body", body=LONG_BODY),
    "not HTTP": Reply(fault="garbage"),
    "timeout": Reply(fault="hang"),
    **{status: Reply(status=int(status), headers={"Retry-After": "7"}, body=REFUSAL) for status in STATUSES},
}


@contextmanager
def misbehaving(how: str | Played) -> Iterator[str]:
    """The URL of a server that fails in one of the ways of `COLUMNS`, or always gives the same reply."""
    if how == "no such host":
        yield "http://nonexistent.invalid"
    elif how == "refused":
        with refusing_port() as port:
            yield f"http://127.0.0.1:{port}"
    elif how == "connect timeout":
        with full_queue() as port:
            yield f"http://127.0.0.1:{port}"
    else:
        with FlakyServer(then=_REPLIES[how] if isinstance(how, str) else how) as server:
            yield server.url


def event_stream(*events: str) -> Reply:
    """A 200 whose body is a stream of server-sent events."""
    return Reply(body="".join(events).encode(), headers={"Content-Type": "text/event-stream"})
