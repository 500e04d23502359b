"""Requests to handlers are signed by the engine, and verified by the handler side."""

import asyncio
import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.runners.http.step_calls import DELIVERY, attempt_to_make, call_with, http_runner

import redrive
from redrive.calls.ownership_headers import DELIVERY_TOKEN
from redrive.cli import main
from redrive.errors import SignatureError
from redrive.flows.graphs.spec import HttpHandler
from redrive.handlers import Accepted, StepServer, verify_request
from redrive.runners.http.request import CALLBACK, IDEMPOTENCY_KEY, RECEIPT_TOKEN, headers_of
from redrive.runners.http.settings import HttpSettings
from redrive.runners.http.signing import CALLBACK_SIGNATURE, SIGNATURE, Signer, message_id, signature
from redrive.testing import FlakyServer, Reply

OLD, NEW, OTHER = (f"whsec_{base64.b64encode(bytes([number]) * 32).decode()}" for number in range(3))
URL = "https://shop.example.com/steps/reserve"
BODY = b'{"order_id":"17"}'
TOKEN = f"flow-1.7.{DELIVERY}"


def signed(secrets: Any = NEW, body: bytes = BODY, at: float | None = None) -> dict[str, str]:
    """The headers of a request to an asynchronous step."""
    settings = HttpSettings(callback_base="https://redrive.example.com")
    headers = headers_of(HttpHandler(endpoint=URL, mode="async"), attempt_to_make(1), settings)
    message = message_id(headers[RECEIPT_TOKEN], headers[DELIVERY_TOKEN])
    now = time.time() if at is None else at
    return headers | Signer({"https://shop.example.com": secrets}).headers(URL, message, body, now, headers[CALLBACK])


def changed(changes: dict[str, str]) -> dict[str, str]:
    return signed() | changes


def tokens(receipt: str, delivery: str) -> dict[str, str]:
    """The headers that name the tokens."""
    return {RECEIPT_TOKEN: receipt, IDEMPOTENCY_KEY: receipt, DELIVERY_TOKEN: delivery}


@pytest.mark.promise("X11")
def test_what_the_engine_signs_is_verified() -> None:
    for made, known in (([NEW], [NEW]), ([NEW], [OLD, NEW]), ([OLD, NEW], [NEW]), ([OLD, NEW], [OLD])):
        verify_request(signed(made), BODY, known)
    verify_request({name.upper(): value for name, value in signed().items()}, BODY, [NEW])
    verify_request(signed(at=time.time() - 290), BODY, [NEW])


@pytest.mark.promise("X11")
@pytest.mark.parametrize(
    ("headers", "body", "said"),
    [
        (dict, BODY, "not signed: the header webhook-id is missing"),
        (lambda: changed({"webhook-signature": ""}), BODY, "webhook-signature is missing"),
        (lambda: signed(OTHER), BODY, "the signature does not match"),
        (lambda: signed(), b"{}", "the signature does not match"),
        (lambda: changed({"webhook-timestamp": str(int(time.time()) + 1)}), BODY, "does not match"),
        (lambda: changed({"webhook-timestamp": "soon"}), BODY, "not a number of seconds"),
        (lambda: changed({"webhook-signature": "v2,abc"}), BODY, "does not match"),
        # As aiohttp decodes a byte that is not UTF-8.
        (lambda: changed({"webhook-signature": "v1,\udcff"}), BODY, "does not match"),
        (lambda: changed({"webhook-id": "\udcff"}), BODY, "does not match"),
        (lambda: changed({"webhook-signature": "\u00e4"}), BODY, "does not match"),
        (lambda: signed(at=time.time() - 310), BODY, "signed more than 300 s ago"),
        (lambda: signed(at=time.time() + 310), BODY, "or ahead; check the clocks"),
        (lambda: changed({RECEIPT_TOKEN: "flow.9"}), BODY, "the tokens in the headers are not those"),
        (lambda: changed({DELIVERY_TOKEN: "0" * 32}), BODY, "the tokens in the headers are not those"),
        # The same id, made of other tokens.
        (lambda: changed(tokens("flow-1_7", DELIVERY)), BODY, "the tokens in the headers are not those"),
        (lambda: changed(tokens("flow-1", f"7.{DELIVERY}")), BODY, "the tokens in the headers are not those"),
        (lambda: changed({CALLBACK: "https://evil.example/v1/completions/x"}), BODY, "the callback URL is not"),
        (
            lambda: changed({CALLBACK: f"https://evil.example/v1/completions/{TOKEN}"}),
            BODY,
            "the callback URL is not that",
        ),
        (
            lambda: changed({CALLBACK: f"https://redrive.example.com/other/{TOKEN}"}),
            BODY,
            "the callback URL is not that",
        ),
        (lambda: changed({CALLBACK_SIGNATURE: ""}), BODY, "the callback URL is not"),
        (lambda: changed({CALLBACK_SIGNATURE: signed()[SIGNATURE]}), BODY, "the callback URL is not"),
        (lambda: changed({IDEMPOTENCY_KEY: "flow.9"}), BODY, "the idempotency key is not that"),
    ],
)
def test_what_was_changed_is_refused(headers: Callable[[], dict[str, str]], body: bytes, said: str) -> None:
    with pytest.raises(SignatureError, match=said):
        verify_request(headers(), body, [NEW])


