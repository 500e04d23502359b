"""One retry owner for the OpenAI SDK, which by itself makes each request up to three times.

client = owned(OpenAI())

@redrive.retry
def ask(question: str) -> str:
    return client.responses.create(model="gpt-5", input=question).output_text
"""

from typing import TypeVar

from redrive.integrations.sdk_clients.with_options import without_retries

__all__ = ["owned"]

C = TypeVar("C")


def owned(client: C) -> C:
    """Return the client with its own retries off: `OpenAI`, `AsyncOpenAI`, or their Azure variants.

    It is a copy, made with `client.with_options(max_retries=0)`, that shares the connections of the given client.
    """
    return without_retries(client, "openai", "a client such as OpenAI() or AsyncAzureOpenAI()")
