"""One retry owner for the Anthropic SDK, which by itself makes each request up to three times.

client = owned(Anthropic())

@redrive.retry
def ask(question: str) -> Message:
    return client.messages.create(model="claude-opus-4-5", max_tokens=500, messages=[...])
"""

from typing import TypeVar

from redrive.integrations.sdk_clients.with_options import without_retries

__all__ = ["owned"]

C = TypeVar("C")


def owned(client: C) -> C:
    """Return the client with its own retries off: `Anthropic`, `AsyncAnthropic`, or those for a cloud.

    It is a copy, made with `client.with_options(max_retries=0)`, that shares the connections of the given client.
    """
    return without_retries(client, "anthropic", "a client such as Anthropic() or AsyncAnthropicBedrock()")