@pytest.mark.promise("X11")
def test_the_engine_signs_the_callback_url() -> None:
    async def call(url: str) -> Any:
        settings = HttpSettings(allow=("127.0.0.1",), callback_base="https://redrive.example.com", signing={url: NEW})
        async with http_runner(settings) as runner:
            return await call_with(runner, f"{url}/reserve", mode="async")

    with FlakyServer(then=Reply(status=202)) as server:
        assert isinstance(asyncio.run(call(server.url)), Accepted)
        (seen,) = server.seen
    headers = {name.lower(): value for name, value in seen.headers.items()}
    assert headers[CALLBACK.lower()] == f"https://redrive.example.com/v1/completions/{TOKEN}"
    verify_request(headers, seen.body, [NEW])


@pytest.mark.promise("X11")
def test_the_signature_of_a_callback_signs_no_body() -> None:
    headers = signed()
    body = headers[CALLBACK].encode()
    stolen = {name: value for name, value in headers.items() if name != CALLBACK}
    with pytest.raises(SignatureError, match="does not match"):
        verify_request({**stolen, SIGNATURE: headers[CALLBACK_SIGNATURE]}, body, [NEW])


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of their specification."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("address", "is_signed"),
    [
        ("https://shop.example.com", True),
        ("https://SHOP.example.com:443/", True),
        ("https://shop.example.com/steps", True),
        ("https://shop.example.com/steps/", True),
        ("https://shop.example.com/steps/reserve", True),
        ("https://shop.example.com/step", False),
        ("https://shop.example.com/steps/reserve/more", False),
        ("http://shop.example.com/", False),
        ("https://shop.example.com:8443/", False),
        ("https://shop.example.co/", False),
    ],
)
def test_an_address_stands_for_what_is_below_it(address: str, is_signed: bool) -> None:
    assert bool(Signer({address: NEW}).headers(URL, "m", b"", 0.0)) == is_signed


def test_the_longest_address_decides() -> None:
    signer = Signer({"https://shop.example.com": OLD, "https://shop.example.com/steps/": NEW})
    assert signer.headers(URL, "m", b"", 1.0) == Signer({URL: NEW}).headers(URL, "m", b"", 1.0)


