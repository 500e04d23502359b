"""What `explain` says when a policy almost names the error that was not retried."""

import asyncio
from typing import Any

import pytest

from redrive import action
from redrive.testing import flow_app


class CardDeclined(Exception):
    """An error that nothing classifies."""


@action(name="misspelled.call", retry="[ConectionError -> retry: 3]")
async def misspelled() -> None:
    raise ConnectionError("no answer")


@action(name="misspelled.own", retry="[CardDeclind -> retry: 3]")
async def misspelled_own() -> None:
    raise CardDeclined("no")


@action(name="misspelled.unnamed", retry="[ConnectionResetError -> retry: 3]")
async def unnamed() -> None:
    raise ConnectionRefusedError("no answer")


@pytest.mark.parametrize(
    ("work", "advice"),
    [
        (misspelled, "the policy names ConectionError; did you mean ConnectionError?"),
        (misspelled_own, "the policy names CardDeclind; did you mean CardDeclined?"),
        (
            unnamed,
            "the policy does not name it; if a retry may help, add: [ConnectionRefusedError -> retry: 3]",
        ),
    ],
    ids=["built-in", "own", "not named"],
)
def test_the_advice_names_the_slip_and_is_written_as_the_policy_is(work: Any, advice: str) -> None:
    async def story() -> str:
        async with flow_app() as app:
            handle = await app.start(work())
            await app.outcome(handle)
            return (await app.explain(handle.id)).next_steps[0].text

    assert asyncio.run(story()) == advice
