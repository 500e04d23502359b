"""Three processes that allow three attempts each make three calls, not twenty-seven."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from redrive.testing import FlakyServer

ROOT = Path(__file__).parents[3]


@contextmanager
def service(kind: str, next_url: str, ownership: str) -> Iterator[str]:
    """Run a link of the chain; yields the line that it prints."""
    command = [sys.executable, "-m", "tests.integrations.chain.service", kind, next_url, ownership]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own command
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def requests_at_the_end(middle: str, last: str, ownership: str) -> int:
    with (
        FlakyServer(then=503) as server,
        service(last, server.url, ownership) as last_url,
        service(middle, last_url, ownership) as middle_url,
        service("first", middle_url, ownership) as answer,
    ):
        assert json.loads(answer) == 503
        return len(server.seen)


@pytest.mark.promise("L4")
@pytest.mark.parametrize(("middle", "last"), [("fastapi", "flask"), ("step", "fastapi")])
def test_three_times_three_times_three_is_three(middle: str, last: str) -> None:
    assert requests_at_the_end(middle, last, "yes") == 3


def test_without_the_headers_the_attempts_multiply() -> None:
    assert requests_at_the_end("flask", "fastapi", "no") == 27