@pytest.mark.parametrize(
    ("signing", "said"),
    [
        ("whsec_x", "use addresses and secrets"),
        ({"shop.example.com": NEW}, "is not an address"),
        ({"https://u:p@shop.example.com": NEW}, "is not an address"),
        ({"https://shop.example.com?x=1": NEW}, "is not an address"),
        ({"https://shop.example.com:99999": NEW}, "is not an address"),
        ({"https://shop.example.com": []}, "has 0 secrets; use 1 to 10"),
        ({"https://shop.example.com": "hunter2"}, "a secret is not valid; use whsec_"),
        ({"https://shop.example.com": "whsec_hunter2"}, "a secret is not valid"),
    ],
)
def test_wrong_secrets_are_refused_and_not_shown(signing: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        HttpSettings(signing=signing)
    assert "hunter2" not in str(raised.value)


def test_secrets_do_not_show() -> None:
    settings = HttpSettings(signing={"https://shop.example.com": [NEW]})
    assert NEW not in repr(settings)
    assert "https://shop.example.com" in repr(settings)
    assert NEW not in str(Signer(settings.signing))


async def reserve(order_id: str) -> dict[str, str]:
    return {"reservation": order_id}


@pytest.mark.promise("X11")
def test_a_step_server_with_secrets_serves_the_engine_and_nobody_else(tmp_path: Path) -> None:
    async def story() -> tuple[Any, list[int], str]:
        async with StepServer(reserve, secrets=[OLD, NEW]) as server:
            step = {"name": "signed_reserve", "endpoint": f"{server.url}/reserve", "inputs": {"order_id": "string"}}
            http = HttpSettings(allow=("127.0.0.1",), signing={server.url: NEW})
            async with redrive.open(f"sqlite:///{tmp_path}/app.db", http=http) as app:
                await app.register_step({**step, "outputs": {"reservation": "string"}})
                handle = await app.start_goals(["signed_reserve"], {"order_id": "17"})
                result = await handle.result(timeout=20)
                log = "".join(str(line) for line in await app.log(handle.id)) + str(await app.explain(handle.id))
            statuses = []
            async with aiohttp.ClientSession() as session:
                for headers in ({}, signed(OTHER), signed(NEW, at=time.time() - 400), signed(OLD)):
                    async with session.post(f"{server.url}/reserve", data=BODY, headers=headers) as answer:
                        statuses.append(answer.status)
        return result, statuses, log

    result, statuses, log = asyncio.run(story())
    assert result == {"reservation": "17"}
    assert statuses == [401, 401, 401, 200]
    assert NEW not in log
    assert NEW.encode() not in (tmp_path / "app.db").read_bytes()


GRAPH = """
graph: signed_order
steps:
  reserve: {endpoint: URL/reserve, inputs: {order: string}, outputs: {reservation: string}}
"""


@pytest.mark.promise("X11")
def test_operators_name_a_file_of_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REDRIVE_STORE", raising=False)
    assert main(["keys", "secret"]) == 0
    secret = capsys.readouterr().out.strip()
    run = ["run", "order.yaml", "--input", '{"order": "o1"}', "--allow", "127.0.0.0/8"]
    with FlakyServer(then=Reply(body={"reservation": "r1"})) as server:
        (tmp_path / "order.yaml").write_text(GRAPH.replace("URL", server.url))
        (tmp_path / "secrets").write_text(
            f"# of the shop\n\n{server.url}/ {secret} {NEW}\nhttps://other.example/ {OLD}\n"
        )
        monkeypatch.setenv("REDRIVE_SIGNING_SECRETS", "secrets")
        assert main(run) == 0
        assert json.loads(capsys.readouterr().out) == {"reservation": "r1"}
        (seen,) = server.seen
        for known in (secret, NEW):
            verify_request(seen.headers, seen.body, [known])
        with pytest.raises(SignatureError):
            verify_request(seen.headers, seen.body, [OLD])
    (tmp_path / "secrets").write_text(f"https://h.example/ whsec_hunter2 {secret}\n")
    assert main(run) == 2
    said = capsys.readouterr().err
    assert "REDRIVE_SIGNING_SECRETS: https://h.example/: a secret is not valid" in said
    assert "hunter2" not in said
    monkeypatch.setenv("REDRIVE_SIGNING_SECRETS", "none")
    assert main(run) == 2
    assert "none cannot be read: No such file" in capsys.readouterr().err
