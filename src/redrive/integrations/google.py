"""One retry owner for Google's clients, which by themselves retry for minutes.

client = owned(SecretManagerServiceClient())

@redrive.retry
def secret(name: str) -> bytes:
    return client.access_secret_version(name=name).payload.data

Clients that are written by hand, such as that of Cloud Storage, have no default to change: pass `retry=None` to their
methods.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, TypeVar, cast

from redrive.integrations.sdk_clients.client_types import derives_from, refuse

__all__ = ["owned"]

C = TypeVar("C")

_METHODS = (
    "google.api_core.gapic_v1.method._GapicCallable",
    "google.api_core.gapic_v1.method_async._AsyncGapicCallable",
)
_GENAI = ("google.genai.client.Client", "google.genai.client.AsyncClient")
_ACCEPTED = (
    "a client that google-api-core retries for, one of its methods, a function with its Retry, or a google.genai Client"
)


def owned(client: C) -> C:
    """Switch off the default retries of a client, and return it; of a function with a `Retry`, return the bare one.

    The client is changed. A `retry=` that is passed to a single call still applies.
    """
    if derives_from(client, *_GENAI):
        _own_genai(client)
        return client
    bare = _bare_function(client)
    if bare is not None:
        return cast("C", bare)
    methods = list(_methods_of(client))
    if not methods:
        raise refuse(client, "google", _ACCEPTED)
    for method in methods:
        method._retry = None
    return client


def _methods_of(client: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the methods that google-api-core has wrapped: the client's own, or those of its transport."""
    if derives_from(client, *_METHODS):
        yield client
        return
    wrapped = getattr(client, "_wrapped_methods", None)
    if isinstance(wrapped, dict):
        yield from wrapped.values()
    for name, value in vars(client).items() if hasattr(client, "__dict__") else ():
        # An async client holds a plain one, which holds the transport.
        if derives_from(value, *_METHODS) or (name in ("_client", "_transport", "transport") and depth < 3):
            yield from _methods_of(value, depth + 1)


def _bare_function(function: Any) -> Any:
    """Return the function inside a `google.api_core.retry.Retry`; None if there is none."""
    module = getattr(function, "__globals__", {}).get("__name__", "")
    return getattr(function, "__wrapped__", None) if module.startswith("google.api_core.retry") else None


def _own_genai(client: Any) -> None:
    # Whoever has such a client has its modules loaded.
    types, api_client = import_module("google.genai.types"), import_module("google.genai._api_client")
    api = client._api_client
    once = types.HttpRetryOptions(attempts=1)
    # Without options, the async client still repeats a request after a lost connection.
    api._http_options = api._http_options.model_copy(update={"retry_options": once})
    arguments = api_client.retry_args(once)
    api._retry, api._async_retry = type(api._retry)(**arguments), type(api._async_retry)(**arguments)
