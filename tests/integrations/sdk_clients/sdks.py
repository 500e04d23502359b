"""The SDKs, each with a client whose own retries are on, and one request that fails."""

import asyncio
import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import msgspec

import redrive
from redrive.integrations.ownership import RetryOwnerWarning
from redrive.testing import FlakyServer, Reply, no_waits

QUICK: dict[str, Any] = {"attempts": 3, "backoff": 0, "jitter": "none", "floor": 0}
# The SDKs of OpenAI and Anthropic wait this long, and so does redrive.
BUSY = Reply(status=503, headers={"retry-after-ms": "1"})
LOST = Reply(fault="close")


class Sdk(msgspec.Struct, frozen=True, kw_only=True):
    """A client, and a request of it."""

    name: str
    client: Callable[[str], Any]
    """Makes a client for the server at this URL."""
    call: Callable[[Any, str], Any]
    """Makes one request, or returns a coroutine that does."""
    integration: str = ""
    """The module with `owned`; empty for redrive's own adapters, which need none."""
    reply: Reply = BUSY
    unlimited: bool = False
    """It retries until its time is over, however many requests that takes."""

    def owned(self, client: Any) -> Any:
        return import_module(f"redrive.integrations.{self.integration}").owned(client)

    def __repr__(self) -> str:
        return self.name


class Measured(msgspec.Struct, frozen=True):
    requests: int
    warned: bool


def measure(sdk: Sdk, *, owned: bool) -> Measured:
    """Call the SDK in a guard of three attempts, and count what arrives at the server."""
    with ExitStack() as stack:
        server = stack.enter_context(FlakyServer(then=sdk.reply))
        stack.enter_context(no_waits())
        stack.enter_context(patch("time.sleep", lambda _seconds: None))
        warned = stack.enter_context(recorded_warnings())
        client = sdk.client(server.url)
        if owned:
            client = sdk.owned(client)
        guard = redrive.Retrier(**QUICK)
        try:
            if inspect.iscoroutinefunction(sdk.call):
                asyncio.run(call_and_close(guard, sdk, client, server.url))
            else:
                guard.call(sdk.call, client, server.url)
        except Exception as error:
            if redrive.report_of(error) is None:
                raise
        else:
            raise AssertionError("the request did not fail")
        return Measured(len(server.seen), bool(warned))


async def call_and_close(guard: redrive.Retrier, sdk: Sdk, client: Any, url: str) -> Any:
    try:
        return await guard.acall(sdk.call, client, url)
    finally:
        close = getattr(client, "aclose", None) or getattr(client, "close", None)
        if close is not None:
            await close()


@contextmanager
def recorded_warnings() -> Iterator[list[Any]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", RetryOwnerWarning)
        yield caught


def openai_client(url: str) -> Any:
    import openai

    return openai.OpenAI(api_key="k", base_url=url)


def async_openai_client(url: str) -> Any:
    import openai

    return openai.AsyncOpenAI(api_key="k", base_url=url)


def azure_openai_client(url: str) -> Any:
    import openai

    return openai.AzureOpenAI(api_key="k", azure_endpoint=url, api_version="2025-01-01")


def anthropic_client(url: str) -> Any:
    import anthropic

    return anthropic.Anthropic(api_key="k", base_url=url)


def async_anthropic_client(url: str) -> Any:
    import anthropic

    return anthropic.AsyncAnthropic(api_key="k", base_url=url)


def ask(client: Any, _url: str) -> Any:
    return client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "?"}])


def botocore_client(mode: str) -> Callable[[str], Any]:
    def make(url: str) -> Any:
        from botocore.config import Config  # type: ignore[import-untyped]
        from botocore.session import Session  # type: ignore[import-untyped]

        session = Session()
        session.set_credentials("key", "secret")
        config = Config(retries={"mode": mode})
        return session.create_client("sqs", region_name="eu-west-1", endpoint_url=url, config=config)

    return make


def google_client(url: str) -> Any:
    """The REST client for long-running operations, which google-api-core has itself."""
    from google.api_core.operations_v1 import AbstractOperationsClient
    from google.api_core.operations_v1.transports.rest import OperationsRestTransport
    from google.api_core.retry import Retry
    from google.auth.credentials import AnonymousCredentials

    transport = OperationsRestTransport(host=url, credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]
    for method in transport._wrapped_methods.values():
        # Its own takes minutes.
        method._retry = Retry(initial=0.001, maximum=0.001, timeout=0.2)
    return AbstractOperationsClient(transport=transport)


def google_function(url: str) -> Any:
    """A function with google-api-core's Retry, as code without a generated client uses it."""
    import requests
    from google.api_core.exceptions import from_http_response
    from google.api_core.retry import Retry

    @Retry(initial=0.001, maximum=0.001, timeout=0.2)
    def get() -> Any:
        response = requests.get(url, timeout=5)
        if not response.ok:
            raise from_http_response(response)  # type: ignore[no-untyped-call]
        return response

    return get


