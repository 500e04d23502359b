"""What holds for OpenAI's and Anthropic's clients alike: streams, and advice in headers."""

from collections.abc import Callable

from tests.misbehaving.failures import PATIENCE, event_stream
from tests.misbehaving.library import failure_after

from redrive.failures.failure import Failure
from redrive.testing import Reply

Ask = Callable[[str, float], object]
"""Asks the model at a URL; the second argument is the timeout."""

ADVICE = {"retry-after-ms": "40", "Retry-After": "7"}


def failure_in_stream(stream: Ask, *events: str) -> Failure:
    """What becomes of a stream that begins with a 200 and has an error inside."""
    return failure_after(event_stream(*events), lambda url: stream(url, PATIENCE))


def check_advice(ask: Ask, status: int, said: str, category: str) -> None:
    """`x-should-retry` decides whatever the status is, and the milliseconds go before the seconds."""
    reply = Reply(status=status, headers={"x-should-retry": said, **ADVICE})
    failure = failure_after(reply, lambda url: ask(url, PATIENCE))
    assert (failure.category, failure.retry_after) == (category, 0.04)


def check_broken_stream(stream: Ask, event: str) -> None:
    """A stream that breaks off is transient, and may have had an effect."""
    whole = event_stream(event * 100)
    reply = Reply(fault="cut_body", body=whole.body, headers=whole.headers)
    failure = failure_after(reply, lambda url: stream(url, PATIENCE))
    assert (failure.category, failure.not_sent) == ("transient", False)
