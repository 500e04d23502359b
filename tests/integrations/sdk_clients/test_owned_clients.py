"""`owned` switches off the retries of a client, leaves the rest of it as it was, and says what it does not know."""

import warnings
from importlib import import_module
from typing import Any

import pytest

import redrive
from redrive.integrations import anthropic as owned_anthropic
from redrive.integrations import botocore as owned_botocore
from redrive.integrations import google as owned_google
from redrive.integrations import openai as owned_openai
from redrive.integrations import stripe as owned_stripe
from redrive.integrations import urllib3 as owned_urllib3
from redrive.testing import FlakyServer, Reply

from .sdks import (
    BUSY,
    QUICK,
    azure_openai_client,
    botocore_client,
    google_client,
    openai_client,
    stripe_client,
)

INTEGRATIONS = ("anthropic", "botocore", "google", "openai", "stripe", "urllib3")


@pytest.mark.parametrize("name", INTEGRATIONS)
@pytest.mark.parametrize("wrong", [None, "client", object(), dict], ids=["None", "text", "object", "class"])
def test_what_is_no_client_is_refused_in_one_line(name: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{name}\.owned takes .*, not \w+") as caught:
        import_module(f"redrive.integrations.{name}").owned(wrong)
    assert "\n" not in str(caught.value)


def test_the_class_of_a_client_is_not_the_client() -> None:
    import openai

    with pytest.raises(TypeError, match="pass the client itself, not its class"):
        owned_openai.owned(openai.OpenAI)


def test_a_client_of_another_sdk_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^anthropic\.owned takes a client such as Anthropic\(\).*, not OpenAI$"):
        owned_anthropic.owned(openai_client("http://127.0.0.1:1"))


def test_an_owned_openai_client_shares_connections_and_keeps_its_settings() -> None:
    import openai

    client = openai.AzureOpenAI(
        api_key="k", azure_endpoint="http://127.0.0.1:1", api_version="1", timeout=7, default_headers={"x-team": "a"}
    )
    owned = owned_openai.owned(client)
    assert type(owned) is openai.AzureOpenAI
    assert (owned.max_retries, client.max_retries) == (0, 2)
    assert owned._client is client._client
    assert (owned.timeout, owned.base_url, owned.api_key) == (7, client.base_url, "k")
    assert owned.default_headers["x-team"] == "a"
    assert owned_openai.owned(owned) is owned


def test_the_anthropic_clients_for_a_cloud_are_known() -> None:
    import anthropic

    bedrock = anthropic.AnthropicBedrock(aws_access_key="k", aws_secret_key="s", aws_region="eu-west-1")
    owned = owned_anthropic.owned(bedrock)
    assert isinstance(owned, anthropic.AnthropicBedrock)
    assert (owned.max_retries, owned.aws_region) == (0, "eu-west-1")


@pytest.mark.parametrize("mode", ["standard", "adaptive", "legacy"])
@pytest.mark.parametrize("given", [{}, {"max_attempts": 4}, {"total_max_attempts": 4}], ids=str)
def test_a_config_makes_botocore_clients_that_ask_once(mode: str, given: dict[str, int]) -> None:
    from botocore.config import Config  # type: ignore[import-untyped]
    from botocore.exceptions import ClientError  # type: ignore[import-untyped]
    from botocore.session import Session  # type: ignore[import-untyped]

    config = owned_botocore.owned_config(Config(retries={"mode": mode, **given}, connect_timeout=3))
    session = Session()
    session.set_credentials("key", "secret")
    with FlakyServer(then=503) as server:
        client = session.create_client("sqs", region_name="eu-west-1", endpoint_url=server.url, config=config)
        with pytest.raises(ClientError) as caught:
            client.list_queues()
        assert len(server.seen) == 1
    assert caught.value.response["ResponseMetadata"]["RetryAttempts"] == 0
    assert client.meta.config.connect_timeout == 3
    assert owned_botocore.owned_config().retries == {"total_max_attempts": 1}
    with pytest.raises(TypeError, match=r"takes a botocore\.config\.Config, not dict"):
        owned_botocore.owned_config({})


def test_the_other_clients_of_a_botocore_session_keep_their_retries() -> None:
    owned_botocore.owned(botocore_client("standard")("http://127.0.0.1:1"))
    with FlakyServer(503, then=Reply(body={})) as server:
        botocore_client("standard")(server.url).list_queues()
        assert len(server.seen) == 2


def test_a_single_google_method_is_owned_too() -> None:
    with FlakyServer(then=BUSY) as server:
        transport = google_client(server.url).transport
        method = owned_google.owned(transport._wrapped_methods[transport.get_operation])
        assert method._retry is None
        others = [one._retry for one in transport._wrapped_methods.values() if one is not method]
        assert None not in others


def test_google_clients_over_grpc_are_owned() -> None:
    import grpc  # type: ignore[import-untyped]
    from google.api_core.operations_v1 import OperationsClient

    with grpc.insecure_channel("127.0.0.1:1") as channel:
        client = owned_google.owned(OperationsClient(channel))  # type: ignore[no-untyped-call]
        assert client._get_operation._retry is None
        assert client._list_operations._retry is None
        assert client._get_operation._timeout is not None


def test_a_plain_function_is_no_google_function() -> None:
    with pytest.raises(TypeError, match=r"^google\.owned takes .*, not function$"):
        owned_google.owned(lambda: None)


@pytest.mark.promise("L4")
def test_a_stripe_post_keeps_its_idempotency_key_on_every_attempt() -> None:
    with FlakyServer(503, 503, then=Reply(body={"id": "c_1", "object": "customer"})) as server:
        client = owned_stripe.owned(owned_stripe.owned(stripe_client(server.url)))

        @redrive.retry(**QUICK)
        def create() -> None:
            client.v1.customers.create({"name": "A"})
            client.v1.customers.create({"name": "B"})

        create()
        client.v1.customers.create({"name": "A"})
        client.v1.customers.create({"name": "A"}, {"idempotency_key": "mine"})
        keys = [(seen.body, seen.headers["idempotency-key"]) for seen in server.seen]
    first, second, third, other, outside, own = keys
    assert first == second == third
    assert len({third, other, outside}) == 3
    assert own[1] == "mine"


@pytest.fixture
def global_stripe(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module with its global settings, as it was before anything owned it."""
    import stripe
    from stripe import _api_requestor

    monkeypatch.setattr(_api_requestor._APIRequestor, "_instance", None)
    monkeypatch.setattr(stripe, "max_network_retries", 2)
    monkeypatch.setattr(stripe, "api_key", "sk_test")
    return stripe


@pytest.mark.promise("L4")
def test_the_global_stripe_api_is_owned(global_stripe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its POST requests keep their keys too, also those of an object that it returned."""
    assert owned_stripe.owned(owned_stripe.owned(global_stripe)) is global_stripe
    assert global_stripe.max_network_retries == 0
    customer = Reply(body={"id": "c_1", "object": "customer"})
    with FlakyServer(503, customer, 503, then=customer) as server:
        monkeypatch.setattr(global_stripe, "api_base", server.url)
        made: list[Any] = []

        @redrive.retry(**QUICK)
        def create() -> None:
            made.append(global_stripe.Customer.create(name="A"))
            global_stripe.Customer.modify("c_1", name="B")

        create()
        global_stripe.Customer.create(name="A", idempotency_key="mine")
        keys = {seen.headers["idempotency-key"] for seen in server.seen}
        sent = [(seen.path, seen.headers["idempotency-key"]) for seen in server.seen]
    assert [path for path, _ in sent] == [
        "/v1/customers",
        "/v1/customers",
        "/v1/customers/c_1",
        "/v1/customers",
        "/v1/customers/c_1",
        "/v1/customers",
    ]
    assert sent[0] == sent[1] == sent[3]
    assert sent[2] == sent[4]
    assert sent[-1][1] == "mine"
    assert len(keys) == 3


def test_a_stripe_release_that_keeps_no_key_is_refused(global_stripe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from stripe import _api_requestor

    monkeypatch.delattr(_api_requestor._APIRequestor, "_args_for_request_with_retries")
    client = stripe_client("http://127.0.0.1:1")
    for one in (global_stripe, client):
        with pytest.raises(RuntimeError, match="cannot keep idempotency keys with this release of stripe"):
            owned_stripe.owned(one)
    assert global_stripe.max_network_retries == 2


def redirect_to(path: str) -> Reply:
    return Reply(status=302, headers={"Location": path})


def test_urllib3_still_follows_redirects() -> None:
    import urllib3

    with FlakyServer(redirect_to("/a"), redirect_to("/b"), then=200) as server:
        pool = urllib3.PoolManager()
        pool.request("GET", server.url + "/first")
        # It now holds a connection pool, made with the old setting.
        owned_urllib3.owned(pool)
        assert pool.request("GET", server.url).status == 200
    with FlakyServer(redirect_to("/a"), redirect_to("/b"), then=200) as server:
        assert owned_urllib3.owned(urllib3.PoolManager()).request("GET", server.url).status == 200
    with FlakyServer(then=redirect_to("/a")) as server:
        with pytest.raises(urllib3.exceptions.MaxRetryError, match="too many redirects"):
            owned_urllib3.owned(urllib3.PoolManager()).request("GET", server.url)
        assert len(server.seen) == 4


def test_a_urllib3_manager_with_open_pools_is_owned_too() -> None:
    import urllib3

    with FlakyServer(200, then=Reply(fault="close")) as server:
        manager = urllib3.PoolManager(timeout=7)
        manager.request("GET", server.url)
        owned_urllib3.owned(manager)
        with pytest.raises(urllib3.exceptions.HTTPError):
            manager.request("GET", server.url)
        assert len(server.seen) == 2
        assert manager.connection_pool_kw["timeout"] == 7


@pytest.mark.parametrize("retries", [False, 5, None])
def test_every_form_of_urllib3_setting_is_understood(retries: Any) -> None:
    import urllib3

    with FlakyServer(then=Reply(fault="close")) as server:
        pool = urllib3.PoolManager(retries=retries)
        with pytest.raises(urllib3.exceptions.HTTPError):
            owned_urllib3.owned(pool).request("GET", server.url)
        assert len(server.seen) == 1


def test_azure_clients_keep_their_route() -> None:
    with FlakyServer(then=Reply(status=400)) as server:
        client = owned_openai.owned(azure_openai_client(server.url))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(Exception, match="400"):
                client.chat.completions.create(model="gpt", messages=[])
        assert server.seen[0].path.startswith("/openai/deployments/gpt/chat/completions")
