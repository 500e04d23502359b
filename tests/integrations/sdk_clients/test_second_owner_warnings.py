"""A library that retries by itself inside a guarded call is told of: once per place, and with what to write."""

import asyncio
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from urllib3.util import Retry

import redrive
from redrive.integrations.openai import owned
from redrive.integrations.ownership import RetryOwnerWarning
from redrive.integrations.urllib3 import owned as owned_pool
from redrive.testing import FlakyServer, Reply, run_flow

from .sdks import BUSY, QUICK, async_openai_client, openai_client, urllib3_client

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.promise("L4"),
]


@pytest.fixture
def told() -> Iterator[list[warnings.WarningMessage]]:
    """The warnings that a program with Python's own filters shows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", RetryOwnerWarning)
        yield caught


@pytest.fixture
def server() -> Iterator[FlakyServer]:
    with FlakyServer(then=BUSY) as server:
        yield server


def fails(function: Any) -> BaseException:
    with pytest.raises(Exception, match=r".*") as caught:
        function()
    return caught.value


def test_each_place_warns_once(server: FlakyServer, told: list[warnings.WarningMessage]) -> None:
    client = openai_client(server.url)

    @redrive.retry(**QUICK)
    def ask() -> Any:
        return client.models.list()

    @redrive.retry(**QUICK)
    def ask_elsewhere() -> Any:
        return client.models.list()

    for _ in range(2):
        fails(ask)
        fails(ask_elsewhere)
    assert len(server.seen) == 2 * 2 * 9
    assert [(one.filename, one.category) for one in told] == [(__file__, RetryOwnerWarning)] * 2
    assert len({one.lineno for one in told}) == 2
    text = str(told[0].message)
    assert "ask is retried by redrive, and by openai too, so the attempts multiply" in text
    assert text.endswith(
        "write client = redrive.integrations.openai.owned(client), "
        "or if it is owned already, remove max_retries= from the call"
    )


def test_an_owned_client_that_is_asked_for_retries_is_told_what_to_remove(
    server: FlakyServer, told: list[warnings.WarningMessage]
) -> None:
    client = owned(openai_client(server.url)).with_options(max_retries=2)
    fails(lambda: redrive.Retrier(**QUICK).call(client.models.list))
    assert "if it is owned already, remove max_retries= from the call" in str(told[0].message)
    with FlakyServer(then=Reply(fault="close")) as lost:
        pool = owned_pool(urllib3_client(""))
        fails(lambda: redrive.Retrier(**QUICK).call(pool.request, "GET", lost.url, retries=Retry(2, backoff_factor=0)))
    assert "if it is owned already, remove retries= from the call" in str(told[1].message)


def test_a_method_of_the_sdk_is_told_of_where_it_is_called(
    server: FlakyServer, told: list[warnings.WarningMessage]
) -> None:
    client, guard = openai_client(server.url), redrive.Retrier(**QUICK)
    for _ in range(2):
        fails(lambda: guard.call(client.models.list))
    fails(lambda: guard.call(client.models.list))

    async def main() -> None:
        async with async_openai_client(server.url) as async_client:
            await guard.acall(async_client.models.list)

    fails(lambda: asyncio.run(main()))
    assert [one.filename for one in told] == [__file__] * 3
    assert len({one.lineno for one in told}) == 3


def test_the_call_that_owns_the_retries_is_named(server: FlakyServer, told: list[warnings.WarningMessage]) -> None:
    client = openai_client(server.url)

    @redrive.retry(**QUICK, operation="inner")
    def inner() -> Any:
        return client.models.list()

    fails(redrive.retry(**QUICK, operation="outer")(inner))
    assert [str(one.message).split()[0] for one in told] == ["outer"]


def test_errors_of_the_users_own_are_looked_into(server: FlakyServer, told: list[warnings.WarningMessage]) -> None:
    client = openai_client(server.url)

    class ModelAway(Exception):
        pass

    @redrive.retry(**QUICK, retry_on=ModelAway)
    def ask() -> Any:
        try:
            return client.models.list()
        except Exception as error:
            raise ModelAway from error

    fails(ask)
    assert len(told) == 1


def test_one_owner_is_no_reason_to_warn(server: FlakyServer, told: list[warnings.WarningMessage]) -> None:
    """Neither an SDK that retries where redrive does not, nor the other way round, nor what succeeded."""
    client = openai_client(server.url)
    once = redrive.Retrier(attempts=1)
    fails(lambda: once.call(client.models.list))
    assert len(server.seen) == 3
    fails(lambda: redrive.Retrier(**QUICK).call(owned(client).models.list))
    with FlakyServer(BUSY, then=Reply(body={"data": [], "object": "list"})) as recovering:
        redrive.Retrier(**QUICK).call(openai_client(recovering.url).models.list)
        assert len(recovering.seen) == 2
    assert told == []


def test_a_filter_that_makes_it_an_error_is_obeyed(server: FlakyServer) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RetryOwnerWarning)
        error = fails(lambda: redrive.Retrier(**QUICK).call(openai_client(server.url).models.list))
    assert isinstance(error, RetryOwnerWarning)
    assert type(error.__context__).__name__ == "InternalServerError"
    assert len(server.seen) == 3


def test_redirects_are_no_retries(told: list[warnings.WarningMessage]) -> None:
    redirected = [Reply(status=302, headers={"Location": f"/{hop}"}) for hop in "abc"]
    with FlakyServer(*redirected, then=Reply(fault="close")) as server:
        retries = Retry(redirect=5, connect=0, read=0, total=None)
        fails(lambda: redrive.Retrier(**QUICK).call(urllib3_client("").request, "GET", server.url, retries=retries))
    assert told == []


@pytest.mark.parametrize("fault", ["reset", "close", "garbage", "cut_body"])
def test_a_session_of_requests_without_retries_is_none_either(fault: Any, told: list[warnings.WarningMessage]) -> None:
    """urllib3 raises its errors anew, which must not look like another request."""
    with FlakyServer(then=Reply(fault=fault, body={"a": 1})) as server, requests.Session() as session:
        fails(lambda: redrive.Retrier(**QUICK).call(session.get, server.url, timeout=5))
        assert len(server.seen) == 3
    assert told == []


def test_an_sdk_around_a_retrying_transport_is_told_of(told: list[warnings.WarningMessage]) -> None:
    import httpx2
    import openai

    from redrive.integrations.httpx2 import RetryTransport

    def ask(url: str, **settings: Any) -> None:
        http = httpx2.Client(transport=RetryTransport(**QUICK), trust_env=False)
        fails(openai.OpenAI(api_key="k", base_url=url, http_client=http, **settings).models.list)

    with FlakyServer(then=BUSY) as server:
        ask(server.url)
        assert len(server.seen) == 9
        assert "by openai too" in str(told[0].message)
        assert [one.filename for one in told] == [__file__]
        ask(server.url, max_retries=0)
        assert len(server.seen) == 9 + 3
    assert len(told) == 1


@redrive.action(name="sdk.ask", retry=redrive.Policy(attempts=3))
def ask_model(url: str, one_owner: bool) -> None:
    client = openai_client(url)
    (owned(client) if one_owner else client).models.list()


@redrive.workflow(name="sdk.Asking")
class Asking(redrive.Workflow):
    async def run(self, url: str, one_owner: bool) -> None:
        await self.run_action(ask_model(url, one_owner))


@pytest.mark.parametrize(("one_owner", "requests"), [(False, 9), (True, 3)])
def test_durable_actions_warn_too(
    server: FlakyServer, told: list[warnings.WarningMessage], one_owner: bool, requests: int
) -> None:
    outcome = run_flow(Asking.call(server.url, one_owner))
    assert outcome.status == "failed"
    assert len(server.seen) == requests
    assert [one.filename for one in told] == ([] if one_owner else [__file__])
