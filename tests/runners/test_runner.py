"""The runner itself: what it keeps of attempts that are cancelled."""

import asyncio
from typing import Any

import pytest

from redrive.flows.action import Action, Place, action
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.runners.attempt import Attempt
from redrive.runners.runner import Runner


class Heard:
    """What is reported."""

    def __init__(self) -> None:
        self.outcomes: list[Attempt] = []

    def succeeded(self, attempt: Attempt, result: str, read: Any = None) -> None:
        self.outcomes.append(attempt)

    def accepted(self, attempt: Attempt) -> None:
        self.outcomes.append(attempt)

    def failed(self, attempt: Attempt, error: BaseException, **_: Any) -> None:
        self.outcomes.append(attempt)


@action(name="runner.in_loop")
async def in_loop() -> None: ...


@action(name="runner.in_thread")
def in_thread() -> None: ...


def an_attempt(of: Action[Any, Any], place: Place) -> Attempt:
    return Attempt(
        flow_id="flow",
        item=1,
        step=of.name,
        number=1,
        delivery_token="token",
        policy=DURABLE_DEFAULT,
        timeout=None,
        timeout_at=None,
        details=None,
        on_beat=lambda *_: None,
        place=place,
    )


@pytest.mark.parametrize(("called", "place"), [(in_loop, "loop"), (in_thread, "thread")])
def test_an_attempt_that_is_cancelled_before_it_began_leaves_nothing_behind(
    called: Action[Any, Any], place: Place
) -> None:
    async def scenario() -> None:
        heard = Heard()
        runner = Runner(heard, 1, 1)
        attempt = an_attempt(called, place)
        runner.start(called, attempt, "{}")
        runner.cancel(attempt)
        assert await runner.drain(10.0) == []
        assert not runner._cancelled
        assert not heard.outcomes
        await runner.close()

    asyncio.run(scenario())
