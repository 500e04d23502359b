"""One attempt of an HTTP step against a real server, as the engine would make it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from redrive import Policy
from redrive.failures import Failure
from redrive.flows.graphs.spec import HttpHandler
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.runners.attempt import Attempt
from redrive.runners.http.answers import Accepted
from redrive.runners.http.errors import HttpStepError
from redrive.runners.http.http_runner import HttpRunner
from redrive.runners.http.settings import HttpSettings

DELIVERY = "0123456789abcdef0123456789abcdef"
LOCAL = HttpSettings(allow=("127.0.0.0/8",))


def attempt_to_make(
    number: int = 1, step: str = "reserve", timeout: float | None = 20.0, policy: Policy = DURABLE_DEFAULT
) -> Attempt:
    return Attempt(
        flow_id="flow-1",
        item=7,
        step=step,
        number=number,
        delivery_token=DELIVERY,
        policy=policy,
        timeout=timeout,
        timeout_at=None,
        details=None,
        on_beat=lambda *_: None,
    )


async def call_with(
    runner: HttpRunner, endpoint: str, inputs: Any = None, attempt: Attempt | None = None, **handler: Any
) -> Any:
    """What the attempt gave as plain data, or the Accepted; failures are raised."""
    body = msgspec.json.encode(inputs or {}).decode()
    answer = await runner.call(HttpHandler(endpoint=endpoint, **handler), attempt or attempt_to_make(), body)
    return answer if isinstance(answer, Accepted) else msgspec.json.decode(answer)


@asynccontextmanager
async def http_runner(
    settings: HttpSettings = LOCAL, *, may_call: Callable[[], bool] = lambda: True
) -> AsyncIterator[HttpRunner]:
    runner = HttpRunner(settings, may_call)
    try:
        yield runner
    finally:
        await runner.close()


async def call(endpoint: str, inputs: Any = None, *, settings: HttpSettings = LOCAL, **options: Any) -> Any:
    async with http_runner(settings) as runner:
        return await call_with(runner, endpoint, inputs, **options)


def outcome(endpoint: str, inputs: Any = None, **options: Any) -> Any:
    return asyncio.run(call(endpoint, inputs, **options))


def failure(endpoint: str, inputs: Any = None, **options: Any) -> Failure:
    """What the attempt failed with."""
    with pytest.raises(HttpStepError) as raised:
        outcome(endpoint, inputs, **options)
    assert str(raised.value) == raised.value.failure.message
    return raised.value.failure
