"""What is no transport, or one for another client, is refused in one line that says what to write."""

import asyncio
from importlib import import_module
from typing import Any

import pytest

from redrive.testing import FlakyServer

each_library = pytest.mark.parametrize("name", ["httpx", "httpx2"])


def refusal(make: Any, *arguments: Any, **settings: Any) -> str:
    with pytest.raises(TypeError) as caught:
        make(*arguments, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@each_library
def test_a_client_is_no_transport(name: str) -> None:
    library, retries = import_module(name), import_module(f"redrive.integrations.{name}")
    with library.Client() as client:
        assert refusal(retries.RetryTransport, transport=client) == (
            f"transport: {name}.Client is a client, not a transport; "
            f"RetryTransport goes inside a client: {name}.Client(transport=RetryTransport())"
        )
        assert f"{name}.AsyncClient(transport=AsyncRetryTransport())" in refusal(
            retries.AsyncRetryTransport, transport=client
        )


@each_library
def test_a_transport_for_the_other_kind_of_client(name: str) -> None:
    library, retries = import_module(name), import_module(f"redrive.integrations.{name}")
    assert refusal(retries.RetryTransport, transport=library.AsyncHTTPTransport()) == (
        f"transport: {name}.AsyncHTTPTransport is for {name}.AsyncClient, and RetryTransport for {name}.Client; "
        f"use {name}.HTTPTransport(), or AsyncRetryTransport"
    )
    for given, shown in ((library.HTTPTransport(), f"{name}.HTTPTransport"), (retries.RetryTransport(), "Retry")):
        assert refusal(retries.AsyncRetryTransport, transport=given).startswith(f"transport: {shown}")


@each_library
def test_a_transport_of_the_other_library(name: str) -> None:
    retries, other = import_module(f"redrive.integrations.{name}"), {"httpx": "httpx2", "httpx2": "httpx"}[name]
    assert refusal(retries.RetryTransport, transport=import_module(other).HTTPTransport()) == (
        f"transport: {other}.HTTPTransport does not work with {name}; import RetryTransport from "
        f"redrive.integrations.{other}, or use {name}.HTTPTransport()"
    )
    with import_module(other).Client() as client:
        assert f"{other}.Client is a client" in refusal(retries.RetryTransport, transport=client)


@each_library
def test_what_is_nothing_of_the_kind(name: str) -> None:
    library, retries = import_module(name), import_module(f"redrive.integrations.{name}")
    assert refusal(retries.RetryTransport, transport=library.HTTPTransport) == (
        f"transport: {name}.HTTPTransport is a class, not a transport; write transport={name}.HTTPTransport() instead"
    )
    for given in ("http://127.0.0.1", 5, object()):
        assert refusal(retries.AsyncRetryTransport, transport=given) == (
            f"transport: {type(given).__name__} is not a transport of {name}.AsyncClient, which has "
            f"handle_async_request(); use {name}.AsyncHTTPTransport() or one of your own"
        )
    assert refusal(retries.RetryTransport, library.HTTPTransport()) == (
        f"policy: {name}.HTTPTransport is a transport, not a policy; write RetryTransport(transport=...) with its name"
    )


@each_library
def test_a_client_of_the_other_kind(name: str) -> None:
    library, retries = import_module(name), import_module(f"redrive.integrations.{name}")

    async def entered() -> None:
        async with library.AsyncClient(transport=retries.RetryTransport()):
            raise AssertionError("it was entered")

    async def asked() -> None:
        await library.AsyncClient(transport=retries.RetryTransport()).get("http://127.0.0.1:1")

    for run in (entered, asked):
        assert refusal(asyncio.run, run()) == (
            f"transport: RetryTransport is for {name}.Client; with {name}.AsyncClient, write AsyncRetryTransport()"
        )
    client = library.Client(transport=retries.AsyncRetryTransport())
    for use in (client.__enter__, lambda: library.Client(transport=retries.AsyncRetryTransport()).get("http://a")):
        assert refusal(use).endswith(f"with {name}.Client, write RetryTransport()")


@each_library
def test_transports_of_ones_own_are_used(name: str) -> None:
    """Whatever has the method will do, and a transport for both kinds serves both."""
    library, retries = import_module(name), import_module(f"redrive.integrations.{name}")

    class Own:
        def handle_request(self, request: Any) -> Any:
            return library.Response(204)

    assert retries.RetryTransport(transport=Own()).handle_request(library.Request("GET", "http://a")).status_code == 204
    both = library.MockTransport(lambda request: library.Response(202))
    assert library.Client(transport=retries.RetryTransport(transport=both)).get("http://a").status_code == 202
    assert isinstance(retries.AsyncRetryTransport(transport=both), library.AsyncBaseTransport)
    derived = type("Derived", (library.HTTPTransport,), {})()
    with FlakyServer(then=200) as server, library.Client(transport=retries.RetryTransport(transport=derived)) as own:
        assert own.get(server.url).status_code == 200