def genai_client(url: str) -> Any:
    # Its types are heavy, and warn when they are compiled.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        genai = import_module("google.genai")
    own = {"attempts": 3, "initial_delay": 0.001, "max_delay": 0.001, "jitter": 0}
    return genai.Client(api_key="k", http_options={"base_url": url, "retry_options": own})


def generate(client: Any, _url: str) -> Any:
    return client.models.generate_content(model="m", contents="?")


def async_genai_client(url: str) -> Any:
    return genai_client(url).aio


async def generate_async(client: Any, url: str) -> Any:
    return await generate(client, url)


def stripe_client(url: str) -> Any:
    import stripe

    return stripe.StripeClient("sk_test", base_addresses={"api": url}, max_network_retries=2)


def urllib3_client(_url: str) -> Any:
    import urllib3

    return urllib3.PoolManager()


def requests_session(_url: str) -> Any:
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    session = requests.Session()
    session.trust_env = False
    session.mount("http://", HTTPAdapter(max_retries=Retry(2, status_forcelist=[503], backoff_factor=0)))
    return session


def httpx_client(library: str) -> Callable[[str], Any]:
    def make(_url: str) -> Any:
        transports = import_module(f"redrive.integrations.{library}")
        return import_module(library).Client(transport=transports.RetryTransport(**QUICK), trust_env=False)

    return make


def retrying_session(_url: str) -> Any:
    import requests

    from redrive.integrations.requests import RetryAdapter

    session = requests.Session()
    session.trust_env = False
    session.mount("http://", RetryAdapter(**QUICK))
    return session


def get(session: Any, url: str) -> Any:
    return session.get(url, timeout=5)


async def aiohttp_get(middleware: Any, url: str) -> Any:
    import aiohttp

    async with aiohttp.ClientSession(middlewares=(middleware,)) as session, session.get(url) as response:
        return response.status


def aiohttp_middleware(_url: str) -> Any:
    from redrive.integrations.aiohttp import retry_middleware

    return retry_middleware(**QUICK)


async def list_models(client: Any, _url: str) -> Any:
    return await client.models.list()


async def ask_async(client: Any, url: str) -> Any:
    return await ask(client, url)


SDKS = [
    Sdk(name="openai", integration="openai", client=openai_client, call=lambda client, _: client.models.list()),
    Sdk(name="openai, async", integration="openai", client=async_openai_client, call=list_models),
    Sdk(
        name="openai, Azure",
        integration="openai",
        client=azure_openai_client,
        call=lambda client, _: client.models.list(),
    ),
    Sdk(name="anthropic", integration="anthropic", client=anthropic_client, call=ask),
    Sdk(name="anthropic, async", integration="anthropic", client=async_anthropic_client, call=ask_async),
    *(
        Sdk(
            name=f"botocore, {mode} mode",
            integration="botocore",
            client=botocore_client(mode),
            call=lambda client, _: client.list_queues(),
        )
        for mode in ("standard", "adaptive", "legacy")
    ),
    Sdk(
        name="google-api-core, a client",
        integration="google",
        client=google_client,
        call=lambda client, _: client.get_operation("projects/p/operations/1"),
        unlimited=True,
    ),
    Sdk(
        name="google-api-core, a function with `Retry`",
        integration="google",
        client=google_function,
        call=lambda function, _: function(),
        unlimited=True,
    ),
    Sdk(name="google-genai, `HttpRetryOptions(attempts=3)`", integration="google", client=genai_client, call=generate),
    Sdk(
        name="google-genai, async, `HttpRetryOptions(attempts=3)`",
        integration="google",
        client=async_genai_client,
        call=generate_async,
    ),
    Sdk(
        name="stripe, `max_network_retries=2`",
        integration="stripe",
        client=stripe_client,
        call=lambda client, _: client.v1.customers.retrieve("c"),
    ),
    Sdk(
        name="urllib3, lost connections",
        integration="urllib3",
        reply=LOST,
        client=urllib3_client,
        call=lambda pool, url: pool.request("GET", url),
    ),
    Sdk(
        name="requests, `HTTPAdapter(max_retries=Retry(2, status_forcelist=[503]))`",
        integration="urllib3",
        client=requests_session,
        call=get,
    ),
    Sdk(name="httpx with `RetryTransport`", client=httpx_client("httpx"), call=lambda client, url: client.get(url)),
    Sdk(name="httpx2 with `RetryTransport`", client=httpx_client("httpx2"), call=lambda client, url: client.get(url)),
    Sdk(name="requests with `RetryAdapter`", client=retrying_session, call=get),
    Sdk(name="aiohttp with `retry_middleware`", client=aiohttp_middleware, call=aiohttp_get),
]
